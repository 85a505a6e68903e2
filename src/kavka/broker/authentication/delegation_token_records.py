"""TokenRecords: what changes of delegation tokens leave behind, and what refused ones do. Why-records without HMACs.

Decides which refusal is recorded: the first of a minute for each principal, host, kind of request and error; the others
are counted, and the next record says how many there were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kavka.decisions import Decision, DecisionKind, Fact, RecordDecision, Repeats
from kavka.errors import ErrorCode
from kavka.model import BrokerId
from kavka.security.delegation_tokens import Token


class Asker(NamedTuple):
    """Who asked, and from where."""

    principal: str
    host: str


class TokenRecords:
    """Records them with `record`, for broker `broker_id`. `now_ms` never goes back: a minute is one, however the clock
    on the wall is set."""

    def __init__(
        self, broker_id: BrokerId, record: RecordDecision, *, now_ms: Callable[[], int], wall_ms: Callable[[], int]
    ) -> None:
        self._broker_id = broker_id
        self._record = record
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._repeats = Repeats()

    def created(self, token: Token, by: Asker) -> None:
        self._changed("created", token, by, after=token)

    def changed(self, before: Token, after: Token | None, by: Asker) -> None:
        """Renewed, or given another end, or removed (None)."""
        what = "removed" if after is None else "renewed" if after.expires_ms >= before.expires_ms else "shortened"
        self._changed(what, before, by, before=before, after=after)

    def expired(self, token: Token) -> None:
        """The controller removed it, because its time was over."""
        self._changed("removed", token, None, before=token)

    def _changed(
        self, what: str, token: Token, by: Asker | None, *, before: Token | None = None, after: Token | None = None
    ) -> None:
        now_ms = self._wall_ms()
        if by is None:
            sentence = f"the controller removed delegation token {token.token_id} of {token.owner}: it has expired"
        elif after is None:
            sentence = f"{by.principal} from host {by.host} removed delegation token {token.token_id} of {token.owner}"
        else:
            left_s = max(after.rest_ms(now_ms), 0) // 1000
            sentence = (
                f"{by.principal} from host {by.host} {what} delegation token {token.token_id} of {token.owner}, "
                f"good for {left_s} s"
            )
        evidence: dict[str, Fact] = {
            "token": token.token_id,
            "owner": str(token.owner),
            "requester": str(token.requester),
            "renewers": [str(renewer) for renewer in token.renewers],
        }
        if by is not None:
            evidence |= {"principal": by.principal, "host": by.host}
        self._record(
            Decision(
                DecisionKind.TOKEN_CHANGED,
                now_ms,
                self._broker_id,
                sentence,
                about_broker=self._broker_id,
                before=_times(before),
                after=_times(after),
                evidence=evidence,
            )
        )

    def refused(self, request: str, error: ErrorCode, by: Asker) -> None:
        """A request about a token was refused."""
        now_ms = self._now_ms()
        kind = (*by, request, error)
        unrecorded = self._repeats.since_last(kind, now_ms)
        if unrecorded is None:
            return
        self._repeats.record(kind, now_ms)
        self._record(
            Decision(
                DecisionKind.TOKEN_REFUSED,
                self._wall_ms(),
                self._broker_id,
                f"{by.principal} from host {by.host} asked for {request} and was refused: {error.name}",
                about_broker=self._broker_id,
                evidence={
                    "principal": by.principal,
                    "host": by.host,
                    "request": request,
                    "error": error.name,
                    "unrecorded_before": unrecorded,
                },
            )
        )


def _times(token: Token | None) -> dict[str, Fact]:
    return {} if token is None else {"expires_ms": token.expires_ms, "max_ms": token.max_ms}
