"""The durable znode tree: a transaction log and snapshots over the FileSystem port.

Decides the bytes on disk and what a start after a crash makes of them. It knows no event loop, clock or thread: `sync`
and `Snapshot.write` block, and whoever hosts the database calls them where blocking is allowed.

A directory holds `log.<first zxid>` and `snapshot.<zxid>` (16 hex digits, so names sort by zxid). All numbers are
big-endian; `crc` is CRC-32C.

    log file     magic "KVKZLOG1", then frames; one frame per group commit
    frame        0  "ZTXN"     4  length u32    8  crc u32 of the payload    12  payload: transactions
    transaction  0  zxid i64   8  time_ms i64   16 count of changes u32      20  changes
    snapshot     magic "KVKZSNP1", zxid, last session id, sessions, access control lists, nodes sorted by path, crc u32

Invariants:
I1  The log is written in frames, and a frame is written only after the one before it was synced. So a torn frame is
    the last one of the last file; one that is followed by a valid frame is damage, and the start is refused.
I2  Transactions have consecutive zxids: a gap is found at the start and never served.
I3  A snapshot is written beside and renamed; a damaged one is passed over for the one before it, whose logs are kept.
I4  Replay is idempotent: a transaction whose zxid the snapshot covers is skipped.
I5  After an error of `append` or `sync` nothing more is written: the file's content is unknown.

Source: the ideas are ZooKeeper's FileTxnLog and FileSnap; the format is kavka's own.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from crc32c import crc32c

from kavka.errors import DamagedFile, InvariantViolation, StorageError
from kavka.filesystem import File, FileSystem, make_durable_directory
from kavka.zookeeper.decide.node import Node
from kavka.zookeeper.decide.tree import (
    AclChanged,
    Change,
    DataChanged,
    NodeCreated,
    NodeDeleted,
    SessionClosed,
    SessionOpened,
    Transaction,
    Tree,
    TreeState,
)
from kavka.zookeeper.port import MAX_REQUEST_BYTES, OPEN_ACL, Acl, AclList

LOG_MAGIC: Final = b"KVKZLOG1"
SNAPSHOT_MAGIC: Final = b"KVKZSNP1"
_FRAME_MAGIC: Final = b"ZTXN"
_FRAME = struct.Struct(">4sII")
_TRANSACTION = struct.Struct(">qqI")
_LENGTH = struct.Struct(">i")
_CREATE_TAIL = struct.Struct(">qi")
_SESSION = struct.Struct(">qiI")
_SNAPSHOT_HEAD = struct.Struct(">qqIII")
_NODE = struct.Struct(">iqqqqqiiqqi")
_NULL = -1

_CREATED, _DELETED, _DATA, _ACL, _OPENED, _CLOSED = range(1, 7)


class SyncPolicy(Enum):
    """When a transaction counts as committed."""

    ALWAYS = "always"
    """After it was synced to disk, as in ZooKeeper: a power cut loses nothing that was answered."""
    NEVER = "never"
    """After it was written to the page cache: a kill of the process loses nothing, a power cut may lose the tail."""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """`snapshot_transactions`: a snapshot is due after so many transactions, or `snapshot_log_bytes` of log.

    `snapshots_kept`: older snapshots, and the logs that only they need, are removed.
    """

    sync: SyncPolicy = SyncPolicy.ALWAYS
    snapshot_transactions: int = 100_000
    snapshot_log_bytes: int = 64 * 1024 * 1024
    snapshots_kept: int = 3
    max_request_bytes: int = MAX_REQUEST_BYTES

    def __post_init__(self) -> None:
        if min(self.snapshot_transactions, self.snapshot_log_bytes, self.snapshots_kept, self.max_request_bytes) < 1:
            raise ValueError(f"limits of the database must be positive: {self}")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a start found. `cut_bytes` of a torn tail were moved to `cut_to`; `passed_over` snapshots were damaged."""

    snapshot_zxid: int
    replayed: int
    cut_bytes: int
    cut_to: str | None
    passed_over: tuple[str, ...]


class Snapshot:
    """A snapshot on its way to the disk."""

    def __init__(self, database: Database, zxid: int, data: bytes) -> None:
        self._database = database
        self._zxid = zxid
        self._data = data

    def write(self) -> None:
        """Ends the log file, writes the snapshot durably and removes what no kept snapshot needs.

        Blocks; may run on another thread, but nothing may be appended meanwhile. Raises StorageError.
        """
        self._database._write_snapshot(self._zxid, self._data)


class Database:
    """A tree whose transactions are kept on disk. Every transaction of `tree` must go to `append`."""

    def __init__(
        self, filesystem: FileSystem, directory: str, settings: DatabaseSettings, tree: Tree, recovery: Recovery
    ) -> None:
        """For `open` only."""
        self.tree = tree
        self.recovery = recovery
        self.settings = settings
        self._filesystem = filesystem
        self._directory = directory
        self._file: File | None = None
        self._directory_changed = False
        self._last_zxid = tree.zxid
        self._since_snapshot = recovery.replayed
        self._log_bytes = 0
        self._failed: StorageError | None = None

    @classmethod
    def open(cls, filesystem: FileSystem, directory: str, settings: DatabaseSettings | None = None) -> Database:
        """Recovers the tree from `directory`, which is made if it is missing.

        Raises StorageError where what is there contradicts itself: no snapshot is whole and the log does not begin
        with the first transaction, or the log is damaged in the middle. Nothing is changed then.
        """
        settings = settings or DatabaseSettings()
        make_durable_directory(filesystem, directory)
        # Directories, too: one in the place of a file is damage, and is not to be passed over.
        names = sorted({*filesystem.list_files(directory), *filesystem.list_directories(directory)})
        tree, passed_over = _load_newest_snapshot(filesystem, directory, names, settings)
        snapshot_zxid = tree.zxid
        logs = [name for name in names if _zxid_of(name, "log") is not None]
        cut_bytes, cut_to, last_end = 0, None, 0
        for index, name in enumerate(logs):
            following = _zxid_of(logs[index + 1], "log") if index + 1 < len(logs) else None
            if following is not None and following <= snapshot_zxid + 1:
                continue  # The snapshot covers the whole file.
            data = filesystem.read(f"{directory}/{name}")
            last_end = _replay_log(tree, f"{directory}/{name}", data, settings, last=following is None)
            if last_end < len(data):
                cut_bytes = len(data) - last_end
                cut_to = f"{directory}/torn-{name}"
                filesystem.write_atomically(cut_to, data[last_end:])
        promised = max(_promised_zxid(name) for name in [*names, ""])
        if tree.zxid < promised:
            raise DamagedFile(
                directory,
                f"its files reach {promised:#x}, but only {tree.zxid:#x} can be recovered (damaged snapshots: "
                f"{', '.join(passed_over) or 'none'}): restore the directory from a copy",
            )
        recovery = Recovery(snapshot_zxid, tree.zxid - snapshot_zxid, cut_bytes, cut_to, passed_over)
        database = cls(filesystem, directory, settings, tree, recovery)
        if logs:
            database._continue_log(logs[-1], last_end)
        return database

    def append(self, transactions: Sequence[Transaction]) -> None:
        """Writes the transactions as one frame at the end of the log, in one call; durable after `sync`.

        Raises StorageError, after which the database refuses everything.
        """
        self._require_usable()
        if not transactions:
            return
        if transactions[0].zxid != self._last_zxid + 1:
            raise InvariantViolation(f"{transactions[0].zxid:#x} appended behind {self._last_zxid:#x}")
        payload = b"".join(map(_encode_transaction, transactions))
        header = _FRAME.pack(_FRAME_MAGIC, len(payload), crc32c(payload))
        try:
            file = self._log_file(transactions[0].zxid)
            file.append_many([header, payload])
        except StorageError as error:
            self._failed = error
            raise
        self._last_zxid = transactions[-1].zxid
        self._since_snapshot += len(transactions)
        self._log_bytes += len(header) + len(payload)

    def sync(self) -> None:
        """Returns when all that was appended is durable. Blocks; may run on another thread than `append`, but not at
        the same time. Raises StorageError."""
        self._require_usable()
        try:
            if self._file is not None:
                self._file.sync()
            if self._directory_changed:
                self._filesystem.sync_directory(self._directory)
                self._directory_changed = False
        except StorageError as error:
            self._failed = error
            raise

    @property
    def snapshot_due(self) -> bool:
        settings = self.settings
        return self._since_snapshot >= settings.snapshot_transactions or self._log_bytes >= settings.snapshot_log_bytes

    def begin_snapshot(self) -> Snapshot:
        """Takes the tree as it is now; all of its transactions must have been appended, and none may be until the
        snapshot's `write` returned."""
        if self.tree.zxid != self._last_zxid:
            raise InvariantViolation(f"the tree is at {self.tree.zxid:#x}, its log at {self._last_zxid:#x}")
        return Snapshot(self, self.tree.zxid, _encode_snapshot(self.tree))

    def close(self) -> None:
        """Syncs and closes the log; nothing is lost. A database that failed is only closed."""
        if self._failed is None:
            self.sync()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _require_usable(self) -> None:
        if self._failed is not None:
            raise StorageError(self._directory, f"unusable since: {self._failed}")

    def _log_file(self, zxid: int) -> File:
        if self._file is None:
            path = f"{self._directory}/log.{zxid:016x}"
            self._file = self._filesystem.open(path, create=True)
            if self._file.size():
                # A file that was begun and never got a frame, else the tree would be past its name.
                self._file.truncate(0)
            self._file.append(LOG_MAGIC)
            self._directory_changed = True
        return self._file

    def _continue_log(self, name: str, end: int) -> None:
        """The last log file is written on, from `end` (0 where even its magic is torn)."""
        file = self._filesystem.open(f"{self._directory}/{name}")
        if end < file.size():
            file.truncate(end)
        if end < len(LOG_MAGIC):
            file.append(LOG_MAGIC)
        self._file = file
        self._log_bytes = end
        # The tail that was found may be known to the page cache only.
        self.sync()

    def _write_snapshot(self, zxid: int, data: bytes) -> None:
        if zxid != self._last_zxid:
            raise InvariantViolation(f"a snapshot of {zxid:#x} with a log at {self._last_zxid:#x}")
        self.sync()  # I1 holds across files too.
        try:
            if self._file is not None:
                self._file.close()
                self._file = None
            self._since_snapshot = 0
            self._log_bytes = 0
            self._filesystem.write_atomically(f"{self._directory}/snapshot.{zxid:016x}", data)
            self._filesystem.sync_directory(self._directory)
            self._purge()
        except StorageError as error:
            self._failed = error
            raise

    def _purge(self) -> None:
        names = self._filesystem.list_files(self._directory)
        snapshots = [name for name in names if _zxid_of(name, "snapshot") is not None]
        kept = snapshots[-self.settings.snapshots_kept :]
        for name in snapshots[: -len(kept)]:
            self._filesystem.remove(f"{self._directory}/{name}")
        if len(kept) < self.settings.snapshots_kept:
            return  # Every log is kept until there are snapshots enough to stand in for a damaged one.
        oldest_needed = _zxid_of(kept[0], "snapshot") or 0
        logs = [name for name in names if _zxid_of(name, "log") is not None]
        for name, following in itertools.pairwise(logs):
            if (_zxid_of(following, "log") or 0) <= oldest_needed + 1:
                self._filesystem.remove(f"{self._directory}/{name}")


# -------------------------------------------------------------------------------------------------------- recovery


def _zxid_of(name: str, kind: str) -> int | None:
    """The zxid in a file's name, or None if it is no file of this kind."""
    prefix, _, digits = name.partition(".")
    if prefix != kind or len(digits) != 16:
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None


def _promised_zxid(name: str) -> int:
    """A zxid that the tree must have reached, since there is a file of this name."""
    first = _zxid_of(name, "log")
    return first - 1 if first is not None else _zxid_of(name, "snapshot") or 0


def _load_newest_snapshot(
    filesystem: FileSystem, directory: str, names: Sequence[str], settings: DatabaseSettings
) -> tuple[Tree, tuple[str, ...]]:
    passed_over: list[str] = []
    for name in reversed([name for name in names if _zxid_of(name, "snapshot") is not None]):
        path = f"{directory}/{name}"
        data = filesystem.read(path)
        if _has_its_checksum(data):
            # Not passed over like a damaged one: this tree may be newer than what this build can read.
            _require_this_format(path, data, SNAPSHOT_MAGIC)
        tree = _decode_snapshot(data, settings)
        if tree is not None:
            return tree, tuple(passed_over)
        passed_over.append(name)
    return Tree(max_request_bytes=settings.max_request_bytes), tuple(passed_over)


def _has_its_checksum(snapshot: bytes) -> bool:
    return crc32c(memoryview(snapshot)[:-4]) == int.from_bytes(snapshot[-4:], "big")


def _require_this_format(path: str, data: bytes, magic: bytes) -> None:
    """The last byte of a magic number is the format's number. Raises DamagedFile for another one."""
    name, number = data[: len(magic) - 1], data[len(magic) - 1 : len(magic)]
    if name == magic[:-1] and number.isdigit() and number != magic[-1:]:
        raise DamagedFile(
            path,
            f"its format is {number.decode()}, and this version of kavka reads format {magic[-1:].decode()}; start the "
            "version that wrote it",
        )


def _replay_log(tree: Tree, path: str, data: bytes, settings: DatabaseSettings, *, last: bool) -> int:
    """Replays the frames of one file. Returns the position behind the last whole one: what follows is torn."""
    if not data.startswith(LOG_MAGIC):
        if last and LOG_MAGIC.startswith(data):
            return 0
        _require_this_format(path, data, LOG_MAGIC)
        raise DamagedFile(path, f"damaged, or no transaction log: begins with {data[:8]!r}; restore it from a copy")
    position = len(LOG_MAGIC)
    while position < len(data):
        payload = _frame_at(data, position)
        if payload is None:
            _require_torn_tail(path, data, position, settings, last=last)
            return position
        for transaction in _decode_transactions(payload, path):
            try:
                tree.replay(transaction)
            except InvariantViolation as gap:
                raise DamagedFile(
                    path,
                    f"{gap}; a log or snapshot before it is missing or damaged: restore the directory from a copy",
                ) from gap
        position += _FRAME.size + len(payload)
    return position


def _frame_at(data: bytes, position: int) -> memoryview | None:
    """The payload of a whole, undamaged frame at `position`."""
    if position + _FRAME.size > len(data):
        return None
    magic, length, crc = _FRAME.unpack_from(data, position)
    start = position + _FRAME.size
    if magic != _FRAME_MAGIC or start + length > len(data):
        return None
    payload = memoryview(data)[start : start + length]
    return payload if crc32c(payload) == crc else None


def _require_torn_tail(path: str, data: bytes, position: int, settings: DatabaseSettings, *, last: bool) -> None:
    """Raises DamagedFile if the broken frame at `position` is no torn tail but damage (I1)."""
    if not last:
        raise DamagedFile(path, f"damaged at position {position}, and not the last log: restore it from a copy")
    if settings.sync is SyncPolicy.NEVER:
        return  # After a power cut any page of the unsynced tail may be missing.
    later = data.find(_FRAME_MAGIC, position + 1)
    while later >= 0:
        if _frame_at(data, later) is not None:
            raise DamagedFile(
                path, f"damaged at position {position}: a whole frame follows at {later}; restore it from a copy"
            )
        later = data.find(_FRAME_MAGIC, later + 1)


# ----------------------------------------------------------------------------------------------------------- codec


def _encode_bytes(data: bytes | None) -> bytes:
    return _LENGTH.pack(_NULL) if data is None else _LENGTH.pack(len(data)) + data


def _encode_acl(acl: AclList) -> bytes:
    if acl is OPEN_ACL:
        return b"\x00"
    parts = [bytes([len(acl)])]
    for entry in acl:
        parts += [bytes([entry.permissions]), _encode_bytes(entry.scheme.encode()), _encode_bytes(entry.id.encode())]
    return b"".join(parts)


def _encode_transaction(transaction: Transaction) -> bytes:
    parts = [_TRANSACTION.pack(transaction.zxid, transaction.time_ms, len(transaction.changes))]
    parts.extend(map(_encode_change, transaction.changes))
    return b"".join(parts)


def _encode_change(change: Change) -> bytes:
    match change:
        case NodeCreated(path, data, acl, owner):
            encoded = path.encode()
            length = _NULL if data is None else len(data)
            return b"".join(
                (
                    b"\x01",
                    _LENGTH.pack(len(encoded)),
                    encoded,
                    _CREATE_TAIL.pack(owner, length),
                    data or b"",
                    _encode_acl(acl),
                )
            )
        case NodeDeleted(path):
            return bytes([_DELETED]) + _encode_bytes(path.encode())
        case DataChanged(path, data):
            return bytes([_DATA]) + _encode_bytes(path.encode()) + _encode_bytes(data)
        case AclChanged(path, acl):
            return bytes([_ACL]) + _encode_bytes(path.encode()) + _encode_acl(acl)
        case SessionOpened():
            return bytes([_OPENED]) + _encode_session(change)
        case SessionClosed(session_id):
            return bytes([_CLOSED]) + session_id.to_bytes(8, "big")


def _encode_session(session: SessionOpened) -> bytes:
    return _SESSION.pack(session.session_id, session.timeout_ms, len(session.password)) + session.password


class _Reader:
    """Takes values from the front of a buffer; what does not fit raises struct.error or ValueError."""

    __slots__ = ("_data", "position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.position = 0

    @property
    def at_end(self) -> bool:
        return self.position >= len(self._data)

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        values: tuple[int, ...] = layout.unpack_from(self._data, self.position)
        self.position += layout.size
        return values

    def take(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self._data):
            raise ValueError(f"{length} bytes at {self.position} of {len(self._data)}")
        data = bytes(self._data[self.position : end])
        self.position = end
        return data

    def nullable(self) -> bytes | None:
        (length,) = self.unpack(_LENGTH)
        return None if length == _NULL else self.take(length)

    def text(self) -> str:
        (length,) = self.unpack(_LENGTH)
        return self.take(length).decode()

    def acl(self) -> AclList:
        count = self.take(1)[0]
        if count == 0:
            return OPEN_ACL
        return tuple(Acl(self.take(1)[0], self.text(), self.text()) for _ in range(count))

    def session(self) -> SessionOpened:
        session_id, timeout_ms, length = self.unpack(_SESSION)
        return SessionOpened(session_id, timeout_ms, self.take(length))


def _decode_transactions(payload: memoryview, path: str) -> Iterable[Transaction]:
    reader = _Reader(payload)
    try:
        while not reader.at_end:
            zxid, time_ms, count = reader.unpack(_TRANSACTION)
            yield Transaction(zxid, time_ms, tuple(_decode_change(reader) for _ in range(count)))
    except (struct.error, ValueError) as error:
        raise StorageError(path, f"a frame with a right checksum and a wrong content: {error}") from error


def _decode_change(reader: _Reader) -> Change:
    kind = reader.take(1)[0]
    if kind == _CREATED:
        path = reader.text()
        owner, length = reader.unpack(_CREATE_TAIL)
        data = None if length == _NULL else reader.take(length)
        return NodeCreated(path, data, reader.acl(), owner)
    if kind == _DELETED:
        return NodeDeleted(reader.text())
    if kind == _DATA:
        return DataChanged(reader.text(), reader.nullable())
    if kind == _ACL:
        return AclChanged(reader.text(), reader.acl())
    if kind == _OPENED:
        return reader.session()
    if kind == _CLOSED:
        return SessionClosed(int.from_bytes(reader.take(8), "big"))
    raise ValueError(f"kind of change {kind}")


def _encode_snapshot(tree: Tree) -> bytes:
    state = tree.state()
    acls: dict[AclList, int] = {OPEN_ACL: 0}
    nodes: list[bytes] = []
    for path, node in tree.nodes():
        encoded = path.encode()
        length = _NULL if node.data is None else len(node.data)
        nodes += [
            _NODE.pack(
                len(encoded),
                node.czxid,
                node.mzxid,
                node.pzxid,
                node.ctime,
                node.mtime,
                node.version,
                node.aversion,
                node.created_children,
                node.owner,
                length,
            ),
            acls.setdefault(node.acl, len(acls)).to_bytes(4, "big"),
            encoded,
            node.data or b"",
        ]
    body = b"".join(
        [
            SNAPSHOT_MAGIC,
            _SNAPSHOT_HEAD.pack(state.zxid, state.last_session_id, len(state.sessions), len(acls) - 1, tree.node_count),
            *map(_encode_session, state.sessions),
            *(_encode_acl(acl) for acl in list(acls)[1:]),
            *nodes,
        ]
    )
    return body + crc32c(body).to_bytes(4, "big")


def _decode_snapshot(data: bytes, settings: DatabaseSettings) -> Tree | None:
    """The tree of a snapshot, or None if it is damaged."""
    if not data.startswith(SNAPSHOT_MAGIC) or not _has_its_checksum(data):
        return None
    reader = _Reader(memoryview(data)[len(SNAPSHOT_MAGIC) : -4])
    try:
        zxid, last_session_id, session_count, acl_count, node_count = reader.unpack(_SNAPSHOT_HEAD)
        sessions = tuple(reader.session() for _ in range(session_count))
        acls = [OPEN_ACL, *(reader.acl() for _ in range(acl_count))]
        nodes = [_decode_node(reader, acls) for _ in range(node_count)]
    except (struct.error, ValueError, IndexError):
        return None
    return Tree.restore(TreeState(zxid, last_session_id, sessions), nodes, max_request_bytes=settings.max_request_bytes)


def _decode_node(reader: _Reader, acls: Sequence[AclList]) -> tuple[str, Node]:
    path_length, czxid, mzxid, pzxid, ctime, mtime, version, aversion, created, owner, length = reader.unpack(_NODE)
    acl = acls[int.from_bytes(reader.take(4), "big")]
    path = reader.take(path_length).decode()
    node = Node(None if length == _NULL else reader.take(length), acl, owner, czxid, ctime)
    node.mzxid, node.pzxid, node.mtime = mzxid, pzxid, mtime
    node.version, node.aversion, node.created_children = version, aversion, created
    return path, node
