"""What can go wrong with Spark on kavka: errors that name topic, partition and offset.

All of it is a failure of the world, below `KavkaError`. An exception crosses from Spark's workers to the driver, so
each can be pickled: its arguments are those of its constructor.
"""

from __future__ import annotations

from kavka.errors import KavkaError

READ_ELSEWHERE = (
    "Another replica may have it undamaged: make that one the leader "
    "(fsck over the brokers' log directories shows which); "
    "or read on behind it with startingOffsets"
)
"""What to do if the batch came from a broker."""


class CorruptBatchError(KavkaError):
    """Bytes of `topic` and `partition` that are not a valid record batch. Nothing of that batch was returned.

    `offset` is the batch's base offset, or the expected one if the batch does not show it. `advice` is what the reader
    can do about it.
    """

    def __init__(self, topic: str, partition: int, offset: int, reason: str, advice: str = READ_ELSEWHERE) -> None:
        super().__init__(topic, partition, offset, reason, advice)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        place = f"{self.topic}-{self.partition} at offset {self.offset}"
        return f"corrupt record batch in {place}: {self.reason}. {self.advice}"


class SinkError(KavkaError):
    """Rows that cannot become records. The message says which column does not fit and how to fix it."""


class BadRecordError(KavkaError):
    """A record that cannot be read by the schema that a column asks for."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(subject, reason)
        self.subject = subject
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"a record cannot be read as {self.subject}: {self.reason}. "
            'With bad_records="column" such records become errors in the column'
        )


class RegistryAwayError(KavkaError):
    """A schema registry that does not answer, or not with a schema. No record counts as bad for that."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(number, reason)
        self.number = number
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"schema {self.number} could not be fetched: {self.reason}. No record counts as bad for that: run the "
            "query again when the registry answers"
        )


class DeliveryError(KavkaError):
    """Records that a partition did not accept, or that it may have accepted."""

    def __init__(self, topic: str, partition: int, reason: str) -> None:
        super().__init__(topic, partition, reason)
        self.topic = topic
        self.partition = partition
        self.reason = reason

    def __str__(self) -> str:
        return f"records for {self.topic}-{self.partition} were not delivered: {self.reason}"


class BatchChangedError(KavkaError):
    """A committed micro-batch came again with other rows, so exactly once is not possible for it.

    Raised before anything is written. `found` and `expected` count rows and bytes.
    """

    def __init__(self, task: str, expected: str, found: str) -> None:
        super().__init__(task, expected, found)
        self.task = task
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.task} was committed with {self.expected}, and came again with {self.found}: what feeds the sink "
            "does not give the same rows in the same tasks when a micro-batch is repeated. Make it deterministic (no "
            "rand(), no current_timestamp(), no changed source options or number of partitions between the runs), or "
            "set exactlyOnce to false"
        )


class LogFileError(KavkaError):
    """A log file that cannot be read: deleted since the query was planned, forbidden, or on a broken disk."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; a running broker deletes old segments; run the query again"


class DataLossError(KavkaError):
    """Records of `topic` and `partition` that a query should read, and that the topic no longer holds, or never did.

    `wanted` is the offset that should be read. `earliest` and `latest` are those of the log now, -1 if there is no
    such log. With `failOnDataLoss=false` the query goes on instead.
    """

    def __init__(self, topic: str, partition: int, wanted: int, earliest: int, latest: int, reason: str) -> None:
        super().__init__(topic, partition, wanted, earliest, latest, reason)
        self.topic = topic
        self.partition = partition
        self.wanted = wanted
        self.earliest = earliest
        self.latest = latest
        self.reason = reason

    def __str__(self) -> str:
        held = (
            f"the log holds {self.earliest} to before {self.latest}" if self.earliest >= 0 else "there is no such log"
        )
        return (
            f"{self.topic}-{self.partition}: offset {self.wanted} is wanted, but {held}: {self.reason}. "
            "Option failOnDataLoss=false lets the query go on with what is there; a stream that must not lose anything "
            "has to start again with a new checkpoint"
        )


class UnreachableError(KavkaError):
    """No broker answers where the options say that brokers are."""


class MissingRightError(KavkaError):
    """The brokers refuse what a query needs. The message says what was refused, and which rights it takes."""


class SubscriptionError(KavkaError):
    """Topics or partitions of a query that do not match what the cluster has."""


class StaleBatchError(KavkaError):
    """A micro-batch that comes after a later one of the same task was committed."""

    def __init__(self, task: str, committed: int) -> None:
        super().__init__(task, committed)
        self.task = task
        self.committed = committed

    def __str__(self) -> str:
        return (
            f"{self.task} comes after batch {self.committed} was committed: this process was believed dead and should "
            "end, or the query's checkpoint was set back. To write such batches again, start the query with a new "
            "checkpoint, or set exactlyOnce to false"
        )


class LayoutChangedError(KavkaError):
    """A micro-batch that one number of tasks began, and another number should write. Nothing of this attempt is
    committed: most of its rows belong to other tasks than before, and some of them may be in the topic."""

    def __init__(self, task: str, expected: int, found: int) -> None:
        super().__init__(task, expected, found)
        self.task = task
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.task} was begun with stable(df, {self.expected}), and comes again with stable(df, {self.found}): "
            f"start the query with stable(df, {self.expected}) until this batch is through; then it may be changed"
        )


class StaleMarkersError(KavkaError):
    """The markers that an attempt acted on were not the last ones. Nothing of this attempt is committed."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return (
            f"{self.task}: another process had committed by the time this one read the markers, and the broker that "
            "it asked did not know: it had lost its place as leader. Nothing of it is committed; the task's next "
            "attempt reads them again"
        )


class TaskFencedError(KavkaError):
    """Another attempt of the same task has taken over its transactional id. Nothing of this attempt is committed."""

    def __init__(self, task: str, reason: str) -> None:
        super().__init__(task, reason)
        self.task = task
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.task}: {self.reason}. Another attempt of the task has taken over (speculation, or this process was "
            "believed dead), or the task took longer than kafka.transaction.timeout.ms: nothing of it is committed"
        )
