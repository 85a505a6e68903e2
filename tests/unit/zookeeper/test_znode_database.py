"""What of the tree survives a crash, a torn write and damaged files."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from kavka.errors import InvariantViolation, StorageError
from kavka.zookeeper.database import LOG_MAGIC, Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.decide.tree import Transaction
from kavka.zookeeper.port import OPEN_ACL, Acl, Create, CreateMode, Delete, Operation, SetAcl, SetData
from tests.unit.zookeeper.memory_disk import MemoryDisk
from tests.unit.zookeeper.tree_support import NOW_MS, PASSWORD, picture

DIRECTORY = "/zk"
LOG = f"{DIRECTORY}/log.0000000000000001"


class Server:
    """A database with one session, that commits one frame for each call."""

    def __init__(self, disk: MemoryDisk, settings: DatabaseSettings | None = None) -> None:
        self.disk = disk
        self.database = Database.open(disk, DIRECTORY, settings)
        self.tree = self.database.tree
        self.pictures = [picture(self.tree)]
        """One for each frame on the disk, and the one before."""
        self.frame_ends = [len(LOG_MAGIC)]
        self.session = 0
        self.open_session()

    def open_session(self) -> None:
        self.session, applied = self.tree.open_session(6_000, PASSWORD, now_ms=NOW_MS, monotonic_ms=0)
        assert applied.transaction is not None
        self.commit(applied.transaction)

    def write(self, *operations: Operation) -> None:
        self.commit(self.prepare(*operations))

    def prepare(self, *operations: Operation) -> Transaction:
        transaction = self.tree.write(self.session, operations, now_ms=NOW_MS).transaction
        assert transaction is not None
        return transaction

    def commit(self, *transactions: Transaction) -> None:
        self.database.append(transactions)
        self.database.sync()
        self.pictures.append(picture(self.tree))
        self.frame_ends.append(len(self.disk.files.get(LOG, b"")))

    def snapshot(self) -> None:
        self.database.begin_snapshot().write()


def busy_server(disk: MemoryDisk) -> Server:
    server = Server(disk)
    server.write(Create("/a", b"1"), Create("/a/b", None), Create("/é", "ü".encode()))
    server.write(Create("/e", mode=CreateMode.EPHEMERAL), Create("/s", mode=CreateMode.PERSISTENT_SEQUENTIAL))
    server.write(SetData("/a", b"2"), SetAcl("/a/b", (Acl(1, "world", "anyone"), Acl(31, "digest", "k:x"))))
    server.write(Create("/c", mode=CreateMode.CONTAINER), Create("/t", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=9))
    # Two transactions in one frame, as group commit makes them.
    server.commit(server.prepare(Delete("/é")), server.prepare(Create("/g")))
    closed = server.tree.close_session(server.session, now_ms=NOW_MS).transaction
    assert closed is not None
    server.commit(closed)
    return server


def test_a_restart_finds_everything() -> None:
    server = busy_server(MemoryDisk())
    found = Database.open(server.disk.copy(), DIRECTORY)
    assert picture(found.tree) == picture(server.tree)
    assert found.recovery.replayed == server.tree.zxid
    assert found.recovery.cut_bytes == 0


def test_a_cut_at_every_byte_leaves_whole_frames() -> None:
    server = busy_server(MemoryDisk())
    log = bytes(server.disk.files[LOG])
    for size in range(len(log)):
        disk = MemoryDisk({LOG: log[:size]})
        whole = sum(1 for end in server.frame_ends[1:] if end <= size)
        found = Database.open(disk, DIRECTORY)
        assert picture(found.tree) == server.pictures[whole], f"cut at {size}"
        # It goes on from there, and a second start finds what was added.
        _, applied = found.tree.open_session(1, b"", now_ms=NOW_MS, monotonic_ms=0)
        assert applied.transaction is not None
        found.append([applied.transaction])
        found.close()
        again = Database.open(disk.copy(), DIRECTORY)
        assert picture(again.tree) == picture(found.tree), f"cut at {size}"


def test_every_damaged_byte_of_the_last_frame_cuts_that_frame_off_and_keeps_its_bytes() -> None:
    server = busy_server(MemoryDisk())
    log = bytes(server.disk.files[LOG])
    start = server.frame_ends[-2]
    for position in range(start, len(log)):
        damaged = bytearray(log)
        damaged[position] ^= 0x40
        disk = MemoryDisk({LOG: bytes(damaged)})
        found = Database.open(disk, DIRECTORY)
        assert picture(found.tree) == server.pictures[-2], f"damage at {position}"
        assert found.recovery.cut_bytes == len(log) - start
        assert found.recovery.cut_to is not None
        assert disk.read(found.recovery.cut_to) == bytes(damaged[start:])


def test_every_damaged_byte_before_the_last_frame_is_refused_and_nothing_is_changed() -> None:
    server = busy_server(MemoryDisk())
    log = bytes(server.disk.files[LOG])
    for position in range(server.frame_ends[-2]):
        damaged = bytearray(log)
        damaged[position] ^= 0x40
        disk = MemoryDisk({LOG: bytes(damaged)})
        with pytest.raises(StorageError):
            Database.open(disk, DIRECTORY)
        assert disk.files == {LOG: damaged}


def test_without_syncs_damage_in_the_middle_is_a_power_cut_and_ends_the_log() -> None:
    server = busy_server(MemoryDisk())
    damaged = server.disk.copy()
    damaged.files[LOG][server.frame_ends[2] + 20] ^= 1
    found = Database.open(damaged, DIRECTORY, DatabaseSettings(sync=SyncPolicy.NEVER))
    assert picture(found.tree) == server.pictures[2]


def test_what_was_synced_survives_a_power_cut() -> None:
    server = busy_server(MemoryDisk())
    expected = picture(server.tree)
    _, unsynced = server.tree.open_session(1, b"", now_ms=NOW_MS, monotonic_ms=0)
    assert unsynced.transaction is not None
    server.database.append([unsynced.transaction])
    found = Database.open(server.disk.after_power_cut(), DIRECTORY)
    assert picture(found.tree) == expected


def test_a_log_that_a_snapshot_ends_is_synced_whatever_the_policy() -> None:
    server = Server(MemoryDisk(), DatabaseSettings(sync=SyncPolicy.NEVER))
    server.database.append([server.prepare(Create("/unsynced"))])
    server.snapshot()
    disk = server.disk.after_power_cut()
    disk.files[f"{DIRECTORY}/snapshot.{server.tree.zxid:016x}"][30] ^= 1
    assert picture(Database.open(disk, DIRECTORY).tree) == picture(server.tree)


def test_a_snapshot_and_the_log_behind_it_bring_all_back() -> None:
    server = busy_server(MemoryDisk())
    server.snapshot()
    server.open_session()
    server.write(Create("/after"))
    found = Database.open(server.disk.copy(), DIRECTORY)
    assert picture(found.tree) == picture(server.tree)
    assert (found.recovery.snapshot_zxid, found.recovery.replayed) == (server.tree.zxid - 2, 2)


def test_a_cut_at_every_byte_of_the_log_behind_a_snapshot_leaves_whole_frames() -> None:
    server = busy_server(MemoryDisk())
    server.snapshot()
    server.open_session()
    second = next(path for path in server.disk.files if path.startswith(f"{DIRECTORY}/log") and path != LOG)
    end = len(server.disk.files[second])
    server.write(Create("/after"))
    log = bytes(server.disk.files[second])
    for size in range(len(log)):
        disk = server.disk.copy()
        del disk.files[second][size:]
        found = Database.open(disk, DIRECTORY)
        assert picture(found.tree) == server.pictures[-2 if size >= end else -3], f"cut at {size}"


def test_a_damaged_snapshot_is_passed_over_for_the_one_before_it() -> None:
    server = busy_server(MemoryDisk())
    for number in range(3):
        server.snapshot()
        server.open_session()
        server.write(Create(f"/after{number}"))
    expected = picture(server.tree)
    snapshots = [name for name in server.disk.names() if name.startswith("snapshot")]
    assert len(snapshots) == 3
    for damaged_count in (1, 2):
        disk = server.disk.copy()
        for name in snapshots[-damaged_count:]:
            disk.files[f"{DIRECTORY}/{name}"][40] ^= 1
        found = Database.open(disk, DIRECTORY)
        assert picture(found.tree) == expected
        assert found.recovery.passed_over == tuple(reversed(snapshots[-damaged_count:]))
    for name in snapshots:
        server.disk.files[f"{DIRECTORY}/{name}"][40] ^= 1
    with pytest.raises(StorageError, match="restore the directory"):
        Database.open(server.disk, DIRECTORY)


def test_every_damaged_or_missing_byte_of_a_snapshot_is_noticed() -> None:
    server = busy_server(MemoryDisk())
    server.snapshot()
    name = f"{DIRECTORY}/{next(name for name in server.disk.names() if name.startswith('snapshot'))}"
    snapshot = bytes(server.disk.files[name])
    for position in range(len(snapshot)):
        flipped = snapshot[:position] + bytes([snapshot[position] ^ 4]) + snapshot[position + 1 :]
        for data in (snapshot[:position], flipped):
            disk = server.disk.copy()
            disk.files[name] = bytearray(data)
            found = Database.open(disk, DIRECTORY)
            assert found.recovery.passed_over != ()
            assert picture(found.tree) == picture(server.tree)


def test_snapshots_and_logs_that_nobody_needs_are_removed() -> None:
    server = Server(MemoryDisk(), DatabaseSettings(snapshots_kept=2))
    for number in range(5):
        server.write(Create(f"/n{number}"))
        server.snapshot()
    names = server.disk.names()
    assert [name for name in names if name.startswith("snapshot")] == [
        f"snapshot.{zxid:016x}" for zxid in (server.tree.zxid - 1, server.tree.zxid)
    ]
    assert [name for name in names if name.startswith("log")] == [f"log.{server.tree.zxid:016x}"]
    found = Database.open(server.disk.copy(), DIRECTORY)
    assert picture(found.tree) == picture(server.tree)


def test_a_start_with_all_snapshots_damaged_and_old_logs_gone_is_refused() -> None:
    server = Server(MemoryDisk(), DatabaseSettings(snapshots_kept=1))
    server.write(Create("/a"))
    server.snapshot()
    disk = server.disk.copy()
    disk.files[f"{DIRECTORY}/snapshot.{server.tree.zxid:016x}"][30] ^= 1
    for name in disk.names():
        if name.startswith("log"):
            del disk.files[f"{DIRECTORY}/{name}"]
    with pytest.raises(StorageError, match="restore the directory"):
        Database.open(disk, DIRECTORY)


def test_a_missing_log_between_two_is_refused() -> None:
    server = Server(MemoryDisk())
    for number in range(3):
        server.write(Create(f"/n{number}"))
        server.snapshot()
    disk = server.disk.copy()
    for name in disk.names():
        if name.startswith("snapshot"):
            del disk.files[f"{DIRECTORY}/{name}"]
    logs = [name for name in disk.names() if name.startswith("log")]
    del disk.files[f"{DIRECTORY}/{logs[1]}"]
    with pytest.raises(StorageError, match="cannot follow"):
        Database.open(disk, DIRECTORY)


def test_a_file_that_is_no_log_is_refused() -> None:
    with pytest.raises(StorageError, match="no transaction log"):
        Database.open(MemoryDisk({LOG: b"GET / HTTP/1.1"}), DIRECTORY)


@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_a_file_of_a_later_format_is_refused_with_the_two_numbers_not_passed_over(kind: str) -> None:
    server = Server(MemoryDisk())
    server.write(Create("/a"))
    server.snapshot()
    server.write(Create("/b"))
    disk = server.disk.copy()
    newest = max(name for name in disk.names() if name.startswith(kind))
    data = disk.files[f"{DIRECTORY}/{newest}"]
    assert data[7:8] == b"1"
    data[7:8] = b"2"
    if kind == "snapshot":
        data[-4:] = crc32c(bytes(data[:-4])).to_bytes(4, "big")
    with pytest.raises(StorageError, match="its format is 2, and this version of kavka reads format 1; start"):
        Database.open(disk, DIRECTORY)


def test_other_files_in_the_directory_are_left_alone() -> None:
    disk = MemoryDisk({f"{DIRECTORY}/notes": b"x", f"{DIRECTORY}/log.zzz": b"y", f"{DIRECTORY}/log.{'g' * 16}": b"z"})
    assert Database.open(disk, DIRECTORY).recovery.replayed == 0


@pytest.mark.parametrize(
    ("settings", "frames"),
    [(DatabaseSettings(snapshot_transactions=5), 4), (DatabaseSettings(snapshot_log_bytes=300), 4)],
)
def test_a_snapshot_is_due_after_so_many_transactions_or_bytes(settings: DatabaseSettings, frames: int) -> None:
    server = Server(MemoryDisk(), settings)
    written = 0
    while not server.database.snapshot_due:
        server.write(Create(f"/n{written}", b"x" * 20))
        written += 1
    assert written == frames
    server.snapshot()
    assert not server.database.snapshot_due


def test_a_thousand_partitions_are_one_write() -> None:
    server = Server(MemoryDisk())
    server.write(Create("/t"))
    before = server.disk.appends
    server.write(
        *(
            operation
            for number in range(1_000)
            for operation in (Create(f"/t/{number}"), Create(f"/t/{number}/state", b"{}"))
        )
    )
    assert server.disk.appends == before + 1


@pytest.mark.parametrize("call", ["append", "sync"])
def test_after_an_error_nothing_more_is_written(call: str) -> None:
    server = Server(MemoryDisk())
    server.disk.fail_on = {call}
    with pytest.raises(StorageError, match="no space"):
        server.write(Create("/a"))
    server.disk.fail_on = set()
    with pytest.raises(StorageError, match="unusable since"):
        server.write(Create("/b"))
    with pytest.raises(StorageError, match="unusable since"):
        server.database.sync()
    server.database.close()
    found = dict(Database.open(server.disk.copy(), DIRECTORY).tree.nodes())
    assert "/b" not in found
    assert ("/a" in found) == (call == "sync"), "written, but whether it is durable is unknown"


def test_transactions_must_follow_one_another() -> None:
    server = Server(MemoryDisk())
    with pytest.raises(InvariantViolation):
        server.database.append([Transaction(server.tree.zxid + 2, NOW_MS, ())])
    server.prepare(Create("/lost"))
    with pytest.raises(InvariantViolation):
        server.database.begin_snapshot()


def test_limits_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        DatabaseSettings(snapshots_kept=0)


def test_open_access_lists_stay_one_object() -> None:
    server = busy_server(MemoryDisk())
    server.snapshot()
    found = Database.open(server.disk.copy(), DIRECTORY)
    assert dict(found.tree.nodes())["/a"].acl is OPEN_ACL
