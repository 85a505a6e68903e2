"""`kavka zookeeper` that cannot start says why and what to do; one that is stopped keeps its tree."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.kavka_process import HOST
from tests.kit.ports import free_port

COMMAND = [sys.executable, "-m", "kavka.cli.main", "zookeeper"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = ["--port", str(free_port()), "--data", str(tmp_path / "data"), "--json"]
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()


def refused(*arguments: str) -> str:
    result = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=200, check=False)
    assert result.returncode == 1
    assert result.stdout == ""
    return result.stderr


def ready(process: subprocess.Popen[str]) -> str:
    """The address it serves on."""
    assert process.stdout is not None
    return str(json.loads(process.stdout.readline())["address"])


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused("--port", str(port), "--data", str(tmp_path / "data"))
    assert f"cannot listen on {HOST}:{port}" in message
    assert "--port" in message


def test_a_directory_that_another_server_uses(running: subprocess.Popen[str], tmp_path: Path) -> None:
    ready(running)
    message = refused("--port", str(free_port()), "--data", str(tmp_path / "data"))
    assert "another server runs there" in message


def test_it_answers_srvr_and_ends_in_order(running: subprocess.Popen[str]) -> None:
    host, _, port = ready(running).partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"srvr")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert b"Mode: standalone\n" in answer
    running.terminate()
    assert running.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "add --insecure"),
        (("--host", "0.0.0.0", "--port", "2181", "--secure-port", "2182"), "add --insecure"),
        (("--host", "somewhere.example"), "add --insecure"),
        (("--secure-port", "2182"), "add --certificate and --authority"),
        (("--secure-port", "2182", "--certificate", "/nowhere"), "add --certificate and --authority"),
        (("--users", "/nowhere"), "write into it"),
        (("--certificate", "/nowhere", "--authority", "/nowhere"), "add --secure-port"),
        (("--secure-port", "0", "--certificate", "/nowhere", "--authority", "/nowhere"), "correct the files"),
    ],
)
def test_a_port_that_is_open_to_everybody_or_half_secured_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert said in refused("--data", str(tmp_path / "data"), *arguments)
