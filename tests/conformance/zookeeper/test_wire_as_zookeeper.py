"""The same requests, byte for byte, to Apache's ZooKeeper and to `kavka zookeeper`: the same errors and answers.

zxids, times and session ids differ; of them only whether there is one is compared.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kavka.zookeeper.decide import jute
from kavka.zookeeper.decide.jute import OpCode, Request
from kavka.zookeeper.port import OPEN_ACL, Acl, Stat
from tests.apache_kafka import ApacheKafka
from tests.conformance.zookeeper.jute_client import JuteClient, ServerError, delete_tree
from tests.conformance.zookeeper.zookeeper_process import ZooKeeperProcess

pytestmark = pytest.mark.kafka

ROOT = "/wire"


def create(path: str, *, data: bytes | None = b"x", flags: int = 0, acl: tuple[Acl, ...] = OPEN_ACL) -> Any:
    return jute.CreateRequest(ROOT + path, data, acl, flags)


def watched(path: str) -> Any:
    return jute.WatchedPathRequest(ROOT + path, False)


def versioned(path: str, version: int = -1) -> Any:
    return jute.VersionedPathRequest(ROOT + path, version)


def path_of(path: str) -> Any:
    return jute.PathRequest(ROOT + path)


def multi(*parts: tuple[OpCode, Any]) -> tuple[OpCode, Any]:
    return OpCode.MULTI, jute.MultiRequest(parts)


ADMIN_ONLY = (Acl(16, "world", "anyone"),)
IDENTITIES = [
    *(("digest", text) for text in ("u:hash", "u", "u:h:x", "", ":", ":h", "u:", "u::", ":u:h", "u:h:")),
    *(("ip", text) for text in ("127.0.0.1", "127.0.0.1/8", "127.0.0.1/0", "127.0.0.1/32", "127.0.0.1/33")),
    *(("ip", text) for text in ("127.0.0", "127.0.0.1.1", "300.1.1.1", "127.0.0.1/x", "127.0.0.1/", "127.0.0.1/-1")),
    *(("ip", text) for text in ("", "/8", "::1/129", "host", "127.0.0.01", "127.0.0.1/8/8", "127.0.0.1/+8")),
    *(("ip", text) for text in ("1.2.3.-4", "127..0.1", "g::1", "+1.2.3.4", "1.2.3.4 ")),
    *(("world", text) for text in ("anyone", "someone", "")),
    *(("super", text) for text in ("x", "")),
    *(("auth", text) for text in ("x", "")),
    ("", ""),
    ("", "x"),
]
"""What an entry may name, each in a list of its own. Addresses of IPv6 are left out: kavka takes them, ZooKeeper 3.8
does not."""
SCRIPT: list[tuple[OpCode, Any]] = [
    (OpCode.CREATE, create("")),
    (OpCode.CREATE, create("")),
    (OpCode.CREATE2, create("/a", data=None)),
    (OpCode.CREATE2, create("/none/a")),
    (OpCode.CREATE2, create("/s-", flags=2)),
    (OpCode.CREATE2, create("/e-", flags=3)),
    (OpCode.CREATE, create("/e-0000000002/child")),
    (OpCode.CREATE2, create("/e", flags=1)),
    (OpCode.CREATE, create("/e/child")),
    (OpCode.CREATE_CONTAINER, create("/c", flags=4)),
    (OpCode.CREATE, create("//double")),
    (OpCode.CREATE, create("/.")),
    (OpCode.CREATE, create("/ends/")),
    (OpCode.CREATE, create("/no-acl", acl=())),
    (OpCode.CREATE, create("/bad-acl", acl=(Acl(31, "nonsense", "x"),))),
    (OpCode.CREATE, create("/auth-acl", acl=(Acl(31, "auth", ""),))),
    *((OpCode.CREATE, create(f"/id-{n}", acl=(Acl(31, *identity),))) for n, identity in enumerate(IDENTITIES)),
    (OpCode.CREATE, create("/shut", acl=ADMIN_ONLY)),
    (OpCode.GET_DATA, watched("/shut")),
    (OpCode.SET_DATA, jute.SetDataRequest(ROOT + "/shut", b"", -1)),
    (OpCode.GET_CHILDREN, watched("/shut")),
    (OpCode.GET_ACL, path_of("/shut")),
    (OpCode.SET_ACL, jute.SetAclRequest(ROOT + "/shut", OPEN_ACL, 5)),
    (OpCode.SET_ACL, jute.SetAclRequest(ROOT + "/shut", OPEN_ACL, 0)),
    (OpCode.GET_ACL, path_of("/shut")),
    (OpCode.GET_ACL, path_of("/none")),
    (OpCode.GET_DATA, watched("/a")),
    (OpCode.GET_DATA, watched("/none")),
    (OpCode.EXISTS, watched("/a")),
    (OpCode.EXISTS, watched("/none")),
    (OpCode.SET_DATA, jute.SetDataRequest(ROOT + "/a", b"new", 0)),
    (OpCode.SET_DATA, jute.SetDataRequest(ROOT + "/a", b"new", 0)),
    (OpCode.SET_DATA, jute.SetDataRequest(ROOT + "/none", b"new", 0)),
    (OpCode.GET_CHILDREN, watched("")),
    (OpCode.GET_CHILDREN2, watched("")),
    (OpCode.GET_CHILDREN2, watched("/none")),
    (OpCode.DELETE, versioned("", 0)),
    (OpCode.DELETE, versioned("/a", 7)),
    (OpCode.DELETE, versioned("/none")),
    (OpCode.DELETE, versioned("/s-0000000001")),
    (OpCode.SYNC, path_of("/a")),
    (OpCode.SYNC, path_of("/none")),
    (OpCode.PING, jute.EmptyRequest()),
    (OpCode.GET_EPHEMERALS, path_of("")),
    (OpCode.GET_ALL_CHILDREN_NUMBER, path_of("")),
    (OpCode.GET_ALL_CHILDREN_NUMBER, path_of("/none")),
    (OpCode.WHO_AM_I, jute.EmptyRequest()),
    (OpCode.ADD_WATCH, jute.WatchRequest(ROOT + "/later", 0)),
    (OpCode.CHECK_WATCHES, jute.WatchRequest(ROOT + "/a", 3)),
    (OpCode.REMOVE_WATCHES, jute.WatchRequest(ROOT + "/a", 3)),
    (OpCode.REMOVE_WATCHES, jute.WatchRequest(ROOT + "/later", 3)),
    multi(),
    multi(
        (OpCode.CREATE, create("/m")),
        (OpCode.CREATE2, create("/m/n")),
        (OpCode.CREATE_CONTAINER, create("/m/c", flags=4)),
        (OpCode.SET_DATA, jute.SetDataRequest(ROOT + "/m", b"y", 0)),
        (OpCode.CHECK, versioned("/m", 1)),
        (OpCode.DELETE, versioned("/m/n")),
    ),
    multi((OpCode.CREATE, create("/p")), (OpCode.CHECK, versioned("/m", 9)), (OpCode.DELETE, versioned("/m/c"))),
    multi((OpCode.CREATE, create("/p", acl=())), (OpCode.CREATE, create("/q"))),
    multi((OpCode.CHECK, versioned("/m", 1))),
    (OpCode.EXISTS, watched("/p")),
    (
        OpCode.MULTI_READ,
        jute.MultiRequest(((OpCode.GET_DATA, watched("/none")), (OpCode.GET_CHILDREN, watched("/m")))),
    ),
    (OpCode.AUTH, jute.AuthRequest(0, "digest", b"alice:secret")),
    (OpCode.CREATE, create("/alice", acl=(Acl(31, "auth", ""),))),
    (OpCode.GET_ACL, path_of("/alice")),
    (OpCode.CLOSE_SESSION, jute.EmptyRequest()),
]


class Wire:
    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        greeting = jute.ConnectRequest(0, 0, 6000, 0, bytes(16), read_only=False)
        self._socket.sendall(jute.frame(jute.encode_connect_request(greeting)))
        self.greeted = jute.decode_connect_answer(self._frame())

    def ask(self, xid: int, op: OpCode, record: Any) -> tuple[int, Any, int]:
        """Error, answer and length of the reply."""
        special = {OpCode.PING: jute.PING_XID, OpCode.AUTH: jute.AUTH_XID}
        self._socket.sendall(jute.frame(jute.encode_request(Request(special.get(op, xid), op, record))))
        payload = self._frame()
        header, answer = jute.decode_reply(payload, op)
        assert header.xid == special.get(op, xid)
        return header.error, masked(answer), len(payload)

    def close(self) -> None:
        self._socket.close()

    def _frame(self) -> bytes:
        return self._read(struct.unpack(">i", self._read(4))[0])

    def _read(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            piece = self._socket.recv(size_bytes - len(data))
            assert piece, "the server ended the connection"
            data += piece
        return data


def masked(value: Any) -> Any:
    """The value without what differs between any two servers; lists of names are in no particular order."""
    if isinstance(value, Stat):
        return value._replace(
            czxid=0, mzxid=0, pzxid=0, ctime=0, mtime=0, ephemeral_owner=int(value.ephemeral_owner != 0)
        )
    if isinstance(value, (jute.PathsAnswer, jute.ChildrenAnswer)):
        return sorted(value[0]), [masked(each) for each in value[1:]]
    if isinstance(value, tuple):
        return tuple(masked(each) for each in value)
    return value


@pytest.fixture
def kavka_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    with ZooKeeperProcess(tmp_path / "zookeeper", tick_ms=2000) as process:
        yield process


def leave_nothing(address: str) -> None:
    """Other tests look at the whole tree of the same server."""
    client = JuteClient(address)
    for name in ("alice", *(f"id-{n}" for n in range(len(IDENTITIES)))):
        with suppress(ServerError):
            client.delete(f"{ROOT}/{name}")  # Some of them nobody could find by reading.
    delete_tree(client, ROOT)
    client.close()


def test_every_request_has_zookeepers_answer(apache_kafka: ApacheKafka, kavka_zookeeper: ZooKeeperProcess) -> None:
    theirs, ours = Wire(apache_kafka.zookeeper), Wire(kavka_zookeeper.address)
    assert ours.greeted._replace(session_id=0, password=b"") == theirs.greeted._replace(session_id=0, password=b"")
    differences = []
    for xid, (op, record) in enumerate(SCRIPT, start=1):
        expected, found = theirs.ask(xid, op, record), ours.ask(xid, op, record)
        if expected != found:
            differences.append(f"{op.name} {record}\n  ZooKeeper: {expected}\n  kavka:     {found}")
    theirs.close()
    ours.close()
    leave_nothing(apache_kafka.zookeeper)
    assert not differences, "\n".join(differences)
