"""The short way into `kavka up` and `kavka server`: it takes what typer takes, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from kavka.cli import app as application
from kavka.cli.run import up
from kavka.cli.run.start import OPTIONS_OF_BOTH, OPTIONS_OF_UP, Start, WrongUsage, next_step, quick_start, settings_of
from kavka.errors import (
    ConfigError,
    DamagedFile,
    DamagedMetadata,
    InconsistentMetadata,
    LinkLeadsNowhere,
    LogsContradict,
    StorageError,
)


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        (["up"], Start()),
        (["up", "--port", "0", "-d", "x", "--json"], Start(port=0, data="x", as_json=True)),
        (["up", "--port=19092", "-s", "a=b=c", "--set", "d=e"], Start(port=19092, settings=("a=b=c", "d=e"))),
        (["up", "--host", "0.0.0.0", "--advertise=h:1"], Start(host="0.0.0.0", advertise="h:1")),
        (["up", "--brokers", "3"], Start(brokers=3)),
        (["up", "-n", "5", "--processes", "--zookeeper-port=0"], Start(brokers=5, processes=True, zookeeper_port=0)),
        (["up", "--metrics-port", "9100", "--console-port=0"], Start(metrics_port=9100, console_port=0)),
        (["up", "--no-console"], Start(no_console=True)),
        (["up", "--secure", "--mtls"], Start(secure=True, mtls=True)),
        (["up", "--insecure"], Start(insecure=True)),
        (["up", "--stop-with-stdin"], Start(stop_with_stdin=True)),
        (["server", "f", "--log-level", "debug"], Start(file="f", log_level="debug")),
        (["server", "--set", "a=b", "f"], Start(file="f", settings=("a=b",))),
    ],
)
def test_plain_command_lines_take_the_short_way(words: list[str], plan: Start) -> None:
    assert quick_start(words) == plan


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["topics", "list"],
        ["up", "--help"],
        ["up", "-h"],
        ["up", "--prot", "1"],
        ["up", "--port"],
        ["up", "--port", "x"],
        ["up", "--port", "-1"],
        ["up", "--port", "65536"],
        ["up", "--log-level", "loud"],
        ["up", "--json=yes"],
        ["up", "--brokers", "many"],
        ["up", "--brokers", "-1"],
        ["up", "--brokers", "0"],
        ["up", "--brokers", "101"],
        ["up", "--processes=yes"],
        ["up", "--zookeeper-port", "65536"],
        ["up", "--metrics-port", "0"],
        ["up", "--no-console=yes"],
        ["server", "f", "--no-console"],
        ["server", "f", "--brokers", "3"],
        ["up", "file"],
        ["server"],
        ["server", "f", "g"],
        ["server", "f", "--port", "1"],
    ],
)
def test_help_and_mistakes_are_for_typer(words: list[str]) -> None:
    assert quick_start(words) is None


def test_the_short_way_knows_every_option_that_typer_knows() -> None:
    group = typer.main.get_command(application.app)
    commands = group.commands  # type: ignore[attr-defined]  # it is a group
    for name, known in (("up", {**OPTIONS_OF_BOTH, **OPTIONS_OF_UP}), ("server", OPTIONS_OF_BOTH)):
        declared = {
            option for parameter in commands[name].params for option in parameter.opts if option.startswith("-")
        }
        assert declared - {"--help", "-h"} == set(known)


def test_typer_makes_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["up", "-p", "7", "--host", "::1", "-d", "x", "-s", "a=b", "--log-level", "error", "--json"]
    words += ["--brokers", "3", "--processes", "--zookeeper-port", "2181"]
    plans: list[Start] = []
    monkeypatch.setattr(up, "start", lambda plan: plans.append(plan) or 3)
    assert application.run(words) == 3
    assert plans == [quick_start(words)]


def test_the_short_way_imports_neither_typer_nor_rich() -> None:
    program = (
        "import sys; from kavka.cli.run.start import quick_start, settings_of; settings_of(quick_start(['up']));"
        "print([name for name in ('typer', 'rich', 'kavka.cli.app') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_up_has_what_a_single_broker_needs() -> None:
    config = settings_of(Start(port=19092, data="/d"))
    assert str(config.listener_endpoints[0]) == "PLAINTEXT://127.0.0.1:19092"
    assert config.log_directories == ("/d/logs",)
    assert config.offsets_topic_replication_factor == 1
    assert config.group_initial_rebalance_delay_ms == 0


def test_what_is_set_wins_over_the_defaults_of_up() -> None:
    config = settings_of(Start(settings=("broker.id=7", "log.dirs=/e")))
    assert (config.broker_id, config.log_directories) == (7, ("/e",))


@pytest.mark.parametrize(
    ("plan", "advertised"),
    [
        (Start(host="::1"), "PLAINTEXT://[::1]:9092"),
        (Start(host="0.0.0.0", advertise="kafka.example.com"), "PLAINTEXT://kafka.example.com:9092"),
        (Start(host="0.0.0.0", advertise="kafka.example.com:1"), "PLAINTEXT://kafka.example.com:1"),
        (Start(advertise="[::1]"), "PLAINTEXT://[::1]:9092"),
    ],
)
def test_what_clients_are_told(plan: Start, advertised: str) -> None:
    assert str(settings_of(plan).advertised_endpoints[0]) == advertised


def test_listening_everywhere_needs_a_name_to_tell() -> None:
    with pytest.raises(WrongUsage, match="--advertise"):
        settings_of(Start(host="0.0.0.0"))


def test_a_file_with_settings_over_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\nlog.dirs=/x\n")
    config = settings_of(Start(file=str(file), settings=("log.dirs=/y",)))
    assert (config.broker_id, config.log_directories) == (3, ("/y",))


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not a text"):
        settings_of(Start(file=str(file)))


def test_a_setting_without_a_sign_is_wrong_usage() -> None:
    with pytest.raises(WrongUsage, match="is not name=value"):
        settings_of(Start(settings=("broker.id",)))


def recorded(home: Path, text: str) -> str:
    home.mkdir(parents=True)
    (home / "meta.properties").write_text(text)
    return str(home)


def test_an_id_that_was_generated_is_kept_though_none_may_ask_for_it(tmp_path: Path) -> None:
    home = recorded(tmp_path / "logs", "version=0\nbroker.id=1001\n")
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={home}\n")
    config = settings_of(Start(file=str(file)))
    assert (config.broker_id, config.node_id) == (1001, 1001)
    with pytest.raises(ConfigError, match=r"reserved\.broker\.max\.id"):
        settings_of(Start(file=str(file), settings=("broker.id=1001",)))


def test_without_a_broker_id_it_is_the_one_of_the_log_directory(tmp_path: Path) -> None:
    recorded(tmp_path / "logs", "version=0\nbroker.id=5\n")
    assert settings_of(Start(data=str(tmp_path))).broker_id == 5
    kraft = recorded(tmp_path / "kraft", "version=1\nnode.id=6\n")
    assert settings_of(Start(data="x", settings=(f"log.dirs={kraft}",))).broker_id == 6
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={kraft}\n")
    assert settings_of(Start(file=str(file))).broker_id == 6


def test_a_broker_id_that_is_named_stands(tmp_path: Path) -> None:
    recorded(tmp_path / "logs", "version=0\nbroker.id=5\n")
    assert settings_of(Start(data=str(tmp_path), settings=("broker.id=1",))).broker_id == 1
    assert settings_of(Start(data=str(tmp_path), settings=("node.id=2",))).broker_id == 2


def test_a_file_without_any_setting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear reader,\nthis is no file of settings.\n")
    with pytest.raises(ConfigError, match="not a file of broker settings; its first line sets 'Dear'"):
        settings_of(Start(file=str(path), settings=("broker.id=1",)))
    path.write_text("Dear reader,\nbroker.id=7\n")
    assert settings_of(Start(file=str(path))).broker_id == 7
    path.write_text("# nothing but a remark: Kafka's defaults\n")
    settings_of(Start(file=str(path), settings=("broker.id=1",)))


@pytest.mark.parametrize(
    ("problem", "step"),
    [
        (DamagedMetadata("/d/meta.properties", "x"), "restore the file, or take it away"),
        (InconsistentMetadata("/d/meta.properties", "x"), "belongs to another broker or cluster"),
        (LogsContradict("/d/orders-0", "x"), "move the one that nobody misses out of its log directory"),
        (DamagedFile("/d/kavka-zookeeper/log", "x"), "restore the file; or move its directory away"),
        (LinkLeadsNowhere("/d", "x"), "mount the disk"),
        (StorageError("/d", "no space left; nothing was damaged"), "make room on its disk"),
    ],
)
def test_what_to_do_about_a_disk_follows_from_the_kind_of_error(problem: StorageError, step: str) -> None:
    assert step in next_step(problem, Start())


def test_python_runs_the_program_as_a_module() -> None:
    words = [sys.executable, "-m", "kavka", "nosuch"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "No such command 'nosuch'" in ended.stderr
