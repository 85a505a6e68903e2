"""The recipes that run pipelines: systemd, Airflow, Prometheus and Kubernetes take them; their commands are kavka's."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kavka_spark.pipelines.monitor import Limits, Monitor
from kavka_spark.pipelines.spec import parse_spec

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
UNIT = DEPLOY / "systemd" / "kavka-pipeline@.service"
PROGRAM = Path(sys.executable).with_name("kavka")


def _refusal(words: list[str]) -> str:
    """What kavka says to a command about a pipeline that is not there: options that it does not know come first."""
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_systemd_finds_nothing_wrong_with_the_unit_of_a_pipeline(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/kavka/bin/kavka", str(PROGRAM)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []


def test_the_units_command_watches_the_pipeline_of_its_name() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names are told apart by their case
    unit.read(UNIT)
    service = unit["Service"]
    program, *words = service["ExecStart"].replace("%i", "no-such-pipeline").split()
    assert program == "/opt/kavka/bin/kavka"
    assert "/srv/pipelines/no-such-pipeline does not exist" in _refusal(words)
    assert service["ReadWritePaths"] == service["WorkingDirectory"]


class _Airflow:
    """What the DAGs take of Airflow: enough to see the tasks, their order and their commands."""

    def __init__(self) -> None:
        self.dags: list[dict[str, Any]] = []
        self.commands: dict[str, str] = {}
        self.order: list[tuple[str, str]] = []

    def modules(self) -> dict[str, ModuleType]:
        airflow = self

        class Dag:
            def __init__(self, **settings: Any) -> None:
                airflow.dags.append(settings)

            def __enter__(self) -> None:
                return None

            def __exit__(self, *_: object) -> None:
                return None

        class Operator:
            def __init__(self, *, task_id: str, bash_command: str) -> None:
                self.task_id = task_id
                airflow.commands[task_id] = bash_command

            def __rshift__(self, other: Operator) -> None:
                airflow.order.append((self.task_id, other.task_id))

        names = ("airflow", "airflow.sdk", "airflow.providers", "airflow.providers.standard")
        operators = "airflow.providers.standard.operators"
        found = {name: ModuleType(name) for name in (*names, operators, f"{operators}.bash")}
        found["airflow.sdk"].__dict__.update(DAG=Dag, Param=lambda value, **rules: (value, rules))
        found[f"{operators}.bash"].__dict__["BashOperator"] = Operator
        return found


def test_the_dag_checks_then_runs_and_its_commands_are_kavkas(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = _Airflow()
    for name, module in airflow.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    text = (DEPLOY / "airflow" / "kavka_pipeline.py").read_text(encoding="utf-8")
    exec(compile(text, "kavka_pipeline.py", "exec"), {"__name__": "kavka_pipeline"})
    assert [dag["max_active_runs"] for dag in airflow.dags] == [1, 1]
    assert airflow.order == [("check", "run")]
    [params] = [dag["params"] for dag in airflow.dags if "params" in dag]
    for name, (value, rules) in params.items():
        assert re.search(rules["pattern"], value), name
        assert not re.search(rules["pattern"], 'x"; rm -rf /; "'), "what a user triggers with is quoted in a shell"
    assert sorted(airflow.commands) == ["backfill", "check", "run"]
    values = {"params.flow": "orders", 'params["from"]': params["from"][0], "params.to": params["to"][0]}
    for command in airflow.commands.values():
        shown = re.sub(r"\{\{ (.*?) \}\}", lambda found: values[found[1]], command)
        program, *words = shlex.split(shown)
        assert program == "/opt/kavka/bin/kavka"
        assert "/srv/pipelines/orders does not exist" in _refusal(words)


def test_prometheus_rules_ask_for_metrics_that_there_are() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "pipelines.yml").read_text(encoding="utf-8"))
    monitor = Monitor("p", Limits())
    expectations = [{"expectation": "e", "otherwise": "drop", "broken": 1}]
    figures = {"rows_in": 1, "rows_out": 1, "lag": 1, "batches": 1, "seconds": 1.0, "checked": 1}
    for event, more in (
        ("run began", {"run": 1}),
        ("progress", {"flow": "f", "expectations": expectations, **figures}),
        ("run ended", {"outcome": "completed"}),
    ):
        monitor.take({"at": 1.0, "event": event, **more})
    known = set(re.findall(r"^# TYPE (\S+)", monitor.metrics(), re.M))
    asked = set(re.findall(r"kavka_pipeline_\w+", "".join(each["expr"] for each in rules["groups"][0]["rules"])))
    assert len(asked) == 5
    assert asked <= known


# -- clusters of Spark

OBJECTS = list(yaml.safe_load_all((DEPLOY / "spark" / "kubernetes.yaml").read_text(encoding="utf-8")))
[SETTINGS] = [each["data"]["pipeline.yml"] for each in OBJECTS if each["kind"] == "ConfigMap"]


@pytest.mark.parametrize("number", range(7))
def test_kubernetes_knows_every_field_of_a_pipelines_driver(number: int) -> None:
    assert len(OBJECTS) == 7
    kubernetes_validate.validate(OBJECTS[number], kubernetes_validate.latest_version(), strict=True)


def test_the_pipelines_of_the_recipes_are_ones_that_kavka_reads() -> None:
    on_kubernetes = parse_spec(Path("/pipeline/pipeline.yml"), yaml.safe_load(SETTINGS))
    assert on_kubernetes.own.master == "k8s://https://kubernetes.default.svc"
    on_yarn = parse_spec(Path("/p/pipeline.yml"), yaml.safe_load((DEPLOY / "spark" / "yarn.yml").read_text()))
    assert on_yarn.own.master == "yarn"


def test_the_drivers_pod_has_the_ports_folders_and_rights_that_its_settings_name() -> None:
    by_kind = {each["kind"]: each for each in OBJECTS}
    spec = parse_spec(Path("/pipeline/pipeline.yml"), yaml.safe_load(SETTINGS))
    service, pod = by_kind["Service"], by_kind["Deployment"]["spec"]["template"]
    settings = spec.configuration
    ports = [str(port["port"]) for port in service["spec"]["ports"]]
    assert ports == [settings["spark.driver.port"], settings["spark.blockManager.port"]]
    assert service["metadata"]["name"] == settings["spark.driver.host"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    [driver] = pod["spec"]["containers"]
    assert driver["image"] == settings["spark.kubernetes.container.image"]
    [state] = [mount["name"] for mount in driver["volumeMounts"] if mount["mountPath"] == str(spec.state)]
    [claim] = [volume["persistentVolumeClaim"] for volume in pod["spec"]["volumes"] if volume["name"] == state]
    assert claim["claimName"] == by_kind["PersistentVolumeClaim"]["metadata"]["name"], (
        "tables are known from run to run"
    )
    assert pod["spec"]["serviceAccountName"] == by_kind["RoleBinding"]["subjects"][0]["name"]
    assert driver["args"][0] == "kavka"
    assert "/pipeline does not exist" in _refusal(driver["args"][1:])
    assert by_kind["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}, "two drivers never work on one storage"


def test_an_executors_pod_starts_sparks_backend_with_the_variables_that_spark_sets(tmp_path: Path) -> None:
    """The entry point, with stand-ins that print their words: the order of Spark's options is that of their numbers."""
    for name, text in (("java", '#!/bin/sh\nprintf "%s\\n" "$@"\n'), ("tini", '#!/bin/sh\nshift 2\nexec "$@"\n')):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    given = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "JAVA_HOME": str(tmp_path),
        "SPARK_HOME": "/opt/spark",
        **{f"SPARK_JAVA_OPT_{number}": f"-Dn={number} $HOME" for number in (0, 1, 2, 10)},
        **dict.fromkeys(("SPARK_EXECUTOR_ID", "SPARK_EXECUTOR_CORES"), "2"),
        **{f"SPARK_{name}": name.lower() for name in ("DRIVER_URL", "APPLICATION_ID", "RESOURCE_PROFILE_ID")},
        **{f"SPARK_EXECUTOR_{name}": name.lower() for name in ("MEMORY", "POD_IP", "POD_NAME")},
    }
    words = [DEPLOY / "spark" / "entrypoint.sh", "executor"]
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=True, timeout=200)
    said = done.stdout.splitlines()
    assert said[:4] == [f"-Dn={number} $HOME" for number in (0, 1, 2, 10)]
    assert "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in said
    assert said[-2:] == ["--podName", "pod_name"]
