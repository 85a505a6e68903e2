"""ChangeFollower: what brokers of either brand tell each other by change nodes, followed without a gap.

Whoever changes something writes a sequential node beside it, under a parent that everybody watches. The follower has
its owner read what each new node names, or everything where a node may have been missed. It must not know what the
nodes are about. Changes of settings are applied one by one: `controller.work.config_admin` follows those. Change nodes
that are old are deleted by `old_changes`.

    I1  changes are listened to before anything is read, so that none falls in between
    I2  whenever changes may have been missed (a new session, a change node that is gone or cannot be read, a number
        that was given and is not there), everything is read again. Kafka reads what is left of the change nodes only
    I3  one reading or change at a time (`lock`): what is read later is never replaced by what was read earlier

Source: Kafka's ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from kavka.errors import InvariantViolation
from kavka.logger import Logger
from kavka.zookeeper.persistent_paths import make_persistent_paths
from kavka.zookeeper.port import Event, NoNode, SessionState, WatchEvent, ZooKeeper
from kavka.zookeeper.znodes import MalformedZNode, numbered

logger = Logger(__name__)

RETRY_S: Final = 1.0
"""How long after ZooKeeper could not be asked it is asked again."""

PAUSES_PER_LOOK: Final = 4
LONGEST_PAUSE_S: Final = 0.05
"""After a look for changes there is a pause of so many times what it took, up to this. A look reads the names of all
change nodes of the last quarter of an hour: looks without pauses took 10 of the 12 s of CPU that 4,000 changes in a row
took. The first change after a pause is taken in at once."""

Named = TypeVar("Named")


class ChangeFollower(Generic[Named]):
    """`decode(path, data)` says what a change node names, or raises MalformedZNode. `take_in` is called with what was
    named, each once, in order; `read_all` instead of it where changes may have been missed. Either leaves what was
    known as it was when it raises."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        parents: Sequence[str],
        decode: Callable[[str, bytes | None], Named],
        *,
        read_all: Callable[[], Awaitable[None]],
        take_in: Callable[[Sequence[Named]], Awaitable[None]],
    ) -> None:
        self.lock = asyncio.Lock()
        self._zookeeper = zookeeper
        self._decode = decode
        self._read_all_of_owner = read_all
        self._take_in_of_owner = take_in
        self._last_sequence = dict.fromkeys(parents, -1)
        self._wake = asyncio.Event()
        self._must_read_all = False
        self._is_away = False
        """Whether there is no connection to ZooKeeper."""
        self._loop = asyncio.get_running_loop()
        self._stale_since_s: float | None = None
        """Since when others may stand in ZooKeeper; None where they do not, as far as it has told."""
        self._unsubscribe: Callable[[], None] = lambda: None

    async def start(self, persistent_paths: Sequence[str]) -> None:
        """Makes the paths, where they are missing, and reads everything. Raises ZooKeeperError, and what the owner
        raises. `follow` goes on from there."""
        await make_persistent_paths(self._zookeeper, persistent_paths)
        self._unsubscribe = self._zookeeper.subscribe(self._on_event)
        async with self.lock:
            await self._read_all()

    def stop(self) -> None:
        """Listens no more."""
        self._unsubscribe()

    def stale_ms(self) -> int:
        """For how long others may have stood in ZooKeeper: it could not be asked, or they are being read."""
        return 0 if self._stale_since_s is None else int((self._loop.time() - self._stale_since_s) * 1000)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, WatchEvent) and event.path not in self._last_sequence:
            return
        if self._stale_since_s is None:
            self._stale_since_s = self._loop.time()
        if isinstance(event, WatchEvent):
            self._wake.set()
            return
        self._is_away = event.state is not SessionState.CONNECTED
        if not self._is_away:
            self._must_read_all = True
            self._wake.set()

    async def follow(self) -> None:
        """Takes in changes, for ever."""
        loop = self._loop
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                async with self.lock:
                    began_s = loop.time()
                    if self._must_read_all:
                        await self._read_all()
                    else:
                        await self._take_in()
                if not self._wake.is_set() and not self._is_away:
                    self._stale_since_s = None
                await asyncio.sleep(min(LONGEST_PAUSE_S, PAUSES_PER_LOOK * (loop.time() - began_s)))
            except InvariantViolation:
                raise
            except Exception as failure:  # noqa: BLE001 - whatever it is, changes must not go unseen from now on (I2).
                logger.warning("changes not read", under=self._parents, why=str(failure) or repr(failure))
                self._must_read_all = True
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    async def _unseen(self) -> tuple[list[tuple[int, str]], dict[str, int]]:
        """The change nodes that were not seen before, and the highest number that was ever given, by parent; leaves
        watches."""
        found: list[tuple[int, str]] = []
        given = {}
        for parent, last in self._last_sequence.items():
            stat = await self._zookeeper.exists(parent)  # First: what comes in between is no gap.
            given[parent] = -1 if stat is None else (stat.cversion + stat.num_children) // 2 - 1
            changes = numbered(await self._zookeeper.children(parent, watch=True))
            found += [(sequence, f"{parent}/{name}") for sequence, name in changes if sequence > last]
        return sorted(found), given

    def _misses_some(self, changes: Iterable[tuple[int, str]], given: Mapping[str, int]) -> bool:
        """Whether change nodes came and went before they were seen: a broker whose clock is fast takes them for old."""
        unseen: dict[str, list[int]] = {}
        for sequence, path in changes:
            unseen.setdefault(path.rpartition("/")[0], []).append(sequence)
        return any(
            max([last, given[parent], *unseen.get(parent, ())]) - last != len(unseen.get(parent, ()))
            for parent, last in self._last_sequence.items()
        )

    def _note(self, changes: Iterable[tuple[int, str]], given: Mapping[str, int]) -> None:
        for parent, sequence in given.items():
            self._last_sequence[parent] = max(self._last_sequence[parent], sequence)
        for sequence, path in changes:
            parent = path.rpartition("/")[0]
            self._last_sequence[parent] = max(self._last_sequence[parent], sequence)

    async def _read_all(self) -> None:
        self._must_read_all = False
        # Numbers seen so far mean nothing any more: a ZooKeeper that was restored counts from where it was.
        self._last_sequence = dict.fromkeys(self._last_sequence, -1)
        try:
            changes, given = await self._unseen()
            await self._read_all_of_owner()
        except BaseException:
            self._must_read_all = True
            raise
        self._note(changes, given)

    async def _take_in(self) -> None:
        changes, given = await self._unseen()
        if self._misses_some(changes, given):
            logger.warning("changes not seen", under=self._parents, next_step="everything is read; see brokers' clocks")
            await self._read_all()
            return
        named: dict[Named, None] = {}
        for _sequence, path in changes:
            try:
                data, _stat = await self._zookeeper.get(path)
                named[self._decode(path, data)] = None
            except (NoNode, MalformedZNode) as failure:
                logger.warning("change not read", path=path, why=str(failure))
                await self._read_all()
                return
        await self._take_in_of_owner(list(named))
        self._note(changes, given)

    @property
    def _parents(self) -> str:
        return ", ".join(self._last_sequence)
