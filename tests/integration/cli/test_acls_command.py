"""`kavka acls` and `kavka why denied` by command line, and that what they print as the way out is one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.security.acls import Operation, Permission
from kavka.security.resource_patterns import PatternType, ResourceType
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import BrokerClient, batch
from tests.kit.command_line import run_alone
from tests.kit.rights_script import EVERY, SETTINGS, add, creation, reserve

ADMINISTRATOR, CLIENT = "127.0.0.1", "127.0.0.2"
TOPIC = ResourceType.TOPIC


def on_broker(path: Path, work: Callable[[int, str], None]) -> None:
    """`work` gets the port and the log directory of a broker on which only 127.0.0.1 may do anything."""

    async def scenario() -> None:
        async with InProcessCluster(path, count=1, settings=SETTINGS) as cluster:
            ((_host, port),) = cluster.bootstrap

            def prepared() -> None:
                with BrokerClient(port) as admin:
                    reserve(admin)
                    admin.create_topic("orders")
                work(port, str(path))

            await asyncio.to_thread(prepared)

    asyncio.run(asyncio.wait_for(scenario(), 280))


def kavka(port: int, *words: str, status: int = 0) -> Any:
    result = run_alone(*words, KAVKA_BOOTSTRAP=f"127.0.0.1:{port}")
    assert result.returncode == status, result.stderr.decode()
    return json.loads(result.stdout) if "--json" in words else result.stdout.decode()


def produced(port: int) -> int:
    with BrokerClient(port, source=CLIENT) as client:
        return int(client.produce("orders", bytes(batch(b"v"))).error_code)


def paste(port: int, command: str) -> None:
    """As an administrator pastes it into a shell."""
    program = Path(sys.executable).parent / "kavka"
    answered = command.replace("kavka acls remove", "kavka acls remove --yes").replace("kavka acls", f"{program} acls")
    subprocess.run(
        ["bash", "-c", answered], check=True, timeout=200, env={"KAVKA_BOOTSTRAP": f"127.0.0.1:{port}", "PATH": "/bin"}
    )


def test_entries_are_added_listed_summed_up_and_removed(tmp_path: Path) -> None:
    def work(port: int, directory: str) -> None:
        bob = ("--allow-principal", "User:bob", "--allow-host", "10.0.0.7", "--operation", "Read")
        everybody = ("--deny-principal", "User:*", "--deny-host", "10.0.0.9")
        added = kavka(
            port, "acls", "add", *bob, *everybody, "--topic", "or", "--resource-pattern-type", "prefixed", "--json"
        )
        assert [(each["principal"], each["permission"], each["operation"]) for each in added] == [
            ("User:bob", "Allow", "Read"),
            ("User:*", "Deny", "Read"),
        ]
        about = ("--topic", "orders", "--resource-pattern-type", "match", "--json")
        listed = kavka(port, "acls", "list", *about)
        assert {(each["name"], each["principal"]) for each in listed} == {
            ("*", "User:ANONYMOUS"),
            ("or", "User:bob"),
            ("or", "User:*"),
        }
        who = {
            (each["principal"], each["host"]): each
            for each in kavka(port, "acls", "who", "--topic", "orders", "--json")
        }
        assert who["User:bob", "10.0.0.7"]["may"] == ["Read", "Describe"]
        assert who["User:bob", "*"]["may"] == []
        assert who["User:*", "10.0.0.9"]["denied"] == ["Read"]
        assert len(who["User:ANONYMOUS", ADMINISTRATOR]["may"]) == 8
        assert "everything" in kavka(port, "acls", "who", "--topic", "orders")
        # Without --yes nothing is removed where nobody can be asked.
        kavka(port, "acls", "remove", *bob, "--topic", "or", "--resource-pattern-type", "prefixed", status=2)
        removed = kavka(
            port, "acls", "remove", *bob, "--topic", "or", "--resource-pattern-type", "prefixed", "--yes", "--json"
        )
        assert [each["principal"] for each in removed] == ["User:bob"]
        assert kavka(port, "acls", "list", "--principal", "User:bob", "--json") == []

    on_broker(tmp_path, work)


@pytest.mark.parametrize("is_denied", [False, True], ids=["nothing allows it", "something denies it"])
def test_the_command_that_is_printed_allows_what_was_denied(tmp_path: Path, is_denied: bool) -> None:
    def work(port: int, directory: str) -> None:
        if is_denied:
            deny = creation(
                TOPIC, "ord", Operation.ALL, host=CLIENT, permission=Permission.DENY, pattern=PatternType.PREFIXED
            )
            with BrokerClient(port) as admin:
                assert add(admin, [deny]) == [0]
        assert produced(port) == 29
        told = kavka(port, "why", "denied", "--topic", "orders", "--data", directory)
        assert f"User:ANONYMOUS from host {CLIENT} may not Write on Topic orders (PRODUCE)" in told
        command = told.rpartition("If they should be allowed:")[2].strip()
        assert command.count("kavka acls") == (2 if is_denied else 1)
        paste(port, command)
        assert produced(port) == 0

    on_broker(tmp_path, work)


def test_a_command_line_that_names_too_little_says_what_is_missing() -> None:
    for words, missing in (
        (("acls", "add", "--allow-principal", "User:bob"), "name a resource"),
        (("acls", "add", "--topic", "orders"), "name a principal"),
        (("acls", "add", "--topic", "orders", "--allow-principal", "bob"), "is not a principal"),
        (("acls", "who"), "name one resource"),
        (("acls", "who", "--topic", "a", "--topic", "b"), "name one resource"),
        (("acls", "remove", "--yes"), "name a resource"),
    ):
        result = run_alone(*words)
        assert result.returncode == 2
        assert missing in result.stderr.decode()


def test_every_kind_of_resource_can_be_asked_about() -> None:
    assert {kind for kind, _ in EVERY} == {kind for kind in ResourceType if kind > ResourceType.ANY}
