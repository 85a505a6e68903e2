"""Scenarios of the cluster and of the connection: ApiVersions, DescribeCluster, DescribeLogDirs, frames."""

from __future__ import annotations

from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey, RequestHeader, encode_request_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages import describe_log_dirs_request
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_connection import Closed, framed
from tests.conformance.wire.wire_session import WireSession, batch


def no_list(_struct: Any) -> bool:
    """Which versions a broker serves is compared in a test of its own."""
    return False


@scenario(ApiKey.API_VERSIONS)
def api_versions(session: WireSession, version: int) -> None:
    good = m.ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")
    session.record("asked", good, version, keep=no_list)
    if version >= 3:
        odd = m.ApiVersionsRequest(client_software_name="no spaces", client_software_version="1.0")
        session.record("illegal software name", odd, version, keep=no_list)
        empty = m.ApiVersionsRequest(client_software_name="", client_software_version="")
        session.record("empty software name", empty, version, keep=no_list)


@scenario(ApiKey.API_VERSIONS, min_version=3)
def api_versions_too_new(session: WireSession, version: int) -> None:
    """KIP-511: answered in version 0 with the list, whatever the body is."""
    connection = session.connect()
    header = RequestHeader(ApiKey.API_VERSIONS, 99, 5, "wire")
    connection.send_bytes(framed(encode_request_header(header) + encode(m.ApiVersionsRequest(), version)))
    frame = connection.receive_frame()
    session.keep_answer("version 99", decode(m.ApiVersionsResponse, frame[4:], 0), 0)
    session.record("the connection goes on", m.ApiVersionsRequest(), 0, connection=connection, keep=no_list)


@scenario(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(session: WireSession, version: int) -> None:
    session.record("plain", m.DescribeClusterRequest(), version)
    asked = m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    session.record("authorised operations", asked, version)
    if version >= 1:
        session.record("controllers, asked of a broker", m.DescribeClusterRequest(endpoint_type=2), version)
        session.record("unknown kind of endpoint", m.DescribeClusterRequest(endpoint_type=7), version)
    if version >= 2:
        session.record("fenced brokers too", m.DescribeClusterRequest(include_fenced_brokers=True), version)


@scenario(ApiKey.DESCRIBE_LOG_DIRS)
def describe_log_dirs(session: WireSession, version: int) -> None:
    wanted = describe_log_dirs_request.DescribableLogDirTopic
    topic = session.topic(partitions=2)
    session.produced(topic, batch())

    def ask(step: str, topics: Any) -> None:
        session.record(step, m.DescribeLogDirsRequest(topics=topics), version, keep=session.ours)

    ask("all", None)
    ask("one partition", [wanted(topic=topic, partitions=[0])])
    ask("both partitions", [wanted(topic=topic, partitions=[0, 1])])
    ask("unknown partition", [wanted(topic=topic, partitions=[9])])
    ask("unknown topic", [wanted(topic=session.name("unknown"), partitions=[0])])
    ask("no topics", [])


HEADER = encode_request_header(RequestHeader(ApiKey.API_VERSIONS, 0, 7, "wire"))
BAD_FRAMES = {
    "unknown API key": framed(b"\x7f\x00\x00\x00\x00\x00\x00\x01\xff\xff"),
    "negative API key": framed(b"\xff\xff\x00\x00\x00\x00\x00\x01\xff\xff"),
    "metadata 99": framed(b"\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00"),
    "negative version": framed(b"\x00\x03\xff\xff\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00"),
    "produce 2": framed(b"\x00\x00\x00\x02\x00\x00\x00\x01\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"),
    "negative length": b"\xff\xff\xff\xff",
    "length over the limit": b"\x7f\xff\xff\xff",
    "length of zero": bytes(4),
    "header cut short": framed(b"\x00\x03\x00"),
    "client id longer than the frame": framed(b"\x00\x03\x00\x01\x00\x00\x00\x01\x7f\xff"),
    "body cut short": framed(b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x00\x00"),
    "array longer than the frame": framed(b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(40),
}


@scenario(ApiKey.API_VERSIONS, min_version=4)
def bad_frames(session: WireSession, version: int) -> None:
    """Each on a connection of its own; the connection is closed, and a good one beside it goes on."""
    for step, data in BAD_FRAMES.items():
        connection = session.connect()
        connection.send_bytes(data)
        try:
            session.recorded[step] = f"answered with {len(connection.receive_frame())} bytes"
        except Closed:
            session.recorded[step] = "closed"
    session.record("a good request", m.ApiVersionsRequest(), 0, keep=no_list)


@scenario(ApiKey.API_VERSIONS, min_version=4)
def odd_but_good_frames(session: WireSession, version: int) -> None:
    good = {
        "null client id": framed(encode_request_header(RequestHeader(ApiKey.API_VERSIONS, 0, 1, None))),
        "empty client id": framed(encode_request_header(RequestHeader(ApiKey.API_VERSIONS, 0, 2, ""))),
        "bytes behind the body": framed(HEADER + b"\0\0\0"),
        "unknown tagged field in the header": framed(
            b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01x" + b"\x01\x63\x02ab" + b"\x02a\x02b\x00"
        ),
        "unknown tagged field in the body": framed(
            b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01x" + b"\x00" + b"\x02a\x02b" + b"\x01\x63\x02ab"
        ),
    }
    for step, data in good.items():
        connection = session.connect()
        connection.send_bytes(data)
        try:
            frame = connection.receive_frame()
            session.recorded[step] = f"answered with error {int.from_bytes(frame[4:6], 'big')}"
        except Closed:
            session.recorded[step] = "closed"
