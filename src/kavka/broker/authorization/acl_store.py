"""AclStore: the access control lists in ZooKeeper, as Kafka 3.9 keeps them: read, followed and changed.

Keeps an `AclIndex` that is what was last read, and decides with it (an `Authorizer`). Any broker may write, of either
brand; a change node tells the others. Must not decide what a list allows: that is `kavka.security`.

    /kafka-acl/<Type>/<name>                       literal lists;  changes: /kafka-acl-changes/acl_changes_N
    /kafka-acl-extended/prefixed/<Type>/<name>     prefixed ones;  changes: /kafka-acl-extended-changes/acl_changes_N

    I1  nothing is decided before every list was read; a broker that cannot read them does not start
    I2  a list that cannot be read denies everybody everything on its resources, and is told: nothing fails open
    I3  a change is in force here before it is answered

How changes are followed: `zookeeper.change_nodes`.

Source: kafka.security.authorizer.AclAuthorizer (updateResourceAcls, deleteAcls), kafka.zk.ZkAclStore,
ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.logger import Logger
from kavka.security.acls import OPERATIONS_BY_WORD, PERMISSIONS_BY_WORD, Binding, Entry, Filter, Operation, Permission
from kavka.security.authorizer import AclIndex, Question, Rules, Verdict, decide, decide_on_any
from kavka.security.principals import ANY_HOST, EVERYBODY
from kavka.security.resource_patterns import TYPES_BY_WORD, Pattern, PatternType, ResourceType
from kavka.zookeeper.access_list_znodes import AccessEntry, AccessList, AccessListChange
from kavka.zookeeper.change_nodes import ChangeFollower
from kavka.zookeeper.old_changes import OldChanges
from kavka.zookeeper.port import (
    BadArguments,
    BadVersion,
    Create,
    CreateMode,
    Delete,
    NodeExists,
    NoNode,
    OutcomeUnknown,
    RequestTooLarge,
    SetData,
    ZooKeeper,
)
from kavka.zookeeper.port import Operation as WriteOperation
from kavka.zookeeper.znode_paths import (
    ACL_PERSISTENT_PATHS,
    EXTENDED_ACL_CHANGE_PREFIX,
    EXTENDED_ACL_CHANGES_PATH,
    EXTENDED_ACLS_PATH,
    LITERAL_ACL_CHANGE_PREFIX,
    LITERAL_ACL_CHANGES_PATH,
    LITERAL_ACLS_PATH,
    acl_path,
)
from kavka.zookeeper.znodes import MalformedZNode

logger = Logger(__name__)

MAX_ATTEMPTS: Final = 30
"""How often a change is made anew because another one came first. Somebody always gets through; of three brokers that
change one list all the time, one loses as often as this once in 200,000 times."""
PARENTS: Final = {
    PatternType.LITERAL: LITERAL_ACLS_PATH,
    PatternType.PREFIXED: f"{EXTENDED_ACLS_PATH}/prefixed",
}
_CHANGES: Final = (LITERAL_ACL_CHANGES_PATH, EXTENDED_ACL_CHANGES_PATH)
_UNREADABLE: Final = Entry(str(EVERYBODY), ANY_HOST, Operation.ALL, Permission.DENY)
"""What stands for a list that cannot be read (I2)."""

_OPERATIONS_IN_CAPITALS: Final = {word.upper(): operation for word, operation in OPERATIONS_BY_WORD.items()}
_PERMISSIONS_IN_CAPITALS: Final = {word.upper(): permission for word, permission in PERMISSIONS_BY_WORD.items()}

Entries = frozenset[Entry]


class Deleted(NamedTuple):
    """A binding that a filter found, and why it is still there (None: it is gone)."""

    binding: Binding
    refusal: RequestError | None


class _Found(NamedTuple):
    """A list as it stands in ZooKeeper; `version` is None if there is none. `is_readable`: else it stands for one
    that is not (I2)."""

    entries: Entries
    version: int | None
    is_readable: bool = True


class AclStore:
    """`spawn` runs the flow that follows changes."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        rules: Rules,
        *,
        wall_ms: Callable[[], int],
        spawn: Callable[[Coroutine[None, None, None]], None],
        check: Callable[[AclIndex, Rules], None] = lambda index, rules: None,
    ) -> None:
        """`check` is called with what was read at the start; it may raise."""
        self.index = AclIndex()
        self.rules = rules
        self._zookeeper = zookeeper
        self._spawn = spawn
        self._check = check
        self._follower = ChangeFollower(zookeeper, _CHANGES, _changed, read_all=self._read_all, take_in=self._take_in)
        self._old_changes = OldChanges(zookeeper, _CHANGES, wall_ms=wall_ms, spawn=spawn)

    # -- an authorizer

    @property
    def generation(self) -> int:
        return self.index.generation

    def decide(self, question: Question) -> Verdict:
        return decide(question, self.index, self.rules)

    def decide_on_any(self, question: Question) -> Verdict:
        return decide_on_any(question, self.index, self.rules)

    # -- reading

    async def start(self) -> None:
        """Reads all lists, and follows them from then on. Raises ZooKeeperError, and what the check raises."""
        await self._follower.start(ACL_PERSISTENT_PATHS)
        self._check(self.index, self.rules)
        self._spawn(self._follower.follow())

    def stale_ms(self) -> int:
        """For how long the lists may have been others in ZooKeeper: it could not be asked, or they are being read."""
        return self._follower.stale_ms()

    def stop(self) -> None:
        """Follows them no more."""
        self._follower.stop()

    async def _read_all(self) -> None:
        lists: dict[Pattern, Entries] = {}
        for pattern_type, root in PARENTS.items():
            for word in await self._zookeeper.children(root):
                resource_type = TYPES_BY_WORD.get(word)
                if resource_type is None:
                    logger.warning("access control lists of an unknown type are not used", type=word)
                    continue
                names = await self._zookeeper.children(f"{root}/{word}")
                patterns = [Pattern(resource_type, name, pattern_type) for name in names]
                for pattern, found in zip(patterns, await self._read(patterns), strict=True):
                    if found.entries:
                        lists[pattern] = found.entries
        self.index = AclIndex(lists, self.index.generation + 1)

    async def _take_in(self, patterns: Sequence[Pattern]) -> None:
        found = await self._read(patterns)
        self._replace({pattern: each.entries for pattern, each in zip(patterns, found, strict=True)})

    async def _read(self, patterns: Sequence[Pattern]) -> list[_Found]:
        nodes = await self._zookeeper.get_many([_path(pattern) for pattern in patterns])
        return [
            _Found(frozenset(), None) if node is None else _decode(pattern, node[0], node[1].version)
            for pattern, node in zip(patterns, nodes, strict=True)
        ]

    def _replace(self, lists: Mapping[Pattern, Entries]) -> None:
        changed = {
            pattern: entries
            for pattern, entries in lists.items()
            if self.index.lists.get(pattern, frozenset()) != entries
        }
        if changed:
            self.index = self.index.with_lists(changed)

    # -- what administrators ask

    def find(self, wanted: Filter) -> list[Binding]:
        """The bindings that a filter means, in order."""
        return list(self.index.bindings(wanted))

    async def create(self, bindings: Sequence[Binding]) -> list[RequestError | None]:
        """Adds bindings; what became of each, None if it is there."""
        refusals: dict[int, RequestError] = {}
        by_pattern: dict[Pattern, list[int]] = {}
        for index, binding in enumerate(bindings):
            problem = binding.problem()
            if problem is not None:
                refusals[index] = RequestError(ErrorCode.INVALID_REQUEST, problem)
            else:
                by_pattern.setdefault(binding.pattern, []).append(index)
        for pattern, indexes in by_pattern.items():
            added = frozenset(bindings[index].entry for index in indexes)
            try:
                await self._change(pattern, added.union)
            except (RequestError, ZooKeeperError) as failure:
                refusals.update(dict.fromkeys(indexes, _refusal(failure)))
        self._old_changes.begin()
        return [refusals.get(index) for index in range(len(bindings))]

    async def delete(self, filters: Sequence[Filter]) -> list[list[Deleted]]:
        """Removes the bindings that each filter means. One that several mean belongs to the first of them."""
        patterns = dict.fromkeys(
            pattern
            for pattern in (*self.index.lists, *(one for each in filters for one in each.pattern.patterns()))
            if any(each.pattern.matches(pattern) for each in filters)
        )
        results: list[list[Deleted]] = [[] for _ in filters]
        for pattern in patterns:
            meant: dict[Entry, int] = {}

            def without(entries: Entries, pattern: Pattern = pattern, meant: dict[Entry, int] = meant) -> Entries:
                for entry in entries.difference(meant):
                    for index, each in enumerate(filters):
                        if each.matches(Binding(pattern, entry)):
                            meant[entry] = index
                            break
                return entries.difference(meant)

            refusal = None
            try:
                await self._change(pattern, without, forget=meant.clear)
            except (RequestError, ZooKeeperError) as failure:
                refusal = _refusal(failure)
            for entry, index in sorted(meant.items()):
                results[index].append(Deleted(Binding(pattern, entry), refusal))
        self._old_changes.begin()
        return results

    async def _change(
        self,
        pattern: Pattern,
        decide_entries: Callable[[Entries], Entries],
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        """Replaces a list by what is made of it, and has the others told. Raises RequestError, ZooKeeperError.

        `forget` is called before it is made anew, if what was made of it before was written by no means.
        """
        path = _path(pattern)
        may_be_written = False
        async with self._follower.lock:
            for _ in range(MAX_ATTEMPTS):
                before = (await self._read([pattern]))[0]
                if not may_be_written:
                    forget()
                if not before.is_readable:
                    raise RequestError(ErrorCode.INVALID_REQUEST, f"{path} cannot be read: delete the znode first")
                wanted = decide_entries(before.entries)
                if wanted == before.entries:
                    self._replace({pattern: wanted})
                    return
                write: WriteOperation
                if before.version is None:
                    write = Create(path, _encode(wanted))
                elif wanted:
                    write = SetData(path, _encode(wanted), before.version)
                else:
                    write = Delete(path, before.version)
                try:
                    # With its change node: either both are there, or none is.
                    await self._zookeeper.multi([write, _change_node(pattern)])
                except (BadVersion, NodeExists, NoNode):
                    continue  # Somebody else was faster: what is there now is read, and the change made of it.
                except OutcomeUnknown:
                    may_be_written = True
                    continue
                self._replace({pattern: wanted})
                break
            else:
                raise RequestError(
                    ErrorCode.REQUEST_TIMED_OUT, f"{path} was changed by others {MAX_ATTEMPTS} times meanwhile"
                )


def _change_node(pattern: Pattern) -> Create:
    is_prefixed = pattern.pattern_type is PatternType.PREFIXED
    change = AccessListChange(pattern.resource_type.name, pattern.name, prefixed=is_prefixed)
    prefix = EXTENDED_ACL_CHANGE_PREFIX if is_prefixed else LITERAL_ACL_CHANGE_PREFIX
    return Create(prefix, change.encode(), CreateMode.PERSISTENT_SEQUENTIAL)


def _path(pattern: Pattern) -> str:
    return acl_path(pattern.resource_type.word, pattern.name, prefixed=pattern.pattern_type is PatternType.PREFIXED)


def _changed(path: str, data: bytes | None) -> Pattern:
    """The list that a change node is about. Raises MalformedZNode."""
    change = AccessListChange.decode(path, data)
    try:
        resource_type = ResourceType[change.resource_type]
    except KeyError as unknown:
        raise MalformedZNode(change.name, f"no type of resource: {change.resource_type!r}") from unknown
    return Pattern(resource_type, change.name, PatternType.PREFIXED if change.prefixed else PatternType.LITERAL)


def _decode(pattern: Pattern, data: bytes | None, version: int) -> _Found:
    path = _path(pattern)
    try:
        found = AccessList.decode(path, data).entries
        for entry in found:
            if ":" not in entry.principal:
                raise MalformedZNode(path, f"no principal: {entry.principal!r}")
            if not _is_text(entry.principal) or not _is_text(entry.host):
                raise MalformedZNode(path, "a principal or host is not a text")
            if _operation(entry) is None or _permission(entry) is None:
                # It may be meant to deny.
                raise MalformedZNode(path, f"unknown words: {entry.permission_type!r} {entry.operation!r}")
    except MalformedZNode as garbage:
        logger.error(
            "access control list cannot be read: nobody but super users may use its resources",
            why=str(garbage),
            next_step="delete the znode, and add the ACLs anew",
        )
        return _Found(frozenset((_UNREADABLE,)), version, is_readable=False)
    entries = frozenset(
        Entry(
            entry.principal,
            entry.host,
            _operation(entry) or Operation.UNKNOWN,
            _permission(entry) or Permission.UNKNOWN,
        )
        for entry in found
    )
    return _Found(entries, version)


def _is_text(text: str) -> bool:
    """JSON can name half a character, which no answer can carry."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _operation(entry: AccessEntry) -> Operation | None:
    """Kafka takes its words in whatever case."""
    return OPERATIONS_BY_WORD.get(entry.operation) or _OPERATIONS_IN_CAPITALS.get(entry.operation.upper())


def _permission(entry: AccessEntry) -> Permission | None:
    return PERMISSIONS_BY_WORD.get(entry.permission_type) or _PERMISSIONS_IN_CAPITALS.get(entry.permission_type.upper())


def _encode(entries: Entries) -> bytes:
    return AccessList(
        tuple(
            AccessEntry(entry.principal, entry.permission.word, entry.host, entry.operation.word)
            for entry in sorted(entries)
        )
    ).encode()


def _refusal(failure: RequestError | ZooKeeperError) -> RequestError:
    if isinstance(failure, RequestError):
        return failure
    if isinstance(failure, BadArguments):
        return RequestError(ErrorCode.INVALID_REQUEST, f"no name for a znode: {failure}")
    if isinstance(failure, RequestTooLarge):
        return RequestError(ErrorCode.INVALID_REQUEST, f"more entries than ZooKeeper takes for one resource: {failure}")
    return RequestError(ErrorCode.REQUEST_TIMED_OUT, f"ZooKeeper did not say whether it is written: {failure}")
