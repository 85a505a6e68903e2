"""The doctor: what Spark would run with on this machine, what does not fit, and how to fix it.

Decides from versions and paths that `examine` collects; starts no Spark. It must work where nothing works: each part is
examined by itself, and what cannot be examined becomes a finding, not an exception.

    I1  a finding that is wrong says what to do
    I2  the Python of the workers is started and asked: it may be another one, with other packages

Source: Spark 4's requirements (Java 17 or 21, Python 3.10 on, pandas 2.2 on, pyarrow 15 on); kavka's own are those of
the extra `spark` in pyproject.toml.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from importlib import metadata, util
from pathlib import Path

from kavka.installation import install_command

FORMATS = {
    "kavka": "pyspark_kavka",
    "kavka-log": "pyspark_kavka_log",
    "kavka-delta": "pyspark_kavka_delta",
    "kavka-iceberg": "pyspark_kavka_iceberg",
}
JAVA_OLDEST = 17
JAVA_TRIED = (17, 21)
PACKAGES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "pyspark": ((4, 2), (4, 4)),
    "pyarrow": ((17,), None),
    "pandas": ((2, 2), (3,)),
    "numpy": ((1, 26), None),
    "grpcio": ((1, 67), None),
    "zstandard": ((0, 23), None),
}
"""From this version on, and before that one. grpcio comes with pyspark[pipelines], which `kavka pipeline` needs."""
ANSWER_S = 20.0
"""How long a Java or a Python may take to print its version."""
LEAST_FREE_BYTES = 1 << 30
"""For shuffles and state, in Spark's local directory."""

_ASK_PYTHON = """
import importlib.metadata as m, json, sys
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return None
def found(name):
    from importlib.util import find_spec
    return find_spec(name) is not None
print(json.dumps({"version": sys.version.split()[0], "executable": sys.executable,
                  "packages": {name: version(name) for name in %s}, "kavka": found("kavka_spark")}))
"""


class Verdict(Enum):
    """How a part is."""

    WELL = "ok"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One part: what was found, and what to do if it does not fit."""

    part: str
    verdict: Verdict
    found: str
    mend: str = ""

    def as_json(self) -> dict[str, str]:
        return {**asdict(self), "verdict": self.verdict.value}


def examine(environment: Mapping[str, str] | None = None) -> list[Finding]:
    """Examines everything that Spark needs on this machine, in the order in which it is needed."""
    surroundings = os.environ if environment is None else environment
    driver = ask_python(sys.executable)
    return [
        _spark(driver),
        *_spark_home(surroundings),
        _java(surroundings),
        *_connector(),
        *_packages("driver", driver),
        *_worker(surroundings, driver),
        _address(surroundings),
        _room(surroundings),
    ]


def is_well(findings: list[Finding]) -> bool:
    return all(finding.verdict is not Verdict.WRONG for finding in findings)


# -- Spark and Java


def _spark(driver: PythonAnswer) -> Finding:
    return package_finding("spark", "pyspark", driver.packages.get("pyspark"))


def _spark_home(environment: Mapping[str, str]) -> list[Finding]:
    home = environment.get("SPARK_HOME")
    if not home:
        return []
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    if not jars:
        advice = "unset SPARK_HOME: pyspark brings its own Spark"
        return [Finding("SPARK_HOME", Verdict.WRONG, f"{home} has no Spark in it", advice)]
    there, ours = jars[0].stem.rpartition("-")[2], _installed("pyspark")
    if ours is not None and there != ours:
        found = f"{home} is Spark {there}, pyspark is {ours}"
        return [Finding("SPARK_HOME", Verdict.WRONG, found, f'unset it, or pip install "pyspark[pipelines]=={there}"')]
    return [Finding("SPARK_HOME", Verdict.WELL, f"{home}, Spark {there}")]


def _java(environment: Mapping[str, str]) -> Finding:
    home = environment.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    install = "install Java 17 (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one"
    if program is None:
        return Finding("java", Verdict.WRONG, "no java in PATH, and JAVA_HOME is not set", install)
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return Finding("java", Verdict.WRONG, f"{program} does not run: {problem}", install)
    return java_finding(program, said.stderr or said.stdout)


def java_finding(program: str, said: str) -> Finding:
    """What the output of `java -version` means for Spark."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', said)
    if match is None:
        first = said.strip().splitlines()[0] if said.strip() else "nothing"
        return Finding("java", Verdict.WRONG, f"{program} says: {first}", "set JAVA_HOME to a Java 17 or 21")
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])
    found = f"{match[0].removeprefix('version ')} at {program}".replace('"', "")
    if major < JAVA_OLDEST:
        return Finding(
            "java", Verdict.WRONG, f"{found}: Spark 4 needs {JAVA_OLDEST}", "set JAVA_HOME to a Java 17 or 21"
        )
    if major not in JAVA_TRIED:
        tried = " and ".join(map(str, JAVA_TRIED))
        return Finding("java", Verdict.DOUBTFUL, found, f"Spark 4 supports Java {tried}; set JAVA_HOME to one")
    return Finding("java", Verdict.WELL, found)


# -- kavka's formats


def _connector() -> list[Finding]:
    findings = []
    for name, module in FORMATS.items():
        spec = util.find_spec(module)
        part = f'format("{name}")'
        if spec is None:
            findings.append(
                Finding(
                    part,
                    Verdict.WRONG,
                    f"no module {module} at the top level",
                    f"{install_command('spark')} into this Python",
                )
            )
        else:
            version = _installed("kavka") or "from its sources"
            findings.append(Finding(part, Verdict.WELL, f"kavka {version}, {module}"))
    return findings


# -- Python, of the driver and of the workers


@dataclass(frozen=True, slots=True)
class PythonAnswer:
    """What a Python reports about itself; `problem` if it did not answer."""

    executable: str
    version: str = ""
    packages: Mapping[str, str | None] = field(default_factory=dict)
    has_kavka: bool = False
    problem: str = ""


def ask_python(program: str) -> PythonAnswer:
    """Runs it and asks for its version and packages."""
    question = _ASK_PYTHON % json.dumps(list(PACKAGES))
    try:
        said = subprocess.run(
            [program, "-c", question], capture_output=True, text=True, timeout=ANSWER_S, check=False, cwd=os.sep
        )
        answer = json.loads(said.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        return PythonAnswer(program, problem=str(problem))
    return PythonAnswer(answer["executable"], answer["version"], answer["packages"], answer["kavka"])


def _packages(whose: str, answer: PythonAnswer) -> list[Finding]:
    findings = [Finding(f"{whose}'s python", Verdict.WELL, f"{answer.version} at {answer.executable}")]
    if answer.problem:
        findings = [Finding(f"{whose}'s python", Verdict.WRONG, answer.problem, "name one that runs")]
    findings += [
        package_finding(f"{whose}'s {name}", name, answer.packages.get(name)) for name in PACKAGES if name != "pyspark"
    ]
    return findings


def _worker(environment: Mapping[str, str], driver: PythonAnswer) -> list[Finding]:
    """`kavka_spark.session` and `kavka pipeline` set PYSPARK_PYTHON to their own Python where it is not set; a plain
    `SparkSession.builder` leaves Spark to run the python3 of PATH."""
    named = environment.get("PYSPARK_PYTHON")
    program = shutil.which(named or "python3", path=environment.get("PATH"))
    part = "workers' python"
    use_ours = f"export PYSPARK_PYTHON={sys.executable}"
    if program is None:
        return [Finding(part, Verdict.WRONG, f"no {named or 'python3'} in PATH", use_ours)]
    answer = ask_python(program)
    found = f"{answer.version} at {program}" + (" (PYSPARK_PYTHON)" if named else " (python3 of PATH)")
    wrong = worker_problem(answer, driver)
    if not wrong:
        return [Finding(part, Verdict.WELL, found)]
    if named:
        return [Finding(part, Verdict.WRONG, f"{found}: {wrong}", f"unset PYSPARK_PYTHON, or {use_ours}")]
    advice = f"start sessions with kavka_spark.session(), which sets it, or {use_ours}"
    return [Finding(part, Verdict.DOUBTFUL, f"{found}: {wrong}", advice)]


def worker_problem(worker: PythonAnswer, driver: PythonAnswer) -> str:
    """Why a worker with this Python would fail; empty if it would not."""
    if worker.problem:
        return f"does not run ({worker.problem})"
    if worker.version.split(".")[:2] != driver.version.split(".")[:2]:
        return f"the driver has {driver.version}, and both must have the same minor version"
    missing = [name for name in ("pyspark", "pyarrow", "numpy") if worker.packages.get(name) is None]
    if not worker.has_kavka:
        missing.append("kavka")
    return f"it lacks {', '.join(missing)}" if missing else ""


def package_finding(part: str, name: str, version: str | None) -> Finding:
    """Whether a package is installed in a version that fits."""
    first, before = PACKAGES[name]
    wanted = f"{name}>={_dotted(first)}" + (f",<{_dotted(before)}" if before else "")
    if version is None:
        return Finding(part, Verdict.WRONG, "not installed", install_command("spark"))
    number = _number(version)
    if number < first or (before is not None and number >= before):
        return Finding(part, Verdict.WRONG, f"{version}, kavka needs {wanted}", f'pip install "{wanted}"')
    return Finding(part, Verdict.WELL, version)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def _dotted(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))


# -- the machine


def _address(environment: Mapping[str, str]) -> Finding:
    import socket

    if "SPARK_LOCAL_IP" in environment:
        return Finding("address", Verdict.WELL, f"SPARK_LOCAL_IP={environment['SPARK_LOCAL_IP']}")
    name = socket.gethostname()
    advice = "export SPARK_LOCAL_IP=127.0.0.1 (kavka_spark.session and kavka pipeline do this for local masters)"
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return Finding("address", Verdict.DOUBTFUL, f"this machine's name, {name}, has no address", advice)
    if address.startswith("127."):
        return Finding("address", Verdict.DOUBTFUL, f"{name} is {address}: Spark warns, and may bind elsewhere", advice)
    return Finding("address", Verdict.WELL, f"{name} is {address}")


def _room(environment: Mapping[str, str]) -> Finding:
    import tempfile

    directory = environment.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
    advice = "set SPARK_LOCAL_DIRS to a directory with enough room"
    try:
        free = shutil.disk_usage(directory).free
    except OSError as problem:
        return Finding("local directory", Verdict.WRONG, f"{directory}: {problem.strerror}", advice)
    found = f"{directory}, {free / (1 << 30):.1f} GiB free"
    if free < LEAST_FREE_BYTES:
        return Finding("local directory", Verdict.DOUBTFUL, found, advice)
    return Finding("local directory", Verdict.WELL, found)
