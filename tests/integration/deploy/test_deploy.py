"""The files of deploy/ are what systemd, Kubernetes and GitHub take, and their commands start brokers that serve."""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kavka.cli.run.start import quick_start
from tests.integration.cli.test_container import write_and_read
from tests.kit.command_line import PROGRAM, run_alone
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually

DEPLOY = Path(__file__).parents[3] / "deploy"
MANIFEST = DEPLOY / "kubernetes" / "kavka.yaml"
UNIT, HOST_UNIT = DEPLOY / "systemd" / "kavka@.service", DEPLOY / "systemd" / "kavka-host.service"
ACTION = DEPLOY / "github-action"


# -- Kubernetes


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def brokers() -> dict[str, Any]:
    (found,) = [
        each["spec"]["template"]["spec"]["containers"][0]
        for each in objects()
        if (each["kind"], each["metadata"]["name"]) == ("StatefulSet", "kavka")
    ]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("number", range(5))
def test_kubernetes_knows_every_field(number: int) -> None:
    assert len(objects()) == 5
    kubernetes_validate.validate(objects()[number], kubernetes_validate.latest_version(), strict=True)


def test_a_pods_command_starts_its_broker_and_its_end_waits_until_that_costs_nothing(tmp_path: Path) -> None:
    """With the pod's shell, name and variables; ports, addresses and directories are this machine's."""
    pod, port, zookeeper = brokers(), free_port(), free_port()
    variables = {each["name"]: each["value"] for each in pod["env"]}
    (shell, option), (script,) = pod["command"], pod["args"]
    script = script.replace("$HOSTNAME.kavka:9092", f"localhost:{port}")
    variables |= {
        "HOSTNAME": "kavka-2",
        "KAFKA_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "KAFKA_ZOOKEEPER_CONNECT": f"localhost:{zookeeper}",
        "KAFKA_LOG_DIRS": str(tmp_path / "logs"),
        "KAFKA_DEFAULT_REPLICATION_FACTOR": "1",
        "KAFKA_MIN_INSYNC_REPLICAS": "1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
    }
    words = ["zookeeper", "--insecure", "--port", str(zookeeper), "--data", str(tmp_path / "zookeeper")]
    with (
        serving([PROGRAM, *words], {}, tmp_path / "zookeeper.log"),
        serving(
            [shell, option, script.replace("kavka container", f"kavka container --mounted {tmp_path}")],
            variables,
            tmp_path / "broker.log",
        ),
    ):
        address = f"localhost:{port}"
        eventually("the broker serves", lambda: run_alone("brokers", "-b", address).returncode == 0, timeout_s=60)
        assert write_and_read(address, "orders") == [b"one"]
        assert "\n3 " in run_alone("brokers", "-b", address).stdout.decode().replace("\t", " ")

        # Its only replica is here: the pod is not to end now.
        before_the_end = pod["lifecycle"]["preStop"]["exec"]["command"]
        waits = [each.replace("localhost:9092", address) for each in before_the_end]
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(waits, env={**os.environ, **variables}, capture_output=True, timeout=4, check=False)


@contextmanager
def serving(command: list[Any], variables: dict[str, str], log: Path) -> Iterator[None]:
    own = {name: text for name, text in os.environ.items() if not name.startswith("KAFKA_")}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env={**own, **variables}, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# -- systemd


@pytest.mark.parametrize("file", [UNIT, HOST_UNIT], ids=["broker", "host"])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, file: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    unit = tmp_path / file.name
    unit.write_text(file.read_text().replace("/opt/kavka/bin/kavka", str(PROGRAM)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if file.name in line] == []


def test_the_hosts_unit_names_its_command_and_signals_it_alone() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names are told apart by their case
    unit.read(HOST_UNIT)
    program, *words = unit["Service"]["ExecStart"].split()
    assert program.endswith("/bin/kavka")
    assert run_alone(*words[:1], "--help").returncode == 0
    assert words == ["host", "/etc/kavka/server.properties"]
    assert unit["Service"]["KillMode"] == "mixed"


def test_the_units_command_is_one_that_starts_a_broker() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names are told apart by their case
    unit.read(UNIT)
    program, *words = unit["Service"]["ExecStart"].split()
    plan = quick_start(words)
    assert program.endswith("/bin/kavka")
    assert plan is not None
    assert plan.file == "/etc/kavka/%i.properties"


# -- GitHub


def start(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(directory),
        "GITHUB_OUTPUT": str(directory / "output"),
        "KAVKA_PROGRAM": str(PROGRAM),
    }
    return subprocess.run(
        [ACTION / "start.sh"], env={**environment, **variables}, capture_output=True, text=True, timeout=90, check=False
    )


def test_the_actions_steps_give_the_script_what_it_reads() -> None:
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    script = (ACTION / "start.sh").read_text()
    assert step["run"] == "$GITHUB_ACTION_PATH/start.sh"
    assert all(f"${{{name}:-" in script or f"${{{name}:+" in script for name in step["env"])
    assert {text.split(".")[1].split(" ")[0] for text in step["env"].values()} == set(action["inputs"])
    assert os.access(ACTION / "start.sh", os.X_OK)


def test_the_actions_cluster_serves_where_it_says(tmp_path: Path) -> None:
    port = free_port()
    done = start(tmp_path, KAVKA_PORT=str(port), KAVKA_SETTINGS="num.partitions=4\n\nauto.create.topics.enable=true\n")
    try:
        assert done.returncode == 0, done.stdout
        assert (tmp_path / "output").read_text() == f"bootstrap=localhost:{port}\n"
        assert write_and_read(f"localhost:{port}", "orders") == [b"one"]
        assert run_alone("topics", "describe", "orders", "-b", f"localhost:{port}").stdout.startswith(
            b"# orders: 4 partitions"
        )
    finally:
        end_by_port(port)


def test_an_action_that_cannot_start_says_why(tmp_path: Path) -> None:
    done = start(tmp_path, KAVKA_PORT=str(free_port()), KAVKA_SETTINGS="num.partitions=many")
    assert done.returncode == 1
    assert "::error::kavka did not start" in done.stdout
    assert "num.partitions" in done.stdout


def end_by_port(port: int) -> None:
    """The action's cluster lives until its job ends, as whose child it was started."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(port).encode() in words and b"up" in words:
            os.kill(int(path.parent.name), signal.SIGKILL)
