"""What is said while a start waits for ZooKeeper."""

from __future__ import annotations

import socket
import time

import pytest

from kavka.cli.run import zookeeper_wait
from kavka.cli.run.zookeeper_wait import said_while_waiting
from tests.kit.ports import free_port


def said(connect: str, capsys: pytest.CaptureFixture[str], seconds: float) -> str:
    with said_while_waiting(connect):
        time.sleep(seconds)
    return capsys.readouterr().err


def test_a_place_where_nothing_listens_is_named_within_moments(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_wait, "FIRST_LOOK_S", 0.05)
    nobody = f"127.0.0.1:{free_port()}"
    assert f"Waiting for ZooKeeper at {nobody} (zookeeper.connect)" in said(f"{nobody}/kafka", capsys, 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        assert said(f"{nobody},{there}", capsys, 0.5) == "", "one member of an ensemble is enough"
    assert "Waiting" in said("127.0.0.1:no-port", capsys, 0.5)


def test_a_broker_whose_zookeeper_is_started_beside_it_says_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_wait, "FIRST_LOOK_S", 0.05)
    monkeypatch.setenv(zookeeper_wait.STARTED_BESIDE, "1")
    assert said(f"127.0.0.1:{free_port()}", capsys, 0.5) == ""


def test_a_quick_start_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(f"127.0.0.1:{free_port()}", capsys, 0) == ""
    assert zookeeper_wait.FIRST_LOOK_S <= 2
