"""IsrChanges: sends the leaders' ISR proposals, in batches, one request at a time.

Decides only when a batch is sent and what is sent again. The partition decides what an answer means for it. Must not
know whether a proposal goes to the controller or to ZooKeeper: that is the `IsrWriter`.

    I1  one request is in flight; what is proposed meanwhile waits for the next
    I2  one proposal per partition waits: a newer one, of a newer leader epoch, takes the place of an older
    I3  a proposal is sent again, unchanged, until there is an answer or nobody wants it any more: only the answer tells
        whether it is stored

Source: KIP-497, Kafka's AlterPartitionManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kavka.errors import InvariantViolation
from kavka.logger import Logger
from kavka.model import TopicPartition
from kavka.replication.decide.isr_states import IsrAnswer, IsrProposal, IsrUnknown

logger = Logger(__name__)

MAX_PROPOSALS_AT_ONCE: Final = 2_000
"""Proposals of one request: with the longest topic names half a megabyte, below ZooKeeper's and Kafka's limits."""
RETRY_MS: Final = 50
"""How long after a failure it is sent again; Kafka's constant."""


class IsrWriter(Protocol):
    """Stores ISRs."""

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        """One answer per proposal, in their order. Raises nothing that the world can cause: that is `IsrUnknown`.

        Writing a proposal again that is stored already answers `IsrCommitted`.
        """
        ...


class IsrChanges:
    """The waiting proposals, and the flow that sends them.

    `on_answer` gets every awaited answer. `wants` returns whether a proposal is still awaited.
    """

    def __init__(
        self,
        *,
        wants: Callable[[IsrProposal], bool],
        on_answer: Callable[[IsrProposal, IsrAnswer], None],
    ) -> None:
        self._wants = wants
        self._on_answer = on_answer
        # As many as there are partitions led here, at most (I2).
        self._waiting: dict[TopicPartition, IsrProposal] = {}
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Proposals that wait to be sent (again)."""
        return len(self._waiting)

    def submit(self, proposal: IsrProposal) -> None:
        """Sends `proposal` with the next request."""
        self._waiting[proposal.topic_partition] = proposal
        self._arrived.set()

    async def run(self, writer: IsrWriter) -> None:
        """Sends proposals until cancelled."""
        while True:
            await self._arrived.wait()
            batch = self._take()
            if not batch:
                continue
            answers = await writer.write(batch)
            if len(answers) != len(batch):
                raise InvariantViolation(f"{len(batch)} ISR proposals got {len(answers)} answers")
            if self._deal_out(batch, answers):
                await asyncio.sleep(RETRY_MS / 1000)

    def _take(self) -> list[IsrProposal]:
        batch = []
        for topic_partition in list(self._waiting)[:MAX_PROPOSALS_AT_ONCE]:
            proposal = self._waiting.pop(topic_partition)
            if self._wants(proposal):
                batch.append(proposal)
        if not self._waiting:
            self._arrived.clear()
        return batch

    def _deal_out(self, batch: Sequence[IsrProposal], answers: Sequence[IsrAnswer]) -> bool:
        """Passes the outcome to those who wait. Returns whether something must be sent again."""
        unknown = 0
        for proposal, answer in zip(batch, answers, strict=True):
            self._on_answer(proposal, answer)
            if isinstance(answer, IsrUnknown) and self._wants(proposal):
                unknown += 1
                self._waiting.setdefault(proposal.topic_partition, proposal)
                self._arrived.set()
                if unknown == 1:
                    logger.info(
                        "isr change sent again",
                        partition=str(proposal.topic_partition),
                        isr=list(proposal.isr),
                        why=answer.why,
                    )
        return unknown > 0
