"""A host's parts without a broker: its metrics in one text, its pauses, and the socket by which it is asked."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kavka.config.host_layout import HostLayout, lay_out
from kavka.errors import ConfigError, ConnectionFailed
from kavka.logger import sink
from kavka.runtime.host import Host, HostPlan, pause_s
from kavka.runtime.host_control import ControlServer, HostRuns, ask, only_one_restart
from kavka.runtime.host_metrics import merged, own_metrics
from kavka.runtime.settings_file import write_settings

OF_ONE = '# TYPE a counter\na_total{topic="t"} 1\n# TYPE b summary\nb{quantile="0.5"} 2\nb_count 3\nb_sum 4\n'
OF_TWO = '# TYPE a counter\na_total{topic="u"} 5\n# TYPE c gauge\nc NaN\n'


def test_samples_of_one_metric_stand_together_each_with_its_broker() -> None:
    assert merged({1: OF_ONE, 2: OF_TWO}).splitlines() == [
        "# TYPE a counter",
        'a_total{on_broker="1",topic="t"} 1',
        'a_total{on_broker="2",topic="u"} 5',
        "# TYPE b summary",
        'b{on_broker="1",quantile="0.5"} 2',
        'b_count{on_broker="1"} 3',
        'b_sum{on_broker="1"} 4',
        "# TYPE c gauge",
        'c{on_broker="2"} NaN',
    ]
    assert merged({}) == ""


def test_the_hosts_own_metrics_say_who_serves_and_how_often_each_was_restarted() -> None:
    text = own_metrics(
        [{"broker": 1, "state": "serving", "restarts": 0}, {"broker": 2, "state": "waiting", "restarts": 3}]
    )
    assert 'kavka_host_broker_serving{on_broker="1"} 1\nkavka_host_broker_serving{on_broker="2"} 0\n' in text
    assert 'kavka_host_broker_restarts_total{on_broker="2"} 3\n' in text


def test_pauses_double_and_have_an_end() -> None:
    assert [pause_s(times) for times in (1, 2, 3, 7, 1_000)] == [1, 2, 4, 60, 60]


async def answer(asked: Mapping[str, object]) -> Mapping[str, object]:
    return {"heard": asked}


def deep(directory: Path) -> str:
    """A directory whose path is longer than a socket's may be."""
    return str(directory.joinpath(*["a-directory-with-a-long-name"] * 5))


def test_a_host_is_asked_over_a_socket_that_only_its_user_reaches_however_long_its_path(tmp_path: Path) -> None:
    place = deep(tmp_path)

    async def talk() -> object:
        server = ControlServer(place, answer)
        server.lock()
        await server.open()
        try:
            return await asyncio.to_thread(ask, place, {"do": "status"})
        finally:
            server.close()
            server.unlock()

    assert asyncio.run(talk()) == {"heard": {"do": "status"}}
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
    with pytest.raises(ConnectionFailed, match="no host answers"):
        ask(place, {"do": "status"})


def test_a_second_host_on_the_same_directories_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first, second = (
        ControlServer(str(tmp_path / "kavka-host"), answer),
        ControlServer(str(tmp_path / "kavka-host"), answer),
    )
    first.lock()
    with pytest.raises(HostRuns, match="another `kavka host` runs"):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_two_rolling_restarts_of_one_host_never_meet(tmp_path: Path) -> None:
    second = only_one_restart(str(tmp_path))
    with only_one_restart(str(tmp_path)), pytest.raises(HostRuns, match="another restart of its") as refused:
        second.__enter__()
    assert "both replicas" in refused.value.next_step
    with only_one_restart(str(tmp_path)):
        pass


def test_a_socket_that_a_killed_host_left_is_replaced(tmp_path: Path) -> None:
    place = str(tmp_path / "kavka-host")

    async def twice() -> object:
        left = ControlServer(place, answer)
        left.lock()
        await left.open()
        left.unlock()  # As the kernel does when the process is killed: its socket's name stays.
        server = ControlServer(place, answer)
        server.lock()
        await server.open()
        try:
            return await asyncio.to_thread(ask, place, {"do": "x"})
        finally:
            server.close()
            server.unlock()

    assert asyncio.run(twice()) == {"heard": {"do": "x"}}


def test_what_is_no_question_ends_the_connection_and_nothing_else(tmp_path: Path) -> None:
    place = str(tmp_path / "kavka-host")

    async def talk() -> tuple[bytes, object]:
        server = ControlServer(place, answer)
        server.lock()
        await server.open()
        try:
            reader, writer = await asyncio.open_unix_connection(f"{place}/control.sock")
            writer.write(b"no JSON\n")
            ended = await reader.read()
            writer.close()
            return ended, await asyncio.to_thread(ask, place, {"do": "y"})
        finally:
            server.close()
            server.unlock()

    assert asyncio.run(talk()) == (b"", {"heard": {"do": "y"}})


def test_a_host_that_stops_while_it_is_asked_is_no_unexpected_failure(tmp_path: Path) -> None:
    place = str(tmp_path / "kavka-host")
    failures: list[dict[str, Any]] = []

    async def stop() -> bytes:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
        asked = asyncio.Event()

        async def never(_question: Mapping[str, object]) -> Mapping[str, object]:
            asked.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        server = ControlServer(place, never)
        server.lock()
        await server.open()
        reader, writer = await asyncio.open_unix_connection(f"{place}/control.sock")
        writer.write(b"{}\n")
        await asked.wait()
        server.close()
        server.unlock()
        try:
            return await reader.read()
        finally:
            writer.close()

    assert asyncio.run(asyncio.wait_for(stop(), 60)) == b""
    assert not failures


STAND_IN = (sys.executable, "-c", 'import time; print("{\\"event\\": \\"ready\\"}", flush=True); time.sleep(60)')
"""Says that it serves, as a broker does."""


def layout(directory: Path) -> HostLayout:
    written = {"broker.id": "1", "zookeeper.connect": "localhost:1", "log.dirs": str(directory)}
    return lay_out(written, 1, host_name="here")


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_broker_that_cannot_be_started_on_a_full_disk_is_started_when_there_is_room(
    is_asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full: list[str] = []

    def write(path: str, *words: Any, **more: Any) -> None:
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        write_settings(path, *words, **more)

    monkeypatch.setattr("kavka.runtime.host.write_settings", write)
    monkeypatch.setattr("kavka.runtime.host.FIRST_PAUSE_S", 0.05)
    planned = layout(tmp_path)

    async def live() -> None:
        host = Host(HostPlan(planned, STAND_IN, lambda: planned))
        pid = (await host.start()).pids[1]
        full.extend(("once", "and again"))
        try:
            if is_asked:
                with pytest.raises(ConfigError, match="No space left on device"):
                    await host.restart(1)
            else:
                os.kill(pid, signal.SIGKILL)
                await host._kept[1].changed.wait()
            while host.status()[0]["state"] != "serving":
                await host._kept[1].changed.wait()
            assert not full
            assert "No space left on device" in str(host.status()[0]["last_end"])
        finally:
            await host.stop()

    asyncio.run(asyncio.wait_for(live(), 60))


def test_a_broker_that_ends_at_the_hosts_own_start_is_not_said_to_be_started_again(tmp_path: Path) -> None:
    planned, said = layout(tmp_path), []
    token = sink.set(lambda _level, event, keys: said.append((event, keys["next_step"])))
    try:
        with pytest.raises(ConfigError, match="before it was ready"):
            asyncio.run(Host(HostPlan(planned, (sys.executable, "-c", ""), lambda: planned)).start())
    finally:
        sink.reset(token)
    assert said == [("process ended", "see its log lines above; the host ends")]


HANGS_LATER = """
import os, sys, time
if not os.path.exists(sys.argv[1] + "-once"):
    open(sys.argv[1] + "-once", "w").close()
    print('{"event": "ready"}', flush=True)
time.sleep(60)
"""


def test_a_restart_of_a_broker_that_hangs_while_it_starts_comes_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = layout(tmp_path)

    async def live() -> None:
        host = Host(HostPlan(planned, (sys.executable, "-c", HANGS_LATER), lambda: planned))
        await host.start()
        monkeypatch.setattr("kavka.runtime.host.START_PATIENCE_S", 0.2)
        try:
            with pytest.raises(ConfigError, match=r"broker 1 \(process \d+\) does not serve .* it goes on starting"):
                await host.restart(1)
            assert host.status()[0]["state"] == "starting"
            with pytest.raises(ConfigError, match="does not serve"):
                await host.restart(1)  # It may be asked for again.
            assert host.status()[0]["restarts"] == 2
        finally:
            await host.stop()

    asyncio.run(asyncio.wait_for(live(), 60))
