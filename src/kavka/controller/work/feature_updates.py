"""FeatureUpdates: changes of feature levels that clients ask for, written to /feature by the controller.

A flow in the controller's term; what is allowed is decided by `feature_levels`. The brokers learn of a change by their
watch on /feature.

    I1  a change is written by compare-and-set: what another one wrote meanwhile is read and judged again
    I2  after a write whose outcome is unknown, what is in /feature decides whether it was done

Source: Kafka's KafkaController.updateFeatures; KIP-584.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from kavka.controller.decide.feature_levels import FeatureUpdate, updated
from kavka.controller.term.controller_term import ControllerTerm
from kavka.errors import ErrorCode, RequestError
from kavka.zookeeper.port import BadVersion, NodeExists, NoNode, OutcomeUnknown, SetData, Stat
from kavka.zookeeper.znodes import FeatureNode, MalformedZNode

MAX_ATTEMPTS: Final = 10
"""How often an update is judged anew because /feature was written meanwhile, or its outcome is unknown."""


class FeatureUpdates:
    """Changes feature levels in one term."""

    def __init__(self, term: ControllerTerm) -> None:
        self._term = term

    async def update(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False, all_or_nothing: bool = False
    ) -> tuple[dict[str, RequestError | None], int]:
        """What became of each update (None: it is done), by name; and the zxid of /feature as it is now.

        With `all_or_nothing` one that is refused leaves them all undone. Raises NotController, and ZooKeeperError where
        it stays unknown whether they were written; RequestError (FEATURE_UPDATE_FAILED) where /feature cannot be read.
        """
        async with self._term.turn:
            for attempt in range(MAX_ATTEMPTS):
                node, stat = await self._read()
                wanted, outcomes = self._judge(node, updates)
                refused = any(outcome is not None for outcome in outcomes.values())
                if validate_only or wanted == node or (refused and all_or_nothing):
                    return outcomes, stat.mzxid
                try:
                    (written,) = await self._term.write([SetData(FeatureNode.PATH, wanted.encode(), stat.version)])
                except BadVersion:
                    continue
                except OutcomeUnknown:
                    if attempt == MAX_ATTEMPTS - 1:
                        raise
                    found, found_stat = await self._read()
                    if found == wanted:
                        return outcomes, found_stat.mzxid
                    continue
                assert isinstance(written, Stat)
                return outcomes, written.mzxid
        raise RequestError(
            ErrorCode.FEATURE_UPDATE_FAILED,
            f"others changed {FeatureNode.PATH} {MAX_ATTEMPTS} times meanwhile; try again",
        )

    def _judge(
        self, node: FeatureNode, updates: Sequence[FeatureUpdate]
    ) -> tuple[FeatureNode, dict[str, RequestError | None]]:
        brokers = [live.registration.features for live in self._term.context.brokers.values()]
        outcomes: dict[str, RequestError | None] = {}
        times = Counter(update.name for update in updates)
        for update in updates:
            try:
                if times[update.name] > 1:
                    raise RequestError(ErrorCode.INVALID_REQUEST, f"{update.name} is named {times[update.name]} times")
                node = updated(node, update, brokers)
            except RequestError as refusal:
                outcomes[update.name] = refusal
            else:
                outcomes[update.name] = None
        return node, outcomes

    async def _read(self) -> tuple[FeatureNode, Stat]:
        zookeeper = self._term.zookeeper
        while True:
            try:
                data, stat = await zookeeper.get(FeatureNode.PATH)
                return FeatureNode.decode(data), stat
            except NoNode:
                # A term begins with making it: somebody has deleted it by hand.
                try:
                    await zookeeper.create(FeatureNode.PATH, FeatureNode(enabled=True).encode())
                except NodeExists:
                    continue
            except MalformedZNode as malformed:
                raise RequestError(ErrorCode.FEATURE_UPDATE_FAILED, str(malformed)) from malformed
