"""Fixtures that every part of the test suite may use: brokers in processes of their own."""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis.internal.detection import is_hypothesis_test
from xdist.scheduler import LoadFileScheduling

from kavka.logger import set_level
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.kavka_process import NO_RETENTION, KavkaProcess
from tests.kit.ports import free_port
from tests.kit.server_process import fork_servers

# Kafka's default heap of 1 GB is for measurements; a test's broker holds a few megabytes of records.
TEST_HEAP = "-Xmx512M -Xms256M"

# Brokers of tests that do not ask for a console have none beside them: it takes a processor's half second each.
os.environ.setdefault("KAVKA_NO_CONSOLE", "1")

# What runs under nohup, or behind a shell's &, ignores Ctrl-C, and so do the programs that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's business: what is slow shows in benchmarks.
hypothesis.settings.register_profile("kavka", deadline=None)
hypothesis.settings.load_profile("kavka")


IN_MEMORY = Path("/dev/shm")
ROOM_IN_MEMORY_BYTES = 12 << 30
"""What must be free there before the tests' directories go to memory: a whole run leaves about 1 GB."""
NAME_IN_MEMORY = "kavka-tests-"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Forks the tests' brokers, and puts their directories into memory. The code under test syncs as always, but one
    sync of a disk that other programs write to takes seconds, once two minutes, and a run syncs some ten thousand
    times. `make conformance` begins each broker from nothing and stays on the disk."""
    if not os.environ.get("KAVKA_ALL_CLIENTS"):
        fork_servers()
    if config.option.basetemp is not None or os.environ.get("KAVKA_ALL_CLIENTS") or not has_room_in_memory():
        return
    for left in IN_MEMORY.glob(f"{NAME_IN_MEMORY}*"):
        if not Path("/proc", left.name.removeprefix(NAME_IN_MEMORY)).exists():
            shutil.rmtree(left, ignore_errors=True)
    config.option.basetemp = IN_MEMORY / f"{NAME_IN_MEMORY}{os.getpid()}"


def has_room_in_memory() -> bool:
    if not IN_MEMORY.is_dir() or not os.access(IN_MEMORY, os.W_OK):
        return False
    available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert available is not None, "Linux tells what memory is available"
    return min(int(available[1]) << 10, shutil.disk_usage(IN_MEMORY).free) >= ROOM_IN_MEMORY_BYTES


def pytest_unconfigure(config: pytest.Config) -> None:
    """Directories in memory go with the run; those of a run with failures stay until the next one."""
    path = config.option.basetemp
    is_ours = path is not None and Path(path) == IN_MEMORY / f"{NAME_IN_MEMORY}{os.getpid()}"
    if is_ours and not _failures:
        shutil.rmtree(path, ignore_errors=True)


_failures: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failures.append(report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of test items and all modules live as long as the process: no collection of garbage need look at them,
    neither while they are made (2 s of a core in each worker) nor later."""
    gc.disable()
    result = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return result


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    """Simulated clusters are never given back (simulator/host/scheduler.py, I2), each with thousands of tasks: they
    join what no collection looks at. Commands that are run in a test's process switch its garbage collection off, or
    freeze what there is, as suits a process that ends with them; that is undone."""
    frozen = gc.get_freeze_count()
    yield
    if not gc.isenabled() or gc.get_freeze_count() > frozen:
        gc.enable()
        gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _log_levels() -> Iterator[None]:
    """A command that is run in a test's process may make the process say less, or more, for as long as it lives."""
    yield
    set_level("info")


StartKavka = Callable[..., KavkaProcess]


LONG_FIRST = ("tests/conformance/", "tests/integration/", "tests/chaos/")
"""Rooms in which one file may take minutes, the longest first; the rest takes seconds."""

BUSY = ("tests/integration/spark/", "tests/simulation/", "tests/unit/mutation/")
"""Whose files keep a core busy, or two. Beside each other they wait for each other; the others wait for clients and
timers two thirds of their time."""


SPARK_IN_PROCESS = tuple(
    f"tests/integration/spark/test_{name}.py" for name in ("fsck", "sink_in_spark", "source_in_spark")
)
"""Files that drive Spark in their own process: one worker takes them all, and starts one JVM for them."""


class _Scheduling(LoadFileScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return SPARK_IN_PROCESS[0] if file in SPARK_IN_PROCESS else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling | None:
    return _Scheduling(config, log) if config.option.dist == "loadfile" else None


def _in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """The items in the order in which workers get their files: long ones first, with busy ones among them."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)

    def turn(file: str) -> int:
        return next((turn for turn, room in enumerate(LONG_FIRST) if file.startswith(room)), len(LONG_FIRST))

    order = sorted((file for file in files if not file.startswith(BUSY)), key=turn)
    long = sum(turn(file) < len(LONG_FIRST) for file in order)
    by_room = [[file for file in files if file.startswith(room)] for room in BUSY]
    busy = [file for together in itertools.zip_longest(*by_room) for file in together if file is not None]
    for number, file in enumerate(busy):
        order.insert(number + number * long // len(busy), file)
    return [item for file in order for item in files[file]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves what begins Apache Kafka (all but a sample, marked `always`), and what is thorough, to `make conformance`.
    Long files come first, so that no worker is left alone with one of them in the end; `make test` keeps this order."""
    everything = bool(os.environ.get("KAVKA_ALL_CLIENTS"))
    kept, left_out = [], []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        is_for_later = "thorough" in marks or ("kafka" in marks and "always" not in marks)
        (left_out if is_for_later and not everything else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
    items[:] = _in_turn(items)
    if (times := int(os.environ.get("KAVKA_EXAMPLES", "1"))) > 1:
        for item in items:
            _look_longer(item, times)


def _look_longer(item: pytest.Item, times: int) -> None:
    """Gives a property `times` as many examples, others in every run (`make fuzz`)."""
    machine, function = getattr(item, "cls", None), getattr(item, "obj", None)
    if isinstance(getattr(machine, "settings", None), hypothesis.settings):
        holder, name = machine, "settings"
    elif is_hypothesis_test(function):
        holder, name = function, "_hypothesis_internal_use_settings"
    else:
        return
    given = getattr(holder, name, None) or hypothesis.settings()
    if given.database is not None:  # Tests of one function with several parameters share it.
        setattr(holder, name, hypothesis.settings(given, max_examples=given.max_examples * times, database=None))


@pytest.fixture(scope="module")
def kavka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KavkaProcess]:
    """One running `kavka up` for all tests of a module, with default settings. Use topics of your own."""
    with KavkaProcess(tmp_path_factory.mktemp("kavka") / "data") as broker:
        yield broker


@pytest.fixture
def start_kavka(tmp_path: Path) -> Iterator[StartKavka]:
    """Start brokers for one test: start_kavka(settings={...}, data_dir=..., port=...). They are killed when it ends."""
    started: list[KavkaProcess] = []

    def start(
        *, settings: Mapping[str, str] | None = None, data_dir: Path | None = None, port: int | None = None
    ) -> KavkaProcess:
        directory = data_dir or tmp_path / f"kavka-{len(started)}"
        log_file = tmp_path / f"kavka-{len(started)}.log"
        broker = KavkaProcess(directory, port=port, settings=settings, log_file=log_file)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.kill()


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One running Apache Kafka 3.9 with ZooKeeper for the whole run; skips where there is none. Mark tests `kafka`."""
    try:
        kafka = ApacheKafka(tmp_path_factory.mktemp("apache-kafka") / "zk", heap=TEST_HEAP, settings=NO_RETENTION)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield kafka


@pytest.fixture(scope="session")
def apache_kafka_kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One running Apache Kafka 4.x in KRaft mode for the whole run; skips where there is none. Mark tests `kafka`."""
    try:
        kafka = ApacheKafka(
            tmp_path_factory.mktemp("apache-kafka") / "kraft", mode="kraft", heap=TEST_HEAP, settings=NO_RETENTION
        )
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield kafka


@pytest.fixture
def unused_port() -> int:
    """A loopback port that nobody listens on."""
    return free_port()
