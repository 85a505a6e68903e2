"""SparkCluster: Spark's own cluster manager, a master and workers as processes, and a kavka to be shipped to it.

It decides how they are started and ended. Its Python has what kavka depends on, but no kavka: a job's files bring that
along, as a user's do.

I1  Processes are ended by pids that were started here, or that descend from them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import TracebackType

import pyspark

from tests.kit.kavka_process import HOST, ProcessFailed
from tests.kit.ports import free_port
from tests.kit.spark_job import PATIENCE_S, SMALL, Found, descendants, kill_process

SOURCES = Path(__file__).resolve().parents[2] / "src"
SHIPPED = ("kavka", "kavka_spark", *sorted(path.name for path in SOURCES.glob("pyspark_kavka*.py")))
"""What a wheel of kavka holds."""
SPARK_HOME = Path(pyspark.__file__).parent
CORES, EXECUTOR_MEMORY = 1, "512m"


def kavka_zip(path: Path) -> Path:
    """kavka as one file for --py-files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in SHIPPED:
            top = SOURCES / name
            for file in [top] if top.is_file() else sorted(top.rglob("*.py")):
                archive.write(file, file.relative_to(SOURCES))
    return path


class SparkCluster:
    """A master and two workers at first; workers come and go."""

    def __init__(self, directory: Path, *, workers: int = 2) -> None:
        self._directory = directory
        self._directory.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        self._count = workers
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = count()
        self.zip = kavka_zip(directory / "kavka.zip")

    def __enter__(self) -> SparkCluster:
        try:
            self._start("master", ["--host", HOST, "--port", str(self._port), "--webui-port", str(free_port())])
            self._wait("master", "I have been elected leader")
            for name in [self._start_worker() for _ in range(self._count)]:
                self._wait(name, "Successfully registered with master")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in list(self._processes):
            self.lose(name)

    @property
    def workers(self) -> list[str]:
        """The names of those that run, the oldest first."""
        return [name for name, process in self._processes.items() if name != "master" and process.poll() is None]

    def add_worker(self) -> str:
        """One more, with a core for every job that waits for one. Returns when the master knows it; its name."""
        name = self._start_worker()
        self._wait(name, "Successfully registered with master")
        return name

    def stop_worker(self, name: str, *, timeout_s: float = 60.0) -> None:
        """In order: it ends its executors, and then itself."""
        process = self._processes[name]
        process.terminate()
        try:
            process.wait(timeout_s)
        finally:
            self.lose(name)

    def lose(self, name: str) -> None:
        """kill -9 to a process and all that descends from it at once, as a machine is lost."""
        process = self._processes.pop(name)
        for found in descendants(process.pid):
            kill_process(found)
        process.wait(10)

    def _start_worker(self) -> str:
        name = f"worker-{next(self._numbers)}"
        arguments = ["--host", HOST, "--webui-port", str(free_port()), "--cores", str(CORES), "--memory", "1g"]
        self._start(name, [*arguments, "--work-dir", str(self._directory / f"work-of-{name}"), self.master])
        return name

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self._port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """In which everything of the cluster runs: with the dependencies, without kavka."""
        base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        return {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL["spark.driver.extraJavaOptions"],
            "PYSPARK_PYTHON": str(base),
            "PYSPARK_DRIVER_PYTHON": str(base),
            # A directory that is named here is not looked through for .pth files, which is how kavka is installed.
            "PYTHONPATH": sysconfig.get_path("purelib"),
        }

    @property
    def drivers_environment(self) -> Mapping[str, str]:
        """The driver's own processes get no --py-files, so kavka is on their path."""
        return {**self.environment, "PYTHONPATH": f"{self.environment['PYTHONPATH']}:{self.zip}"}

    def submit(self) -> list[str]:
        """The command that hands a script in."""
        settings = {
            **SMALL,
            "spark.driver.host": HOST,
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.cores": str(CORES),
            "spark.executor.extraJavaOptions": SMALL["spark.driver.extraJavaOptions"],
            "spark.pyspark.python": self.environment["PYSPARK_PYTHON"],
            "spark.executorEnv.PYTHONPATH": self.environment["PYTHONPATH"],
        }
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, "--py-files", str(self.zip)]
        return command + [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]

    def processes(self) -> list[Found]:
        """All of it, as it is now."""
        return [found for process in list(self._processes.values()) for found in descendants(process.pid)]

    def executors(self) -> list[Found]:
        """The JVMs that run tasks, on all workers."""
        return [found for found in self.processes() if found.is_executor]

    def _start(self, name: str, arguments: list[str]) -> None:
        kind = name.partition("-")[0]
        main = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        with (self._directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), main, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment, "SPARK_NO_DAEMONIZE": "1"},
            )

    def _wait(self, name: str, said: str) -> None:
        log = self._directory / f"{name}.log"
        deadline = time.monotonic() + PATIENCE_S
        while said not in log.read_text(errors="replace"):
            if time.monotonic() > deadline or self._processes[name].poll() is not None:
                raise ProcessFailed(f"{name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
