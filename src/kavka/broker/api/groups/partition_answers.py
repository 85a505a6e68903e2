"""The answers of a request about partitions, one for each: what OffsetCommit, OffsetDelete and TxnOffsetCommit share.
Not an API.

A partition that does not exist is refused at once. The others are accepted, and their errors are filled in when the
coordinator has decided, in the order of the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kavka.coordinator.groups.offsets.decide.commits import OffsetToCommit
from kavka.errors import ErrorCode

if TYPE_CHECKING:
    from kavka.broker.metadata.metadata_cache import MetadataCache


class Answer(Protocol):
    """A partition's part of the response."""

    error_code: int

    def __init__(self, *, partition_index: int, error_code: ErrorCode) -> None: ...


AnyAnswer = TypeVar("AnyAnswer", bound=Answer)


class PartitionAnswers(Generic[AnyAnswer]):
    """`accepted` are the topics' names and the request's partitions that the coordinator may decide about."""

    def __init__(self, metadata: MetadataCache, answer: type[AnyAnswer]) -> None:
        self.accepted: list[tuple[str, Any]] = []
        self._metadata = metadata
        self._answer = answer
        self._open: list[AnyAnswer] = []

    def of_topic(self, name: str | None, partitions: Iterable[Any]) -> list[AnyAnswer]:
        """The answers of one topic's partitions. No name: nothing has the topic's id."""
        answers = []
        for partition in partitions:
            answer = self._answer(partition_index=partition.partition_index, error_code=ErrorCode.NONE)
            answers.append(answer)
            if name is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            elif self._metadata.partition(name, partition.partition_index) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self.accepted.append((name, partition))
                self._open.append(answer)
        return answers

    def offsets(self) -> list[OffsetToCommit]:
        """What is to be committed of the accepted partitions; to be asked for in the step in which they were
        accepted: a topic's id is that of the name."""
        return [
            OffsetToCommit(
                name,
                partition.partition_index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata,
                self._metadata.topic_id(name),
            )
            for name, partition in self.accepted
        ]

    def fill_in(self, errors: Sequence[ErrorCode]) -> None:
        """What the coordinator decided: an error for each accepted partition, in their order."""
        for answer, error in zip(self._open, errors, strict=True):
            answer.error_code = error
