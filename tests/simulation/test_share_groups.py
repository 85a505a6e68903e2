"""Share groups in the simulator (SH1 to SH17): no seed breaks a rule, nor a fault at a step of their story, and bugs
are found. `share_mutants` has all of them, `make simulate SIMULATE=--sharing` many seeds, `make explore` all steps."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from kavka.broker.share import state_requests
from kavka.protocol.api_keys import ApiKey
from kavka.simulator.faults import share_faults
from kavka.simulator.faults.mix import KINDS, Strike
from kavka.simulator.runs.explore import Outcome, Playing, Point, Scope, run
from kavka.simulator.runs.stories import STORIES
from kavka.simulator.runs.swarm import Plan, run_plan, run_seed
from tests.simulation.mutation import Change, Mutant, put_back
from tests.simulation.share_mutants import ADMINISTRATOR, SHARD, SHARED, STORY, Shared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kavka.records.batch import RecordBatch
    from kavka.simulator.host.wire import Exchange

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_with_a_share_group_breaks_no_rule(seed: int) -> None:
    result = run_seed(seed, hours=0.01, sharing=True)

    assert not result.violation, f"{result.violation}\n{result.detail}"


@pytest.mark.parametrize(
    ("seed", "found"),
    [
        (640, "a topic was deleted while a broker was dead, and the core was to lead it"),
        (1227, "a leader changed while all was read, and a state was on its way to a follower"),
        (1452, "a producer that slept was taken for one that waits for its answer"),
        (4192, "an assignment was lost with the answer that brought it, and not told again"),
        (6070, "all records were deleted before any was given out, and the group was to be behind them"),
    ],
)
def test_a_seed_that_failed_once_breaks_no_rule_any_more(seed: int, found: str) -> None:
    result = run_seed(seed, hours=0.005, sharing=True)

    assert not result.violation, f"{found}: {result.violation}\n{result.detail}"


def test_a_member_reads_again_of_a_partition_that_had_no_leader_while_others_had_one() -> None:
    """Three of five brokers die at once: partitions of which they are the replicas have no leader for a while. The
    simulated member saw nothing go wrong, and never asked who leads them since."""
    kills = [Strike(2_000, "kill", {"broker": broker, "back_ms": 15_000, "regardless": True}) for broker in (1, 2, 3)]

    result = run_plan(Plan(3, brokers=5, partitions=6, sharers=2), hours=24 / 3_600, schedule=kills)

    assert not result.violation, f"{result.violation}\n{result.detail}"
    assert result.faults == {"kill": 3}


def test_a_plan_is_what_it_was_where_nobody_asks_for_share_groups() -> None:
    assert all(Plan.draw(seed).sharers == 0 for seed in range(20))


def test_a_crash_at_a_step_of_the_story_breaks_no_rule() -> None:
    calm = run(STORIES[STORY])
    assert not calm.violation, calm.detail
    for _, point in islice(Scope(STORY, "crash", calm).points(part=3, parts=2_000), 1):
        outcome = run(STORIES[STORY], point)
        assert outcome.is_made
        assert not outcome.violation, f"{point.command}: {outcome.violation}"


def test_every_fault_of_its_members_strikes_and_is_got_over() -> None:
    arguments: dict[str, dict[str, float | str]] = {
        kind: {"place": number % 2} if "member" in kind else {} for number, kind in enumerate(share_faults.KINDS)
    }
    for kind in share_faults.KINDS:
        if kind != "share member disconnects":
            arguments[kind]["ms"] = 2_000
    arguments["share group set anew"]["share"] = 0.5
    arguments["share group configured"] = {"setting": "share.isolation.level", "value": "read_committed"}
    schedule = [Strike(1_000 + 4_000 * number, kind, arguments[kind]) for number, kind in enumerate(arguments)]  # type: ignore[arg-type]  # as JSON has them

    result = run_plan(Plan(5, sharers=2), hours=36 / 3_600, schedule=schedule)

    assert not set(arguments) & set(KINDS)
    assert not result.violation, f"{result.violation}\n{result.detail}"
    assert result.faults == dict.fromkeys(arguments, 1)


def between_write_and_answer() -> list[Point]:
    """Of each acknowledgement in the story: a crash of the leader right after its write is committed, and one right
    before its answer."""
    playing = Playing(STORIES[STORY])
    rules, steps = playing.world.observer.shares, playing.world.scheduler
    asked, committed, answered = rules.on_request, rules.on_committed, rules.on_answer
    written_at: dict[Exchange, int] = {}
    """Of requests that wait for their answer; 0 while nothing was committed since."""
    points: list[Point] = []

    def on_request(exchange: Exchange) -> None:
        asked(exchange)
        if exchange.key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE) and any(
            part.acknowledgement_batches for topic in exchange.request.topics for part in topic.partitions
        ):
            written_at[exchange] = 0

    def on_committed(batches: Iterable[RecordBatch]) -> None:
        committed(batches)
        written_at.update(dict.fromkeys(written_at, steps.steps))

    def on_answer(exchange: Exchange) -> None:
        answered(exchange)
        step = written_at.pop(exchange, 0)
        if 0 < step < steps.steps - 1:
            crashes = dict.fromkeys((step, steps.steps - 1))
            points.extend(Point(STORY, "crash", exchange.broker.broker_id, each) for each in crashes)

    for name, watched in (("on_request", on_request), ("on_committed", on_committed), ("on_answer", on_answer)):
        setattr(rules, name, watched)
    outcome = playing.play(lambda: None)
    assert not outcome.violation, outcome.detail
    return points


def test_a_leader_that_dies_between_an_acknowledgement_s_write_and_its_answer_loses_nothing() -> None:
    """Nor is what was written given out again (SH2): the member was not told, and the state knows."""
    points = between_write_and_answer()
    assert len(points) >= 6
    for point in points[:: len(points) // 6]:
        outcome = run(STORIES[STORY], point)
        assert outcome.is_made, point.command
        assert not outcome.violation, f"{point.command}: {outcome.violation}\n{outcome.detail}"


@pytest.mark.parametrize("shared", SHARED, ids=lambda shared: shared.mutant.name)
def test_a_bug_can_be_put_back_and_is_found_where_the_story_shows_it(shared: Shared) -> None:
    """Those that need a fault are hunted for by `share_mutants`."""
    with put_back(shared.mutant):
        if shared.is_shown:
            assert run(STORIES[shared.story]).rule in shared.rules


LATE_S = 3.2
"""So long after the first one the copy of a request arrives: the next state of that name has been made, and read."""
NUMBERED = {
    "in no order": Change(f"{SHARD}._check_order", "if number < last:", "if False:"),
    "a position is set once more": Change(
        f"{SHARD}.initialize", "is_set = number is not None and known.state_epoch == state_epoch", "is_set = False"
    ),
    "writes in no order": Change(
        f"{SHARD}._check_number", "if epoch == update.leader_epoch and number < last:", "if False:"
    ),
}


def play_with_late_copies() -> Outcome:
    """All that brokers ask of who keeps states arrives once more, as if it had waited in a cut connection."""
    copies: list[asyncio.Task[Any]] = []

    def repeated(handle: Any) -> Any:
        async def twice(coordinator: Any, message: Any) -> Any:
            loop = asyncio.get_running_loop()
            answer = await handle(coordinator, message)
            loop.call_later(LATE_S, lambda: copies.append(loop.create_task(handle(coordinator, message))))
            return answer

        return twice

    with pytest.MonkeyPatch.context() as patched:
        for name in ("initialize", "write", "delete"):
            patched.setattr(state_requests, name, repeated(getattr(state_requests, name)))
        outcome = run(STORIES[ADMINISTRATOR])
    assert copies
    return outcome


def test_a_request_of_a_state_that_arrives_once_more_breaks_no_rule() -> None:
    outcome = play_with_late_copies()
    assert not outcome.violation, f"{outcome.violation}\n{outcome.detail}"


@pytest.mark.parametrize(
    ("bug", "rules"),
    [
        ("in no order", {"SH17"}),
        ("a position is set once more", {"SH4"}),
        ("writes in no order", {"SH2", "SH4"}),
    ],
)
def test_it_would_if_requests_had_no_numbers(bug: str, rules: set[str]) -> None:
    with put_back(Mutant(bug, "a request that is late counts", (NUMBERED[bug],))):
        assert play_with_late_copies().rule in rules
