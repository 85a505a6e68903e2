"""SharedLog: the schemas topic of several registries, in memory, with the rule that one may write at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kavka.schema_registry.records import Change, decode, encode
from kavka.schema_registry.state import State

Record = tuple[bytes | None, bytes | None]


class SharedLog:
    """`records`: what is in the topic. `between`: called before each append, to let others in between."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.owner: MemoryLog | None = None
        self.between: Callable[[], None] = lambda: None

    def of_one(self) -> MemoryLog:
        """The log as one more registry sees it."""
        return MemoryLog(self)

    def compact(self) -> None:
        """As brokers do: the last record of each key stays, and no tombstone."""
        last = dict(self.records)
        places = {key: place for place, (key, _) in enumerate(self.records)}
        self.records = [(key, last[key]) for key in sorted(last, key=places.__getitem__) if last[key] is not None]


class MemoryLog:
    """What SchemasTopic is, without brokers: changes go through their bytes."""

    def __init__(self, shared: SharedLog) -> None:
        self.state = State()
        self._shared = shared
        self._read = 0

    async def catch_up(self) -> None:
        self._follow()

    async def append(self, changes: Sequence[Change]) -> bool:
        self._shared.between()
        if self._shared.owner is not self:
            self._shared.owner = self
            return False
        self._shared.records += [encode(each) for each in changes]
        self._follow()
        return True

    def _follow(self) -> None:
        for key, value in self._shared.records[self._read :]:
            self.state.apply(decode(key, value))
        self._read = len(self._shared.records)
