"""AlterUserScramCredentials (key 51): sets and deletes users' SCRAM credentials (KIP-554).

Behaviour   Only the controller answers; other brokers say NOT_CONTROLLER for each user. Each user's wishes are carried
            out together or not at all; `kavka.security.scram_credentials` has what may be refused. When the answer goes
            out, the credentials are written; brokers take them in a moment later. Connections stay as they are. The
            password itself is never sent: the client salts it. REQUEST_TIMED_OUT: ZooKeeper did not say whether it is
            written.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.api.zookeeper_patience import Patience
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.logger import Logger
from kavka.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from kavka.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kavka.security.scram_credentials import Deletion, Upsertion, Wish, changed, refusals
from kavka.zookeeper.port import RequestTooLarge

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request

logger = Logger(__name__)

_NOTHING_WRONG = ""
"""What Kafka says of a user whose wishes were carried out."""


def handle(
    broker: SecurityBroker, request: Request, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse | Awaitable[AlterUserScramCredentialsResponse]:
    wishes: list[Wish] = [Deletion(wish.name, wish.mechanism) for wish in message.deletions]
    wishes += [
        Upsertion(wish.name, wish.mechanism, wish.iterations, bytes(wish.salt), bytes(wish.salted_password))
        for wish in message.upsertions
    ]
    users = dict.fromkeys(wish.user for wish in wishes)
    if not broker.controller.is_active:
        return _answer(dict.fromkeys(users, RequestError(ErrorCode.NOT_CONTROLLER, "")))
    return _alter(broker, wishes, request.context.principal)


async def _alter(broker: SecurityBroker, wishes: Sequence[Wish], principal: str) -> AlterUserScramCredentialsResponse:
    outcomes: dict[str, RequestError | None] = dict(refusals(wishes))
    by_user: dict[str, list[Wish]] = {}
    for wish in wishes:
        by_user.setdefault(wish.user, []).append(wish)
    patience = Patience()
    for user, own in by_user.items():
        if user in outcomes:
            continue
        try:
            await patience.wait(broker.configs.change_user(user, partial(changed, wishes=own)))
            outcomes[user] = None
            logger.info("user's credentials changed", user=user, by=principal, wishes=len(own))
        except RequestError as refused:
            outcomes[user] = refused
        except RequestTooLarge as failure:
            outcomes[user] = RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the salt is too long: {failure}")
        except ZooKeeperError as failure:
            outcomes[user] = RequestError(
                ErrorCode.REQUEST_TIMED_OUT, f"whether it was written is not known: {failure}"
            )
    return _answer(outcomes)


def _answer(outcomes: dict[str, RequestError | None] | dict[str, RequestError]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=_NOTHING_WRONG if refusal is None else refusal.message or None,
            )
            for user, refusal in outcomes.items()
        ]
    )
