"""Recordings of simulated brokers under faults, decided again: the same comes out, and a bug put back is seen."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kavka.cli.understand.replay import Replay
from kavka.flight.format import FLIGHT_FILES
from kavka.flight.ring_reader import FlightRing, find_rings
from kavka.model import TopicPartition
from kavka.replay.cluster_replay import ReplayedCluster, replay_cluster
from kavka.simulator.faults.mix import FaultMix
from kavka.simulator.runs.page import render
from kavka.simulator.world import World
from tests.kit.browser import BROWSER, dump_dom
from tests.simulation.mutants import MUTANTS, put_back
from tests.simulation.test_page_in_a_browser import PROBE

# Coroutines of killed brokers are dropped where they stood: that is what killed means.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MIX = FaultMix({"kill": 2.0, "pause": 2.0, "cut": 1.0, "restart": 1.0}, 8.0)
SEEDS = range(5, 8)
SMALL = 64 * 1024
LOG_DIRECTORY = "/logs"


def record(place: Path, seed: int, *, hours: float = 0.05, ring_bytes: int = 1 << 22, **settings: str) -> None:
    """The rings of a simulated cluster's brokers, as files in directories of their own."""
    world = World(
        seed,
        brokers=3,
        partitions=2,
        mix=MIX,
        settings={
            "kavka.flight.recorder.enable": "true",
            "kavka.flight.recorder.bytes": str(ring_bytes),
            "replica.lag.time.max.ms": "5000",
            "log.dirs": LOG_DIRECTORY,
            **{name.replace("_", "."): value for name, value in settings.items()},
        },
    )
    world.start()
    world.run_swarm(hours=hours, producers=2, mean_pause_s=0.3)
    world.settle()
    for broker in world.brokers.values():
        assert broker.loop is not None
        files = broker.disk.port(broker.loop)
        directory = place / broker.node
        directory.mkdir()
        for name in FLIGHT_FILES:
            path = f"{LOG_DIRECTORY}/{name}"
            if files.exists(path):
                (directory / name).write_bytes(files.read(path))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A directory of rings by seed, each recorded once."""

    @cache
    def of(seed: int) -> Path:
        place = tmp_path_factory.mktemp("recorded")
        record(place, seed)
        return place

    return of


@pytest.fixture(scope="module")
def recorded(recordings: Callable[[int], Path]) -> Path:
    return recordings(SEEDS[0])


def replay(place: Path, **arguments: object) -> ReplayedCluster:
    return replay_cluster(find_rings([str(place)]), **arguments)  # type: ignore[arg-type]


def test_every_decision_is_made_again(recorded: Path) -> None:
    replayed = replay(recorded)

    assert [str(difference) for difference in replayed.differences] == []
    figures = replayed.as_json()
    assert figures["brokers"] == [1, 2, 3]
    for name, least in (("inputs", 500), ("decisions", 60), ("leader_elections", 3), ("isr_changes", 20)):
        found = figures[name]
        assert isinstance(found, int)
        assert found >= least, name


@pytest.mark.parametrize("seed", [11, 12])
def test_every_decision_is_made_again_with_eligible_leader_replicas(tmp_path: Path, seed: int) -> None:
    record(tmp_path, seed, hours=0.03, kavka_eligible_leader_replicas_enable="true")

    replayed = replay(tmp_path)

    assert [str(difference) for difference in replayed.differences] == []
    assert replayed.as_json()["decisions"]


def test_the_same_recording_has_the_same_trace(recorded: Path) -> None:
    assert replay(recorded).trace.digest == replay(recorded).trace.digest


@pytest.mark.parametrize(
    "name",
    [
        "own log end is the high watermark",
        "nobody is asked again",
        "min.insync.replicas is ignored",
        "KIP-320 first try",
        "anybody may lead",
    ],
)
def test_a_bug_put_back_is_a_difference(recordings: Callable[[int], Path], name: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    for seed in SEEDS:
        place = recordings(seed)
        assert replay(place).differences == []
        with put_back(mutant):
            if replay(place).differences:
                return
    pytest.fail("no recording shows it")


def test_a_ring_that_has_come_round_is_replayed_from_its_files_beginning(tmp_path: Path) -> None:
    record(tmp_path, seed=7, hours=0.1, ring_bytes=SMALL)

    replayed = replay(tmp_path)

    rings = find_rings([str(tmp_path)])
    assert any(len(ring.paths) == 2 for ring in rings), "no ring came round: it shows nothing"
    for ring in rings:
        assert sum(Path(path).stat().st_size for path in ring.paths) <= 1.2 * SMALL
    assert [str(difference) for difference in replayed.differences] == []
    assert replayed.as_json()["decisions"]


def test_whatever_is_cut_off_or_broken_the_rest_is_replayed_without_a_difference(
    recorded: Path, tmp_path: Path
) -> None:
    (ring,) = find_rings([str(recorded / "broker-2")])
    whole = Path(ring.paths[-1]).read_bytes()
    path = tmp_path / FLIGHT_FILES[1]
    for part in range(1, 40):
        cut = len(whole) * part // 40
        broken = bytearray(whole[:cut] if part % 2 else whole)
        if not part % 2:
            broken[cut] ^= 0x40
        path.write_bytes(broken)

        replayed = replay_cluster([FlightRing(str(tmp_path), (str(path),))])

        assert [str(difference) for difference in replayed.differences] == []
        assert sum(gap.length for gap in replayed.gaps) < len(broken)


def test_one_partition_and_one_minute_of_it_may_be_looked_at(recorded: Path) -> None:
    whole = replay(recorded)
    middle_ms = whole.wall_start_ms + whole.duration_ms // 2

    part = replay(recorded, wanted=lambda partition: partition == TopicPartition("orders", 1), around_ms=middle_ms)

    assert part.differences == []
    assert 0 < part.trace.recorded < whole.trace.recorded / 2
    assert part.duration_ms <= 120_000
    shown = {event.partition for event in part.trace.events()}
    assert "orders-1" in shown
    kinds = {event.kind for event in list(part.trace.events())[:30]}
    assert {"leads", "follows", "state stored"} <= kinds, "how things stood when the minute began"


@pytest.mark.skipif(BROWSER is None, reason="no chromium")
def test_its_page_tells_why_an_isr_shrank_and_steps_both_ways_in_a_browser(recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "replay.html"
    shown = Replay(replay(recorded), "kavka replay recorded")
    file.write_text(render(shown).replace("</body>", PROBE), encoding="utf-8")

    dumped = dump_dom(file, profile=tmp_path / "profile")

    probe = re.search(r'<pre id="probe">(.*?)</pre>', dumped, re.DOTALL)
    assert probe is not None, dumped[-2_000:]
    found = json.loads(html.unescape(probe[1]))
    opened, following, back, *_ = found["told"]
    assert opened == back != following
    assert "ISR shrinks" in found["opened"]["what"]
    reasons = ("replica.lag.time.max.ms allows", "are not alive", "offline election", "controlled shutdown")
    assert any(reason in found["opened"]["what"] for reason in reasons), found["opened"]["what"]
