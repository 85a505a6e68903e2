"""The disk of ZooKeeper is full: changes of users, rights and quotas fail with a clear error, none by half."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.messages.alter_client_quotas_request import EntityData, EntryData, OpData
from kavka.protocol.messages.alter_user_scram_credentials_request import ScramCredentialUpsertion
from kavka.protocol.messages.create_acls_request import AclCreation
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import HOST, answers_metadata
from tests.kit.ports import free_port

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

KAVKA = str(Path(sys.executable).parent / "kavka")
HALTED = 70
LATE = ErrorCode.REQUEST_TIMED_OUT


@contextmanager
def running(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen([KAVKA, *command], stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def changes(name: str) -> list[tuple[Any, int]]:
    """A user, a right and a quota of this name."""
    user = ScramCredentialUpsertion(name=name, mechanism=2, iterations=4096, salt=b"salt", salted_password=bytes(64))
    right = AclCreation(
        resource_type=2,
        resource_name=f"topic-of-{name}",
        resource_pattern_type=3,
        principal=f"User:{name}",
        host="*",
        operation=3,
        permission_type=3,
    )
    quota = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name=name)],
        ops=[OpData(key="producer_byte_rate", value=1e6)],
    )
    return [
        (m.AlterUserScramCredentialsRequest(upsertions=[user]), 0),
        (m.CreateAclsRequest(creations=[right]), 2),
        (m.AlterClientQuotasRequest(entries=[quota]), 1),
    ]


def outcomes(port: int, name: str) -> list[tuple[int, str | None]]:
    """What each change is answered; all of them at the same time."""

    def ask(message: Any, version: int) -> tuple[int, str | None]:
        client = BrokerClient(port, timeout_s=60)
        try:
            answer = client.ask(message, version)
        finally:
            client.close()
        (result,) = answer.entries if isinstance(message, m.AlterClientQuotasRequest) else answer.results
        return result.error_code, result.error_message

    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda change: ask(*change), changes(name)))


def found(port: int) -> list[list[str]]:
    """The users, whose rights there are, and the client ids with quotas."""
    client = BrokerClient(port, timeout_s=60)
    try:
        users = client.ask(m.DescribeUserScramCredentialsRequest(users=None), 0)
        anything = m.DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        rights = client.ask(anything, 2)
        quotas = client.ask(m.DescribeClientQuotasRequest(), 1)
    finally:
        client.close()
    return [
        sorted(result.user for result in users.results),
        sorted(acl.principal.removeprefix("User:") for resource in rights.resources for acl in resource.acls),
        sorted(entity.entity_name for entry in quotas.entries for entity in entry.entity),
    ]


def fill(path: Path) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (4096, 1):
            try:
                while True:
                    os.write(descriptor, bytes(size))
            except OSError as full:
                assert full.errno == errno.ENOSPC  # noqa: PT017  # it ends the loop
    finally:
        os.close(descriptor)


def test_changes_on_a_full_disk_are_refused_whole_and_work_again_when_there_is_room(
    tmp_path: Path, small_disk: Callable[[str], Any]
) -> None:
    disk, log = small_disk("4m"), tmp_path / "zookeeper.log"
    zookeeper_port, port = free_port(), free_port()
    zookeeper = ("zookeeper", "--port", str(zookeeper_port), "--data", f"{disk.path}/zookeeper", "--tick-time", "1000")
    settings = tmp_path / "broker.properties"
    settings.write_text(
        f"broker.id=1\nlisteners=PLAINTEXT://{HOST}:{port}\nlog.dirs={tmp_path}/logs\n"
        f"zookeeper.connect={HOST}:{zookeeper_port}\nzookeeper.session.timeout.ms=6000\n"
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\nsuper.users=User:ANONYMOUS\n"
    )
    with running(tmp_path / "broker.log", "server", str(settings)) as broker:
        with running(log, *zookeeper) as server:
            for _ in range(600):
                if answers_metadata(port, brokers=1, timeout_s=1):
                    break
                with suppress(subprocess.TimeoutExpired):
                    broker.wait(0.1)
                assert broker.poll() is None, (tmp_path / "broker.log").read_text()
            assert [code for code, _ in outcomes(port, "before")] == [0, 0, 0]
            fill(disk.path / "filler")
            # What fits into the log's last block is written; one of these is too much, and it ends the server.
            done = ["before"]
            for number in range(30):
                answers = outcomes(port, f"during-{number}")
                if server.poll() is not None:
                    break
                assert [code for code, _ in answers] == [0, 0, 0]
                done.append(f"during-{number}")
            assert server.wait(60) == HALTED
            assert any(code == LATE for code, _ in answers)
            assert all("ZooKeeper did not answer" in str(message) for code, message in answers if code == LATE)
            assert "No space left on device" in log.read_text()
        (disk.path / "filler").unlink()
        with running(log, *zookeeper):
            for _ in range(60):
                if [code for code, _ in outcomes(port, "after")] == [0, 0, 0]:
                    break
            # A change whose outcome was not known is there whole, or not at all: each list is read without an error.
            for names in found(port):
                assert set(names) - {f"during-{number}"} == {*done, "after"}
        with running(log, *zookeeper):
            for _ in range(60):
                if [code for code, _ in outcomes(port, "again")] == [0, 0, 0]:
                    break
            assert all({*done, "after", "again"} <= set(names) for names in found(port))
        assert broker.poll() is None
