"""Each tool of Kafka 3.9 and 4.3 that has a meaning for kavka runs against a broker of it; none is left out."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.apache_kafka import PeerMissing, run_tool
from tests.apache_kafka.release import Release
from tests.conformance.tools.every_tool import ELSEWHERE, NOT_APPLICABLE, NOT_RUN, ORDER, RELEASES, TOOLS, Run
from tests.kit.kavka_process import KavkaProcess
from tests.kit.share_group import ShareGroup

PROJECT = Path(__file__).resolve().parents[3]
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
START_TIMEOUT_S, TOOL_TIMEOUT_S = 120.0, 200.0
"""For machines with much to do: a JVM takes seconds of a processor to start."""
pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(300)]


class Place(NamedTuple):
    bootstrap: str
    topic: str
    log: str
    scratch: Path

    def filled_in(self, text: str) -> str:
        known = {
            "BROKER": self.bootstrap,
            "TOPIC": self.topic,
            "GROUP": self.topic,
            "READERS": f"readers-of-{self.topic}",
        }
        known |= {"LOG": self.log, "FILE": self.file}
        return re.sub("|".join(known), lambda word: known[word[0]], text)

    @property
    def file(self) -> str:
        return str(self.scratch / "file")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tools") / "data"


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[KavkaProcess]:
    running = KavkaProcess(data, settings=SETTINGS)
    running.start(timeout_s=START_TIMEOUT_S)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def place(broker: KavkaProcess, data: Path, release: str, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A topic of ten records, and a share group of the same name that begins with the first of them."""
    group = ShareGroup(broker.port)
    log = next(data.glob(f"**/{group.name}-0/*.log"))
    return Place(broker.bootstrap, group.name, str(log), tmp_path_factory.mktemp(f"files-{release}"))


def test_every_tool_of_the_release_is_in_the_table(release: str) -> None:
    try:
        Release.named(release).installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    known = TOOLS.keys() | ELSEWHERE.keys() | NOT_APPLICABLE.keys() | NOT_RUN.keys()
    assert set(Release.named(release).tools()) - known == set()


@pytest.mark.parametrize("tool", [*ORDER, *(name for name in TOOLS if name not in ORDER)])
def test_a_tool_runs(place: Place, release: str, tool: str) -> None:
    if tool not in Release.named(release).tools():
        pytest.skip(f"{RELEASES[release]} has no {tool}")
    found = TOOLS[tool]
    run = found if isinstance(found, Run) else found[release]
    text = place.filled_in(run.text)
    if "FILE" in run.words:
        Path(place.file).write_text(text)
    try:
        printed = run_tool(
            release, tool, *place.filled_in(run.words).split(), text=text or None, timeout_s=TOOL_TIMEOUT_S
        )
    except subprocess.CalledProcessError as failed:
        raise AssertionError(f"status {failed.returncode}: {failed.stdout}") from failed
    assert re.search(place.filled_in(run.prints), printed), printed


@pytest.mark.parametrize("tool", ELSEWHERE)
def test_what_another_test_runs_is_run_there(tool: str) -> None:
    file, word = ELSEWHERE[tool]
    assert word in (PROJECT / file).read_text()
