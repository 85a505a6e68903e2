"""Rebalance: gives leaderships back to the preferred replicas where too many have gone elsewhere.

A flow in the controller's term; which partitions get a preferred election is decided by `leader_balance`. It must not
know what time it is: who runs the controller calls it, every leader.imbalance.check.interval.seconds.

Source: Kafka's KafkaController.checkAndTriggerAutoLeaderRebalance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.controller.decide.leader_balance import BrokerBalance, balances
from kavka.controller.decide.requested_election import ElectionType
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.elections import Elections
from kavka.controller.work.reassignments import Reassignments
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode

FIRST_CHECK_MS: Final = 5_000
"""Kafka's: how long after a controller's election the balance is looked at first."""


class Rebalance:
    """The check and its elections, in one term. `limit_percent` reads leader.imbalance.per.broker.percentage."""

    def __init__(
        self,
        term: ControllerTerm,
        elections: Elections,
        reassignments: Reassignments,
        *,
        limit_percent: Callable[[], int],
    ) -> None:
        self._term = term
        self._elections = elections
        self._reassignments = reassignments
        self._limit_percent = limit_percent

    async def run(self) -> None:
        """Looks at the balance once. Raises NotController, ZooKeeperError."""
        async with self._term.turn:
            limit_percent = self._limit_percent()
            found = balances(
                self._term.context, limit_percent=limit_percent, reassigning=self._reassignments.any_under_way
            )
        for balance in found:
            if balance.to_elect:
                done = await self._elections.elect(ElectionType.PREFERRED, balance.to_elect)
                moved = sum(outcome.code is ErrorCode.NONE for outcome in done.outcomes.values())
                self._note(balance, limit_percent, moved)

    def _note(self, balance: BrokerBalance, limit_percent: int, moved: int) -> None:
        why = (
            f"other brokers led {len(balance.elsewhere)} of the {balance.preferred_count} partitions that prefer "
            f"broker {balance.broker_id}, {100 * balance.imbalance:.0f} % where {limit_percent} % are allowed: it "
            f"leads {moved} of them again"
        )
        self._term.record(
            Decision(
                DecisionKind.LEADERS_REBALANCED,
                self._term.now_ms(),
                self._term.broker_id,
                why,
                about_broker=balance.broker_id,
                controller_epoch=self._term.context.epoch,
                evidence={
                    "preferred": balance.preferred_count,
                    "elsewhere": len(balance.elsewhere),
                    "limit_percent": limit_percent,
                    "moved": moved,
                    "left_out": len(balance.left_out),
                },
            )
        )
