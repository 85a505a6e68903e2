"""UpdateFeatures (key 57): changes the levels of features, or switches one off.

Behaviour   A safe downgrade that would switch off a kind of groups is INVALID_REQUEST while a group of that kind has
            members, or is a share group, whose positions nobody could use: an unsafe one does it (Apache Kafka makes no
            difference between the two here). So is one of share.version below 2 while a group has a dead-letter topic:
            what it gives up would be lost; or while a dead letter is due: earlier versions cannot read the state of its
            record. The other rules are in `controller.decide.feature_levels`. Up to version 1
            each feature succeeds or fails for itself. From version 2 on one refusal leaves all features unchanged, and
            the error stands above all, as INVALID_UPDATE_VERSION where the level
            may not be set. The answer comes when this broker shows the new levels to clients, or after
            AWAIT_LEVELS_S. Only the controller answers; others say NOT_CONTROLLER.
Versions    0 allow_downgrade; 1 kinds of updates and validate_only (KIP-778); 2 one error for all (KIP-1022).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from kavka.broker.metadata.features import SHARE_VERSION
from kavka.config.group import DEAD_LETTERS_FROM
from kavka.controller.decide.feature_levels import FeatureUpdate, UpgradeType
from kavka.controller.term.controller_term import NotController
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kavka.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from kavka.zookeeper.znode_paths import GROUPS_ENTITY

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request

AWAIT_LEVELS_S: Final = 1.0
"""How long an answer waits for this broker's own view of what was written."""
FIRST_VERSION_FOR_ALL: Final = 2


def handle(
    broker: ClusterBroker, request: Request, message: UpdateFeaturesRequest
) -> Awaitable[UpdateFeaturesResponse]:
    return _update(broker, message, request.header.api_version)


async def _update(broker: ClusterBroker, message: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    for_all = version >= FIRST_VERSION_FOR_ALL
    try:
        wishes = [_wish(update, version) for update in message.feature_updates]
        if broker.controller.is_active:
            for wish in wishes:
                await _refuse_loss(broker, wish)
        outcomes, zxid = await broker.controller.features.update(
            wishes,
            validate_only=message.validate_only,
            all_or_nothing=for_all,
        )
    except NotController as not_controller:
        return _failed(ErrorCode.NOT_CONTROLLER, str(not_controller))
    except RequestError as refused:
        return _failed(refused.code, refused.message)
    except ZooKeeperError as failure:
        return _failed(ErrorCode.FEATURE_UPDATE_FAILED, f"whether it was written is not known: {failure}")
    await broker.features.await_epoch(zxid, AWAIT_LEVELS_S)
    if for_all:
        for name, refusal in outcomes.items():
            if refusal is not None:
                code = ErrorCode.INVALID_UPDATE_VERSION if refusal.code is ErrorCode.INVALID_REQUEST else refusal.code
                return _failed(code, f"nothing was changed, because of {name}: {refusal.message}")
        return UpdateFeaturesResponse(error_message=None)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(
                feature=name,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
            )
            for name, refusal in outcomes.items()
        ],
    )


async def _refuse_loss(broker: ClusterBroker, wish: FeatureUpdate) -> None:
    """Raises `RequestError` for a safe downgrade that would not be safe."""
    if wish.upgrade_type != UpgradeType.SAFE_DOWNGRADE:
        return
    if wish.name == SHARE_VERSION and wish.level < DEAD_LETTERS_FROM:
        await _refuse_lost_letters(broker)
    if wish.level != 0:
        return
    groups = await broker.group_census.in_use(wish.name)
    if groups:
        count = "1 group" if len(groups) == 1 else f"{len(groups)} groups"
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"{count} could not go on without {wish.name}, for example {groups[0]}: end or delete what is in use, or "
            "ask for an unsafe downgrade",
        )


async def _refuse_lost_letters(broker: ClusterBroker) -> None:
    configs = broker.configs
    with_letters = [
        group_id
        for group_id in configs.named(GROUPS_ENTITY)
        if configs.group(group_id).get("errors.deadletterqueue.topic.name")
    ]
    if with_letters:
        count = "1 group has a" if len(with_letters) == 1 else f"{len(with_letters)} groups have a"
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"{count} dead-letter topic, for example {with_letters[0]}: what they give up would be lost. Take their "
            "errors.deadletterqueue.topic.name back, or ask for an unsafe downgrade",
        )
    waiting = await broker.group_census.with_due_letters()
    if waiting:
        count = "1 group has" if len(waiting) == 1 else f"{len(waiting)} groups have"
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"{count} records whose dead letters are not written yet, for example {waiting[0]}: earlier versions "
            "cannot read their states. Have a member of the group fetch, wait until they are written or given up, and "
            "try again, or ask for an unsafe downgrade",
        )


def _wish(update: FeatureUpdateKey, version: int) -> FeatureUpdate:
    upgrade_type = update.upgrade_type
    if version == 0:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(update.feature, update.max_version_level, upgrade_type)


def _failed(code: ErrorCode, message: str) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code, error_message=message)
