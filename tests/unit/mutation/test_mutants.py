"""Mutants of the decision rooms: how they are made, named, put in place and tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from cosmic_ray.mutating import mutate_code

from tests.mutation.covering import Covering
from tests.mutation.live import NeedsImport, replace
from tests.mutation.operators import DropStatement, SwapMembership, chosen
from tests.mutation.results import Result, digest, explanations, stale
from tests.mutation.rooms import ROOMS, SOURCES
from tests.mutation.session import Finders
from tests.mutation.sites import sites

DIVERGENCE = SOURCES / "replication/decide/divergence.py"


@pytest.mark.parametrize("operator", [SwapMembership(), DropStatement()])
def test_our_operators_do_what_their_examples_say(operator) -> None:
    for example in operator.examples():
        assert mutate_code(example.pre_mutation_code, operator, example.occurrence) == example.post_mutation_code


@pytest.mark.parametrize(
    ("statement", "acts"),
    [
        ("self.count += 1", True),
        ("count += 1", True),
        ("self.count = 1", True),
        ("flush(now_ms)", True),
        ("await flush()", True),
        ("raise ValueError", True),
        ("return", True),
        ("count = 1", False),
        ("return count", False),
        ("assert_never(state)", False),
        ('"""What it is."""', False),
    ],
)
def test_a_statement_is_dropped_if_it_does_something_that_nobody_need_notice(statement: str, acts: bool) -> None:
    becomes = mutate_code(f"async def f():\n    {statement}\n", DropStatement(), 0)
    assert becomes == ("async def f():\n    pass\n" if acts else None)


def test_each_site_changes_its_own_lines_and_has_a_name_of_its_own() -> None:
    source = DIVERGENCE.read_text()
    many = len(sites(DIVERGENCE))
    assert many > 10
    assert max(Counter(site.name for site in sites(DIVERGENCE)).values()) == 1
    for place in range(many):
        site = sites(DIVERGENCE)[place]  # A site's tree is spoilt by its change.
        before, after = source.splitlines(), site.mutated(source).splitlines()
        assert before[: site.line - 1] == after[: site.line - 1]
        assert before[site.last_line :] == after[len(after) - len(before[site.last_line :]) :]
        assert before != after


ANNOTATED = """from __future__ import annotations

def f(x: int | None, y: list[int] | None = None) -> str | None:
    z: int | None
    return x | y

@dataclass(frozen=True, slots=True)
class C:
    w: int = 1
"""


def test_annotations_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "annotated.py"
    module.write_text(ANNOTATED)
    monkeypatch.setattr("tests.mutation.sites.SOURCES", tmp_path)
    assert [site.line for site in sites(module)] == [5, 9, 9]


def test_every_operator_of_the_list_is_there() -> None:
    assert len(chosen()) > 25


SOURCE = """
LIMIT = 3
class Counter:
    step = 1
    def __init__(self): self.value = 0
    @property
    def is_full(self): return self.value >= LIMIT
    @staticmethod
    def twice(value): return value * 2
    def add(self):
        def more(value): return value + self.step
        self.value = more(self.value)
"""


def changed(old: str, new: str) -> tuple[ModuleType, bool]:
    """A running module in which `old` was replaced, and what `replace` said."""
    module = ModuleType("counter")
    exec(compile(SOURCE, "counter.py", "exec"), vars(module))
    assert old in SOURCE
    return module, replace(module, Path("counter.py"), SOURCE, SOURCE.replace(old, new))


def test_live_functions_properties_and_what_is_nested_in_them_take_the_change() -> None:
    module, did = changed("value >= LIMIT", "value > LIMIT")
    counter = module.Counter()
    counter.value = 3
    assert did
    assert not counter.is_full
    module, _ = changed("value * 2", "value // 2")
    assert module.Counter.twice(2) == 1
    module, _ = changed("value + self.step", "value - self.step")
    counter = module.Counter()
    counter.add()
    assert counter.value == -1


def test_what_an_import_evaluates_needs_a_new_process() -> None:
    for old, new in (("LIMIT = 3", "LIMIT = 4"), ("step = 1", "step = 2")):
        with pytest.raises(NeedsImport):
            changed(old, new)


def test_a_change_that_does_nothing_is_none() -> None:
    assert changed("value * 2", "value  *  2")[1] is False


def test_tests_that_found_a_neighbour_are_asked_first() -> None:
    site = sites(DIVERGENCE)[0]
    here, there = f"{site.module} {site.definition} Operator 1: x", f"{site.module} other Operator 1: x"
    found = [(here, "b"), (there, "c"), (there, "c"), (here.replace("divergence", "replica"), "a")]
    finders = Finders(Result(name, "", "", "killed", by) for name, by in found)
    assert finders.first(site, ["a", "b", "c", "d"]) == ["b", "c", "a", "d"]
    finders.add(Result(here, "", "", "killed", "d"))
    finders.add(Result(here, "", "", "killed", "d"))
    finders.add(Result(here, "", "", "survived"))
    assert finders.first(site, ["a", "b", "c", "d"]) == ["d", "b", "c", "a"]


def test_explanations_are_for_mutants_that_are_there_and_say_why() -> None:
    modules = sorted({name.partition(" ")[0] for each in explanations() for name in each.sites})
    assert stale((site for module in modules for site in sites(SOURCES / module)), modules) == []
    assert all(len(each.reason.split()) > 3 for each in explanations())
    rooms = {path for room in ROOMS for path in room.module_paths()}
    assert {SOURCES / module for module in modules} <= rooms


THROTTLE = "tests/unit/replication/test_throttle.py"


@pytest.mark.parametrize(
    ("added", "tests", "outcome", "by", "ran"),
    [
        ("UNUSED = 1", f"{THROTTLE}::test_replicas_are_named_by_partition_and_broker", "survived", "", 1),
        ("raise RuntimeError", f"{THROTTLE}::test_replicas_are_named_by_partition_and_broker", "killed", "", 0),
        ("del Throttle", f"{THROTTLE}::test_replicas_are_named_by_partition_and_broker", "killed", THROTTLE, 0),
        ("UNUSED = 1", f"{THROTTLE}::test_there_is_none", "survived", "", 0),
    ],
    ids=["lives", "cannot be imported", "tests cannot be collected", "pytest cannot begin"],
)
def test_a_new_process_tells_what_lives_too(
    tmp_path: Path, added: str, tests: str, outcome: str, by: str, ran: int
) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as told:
        facts = {
            "module": "kavka.replication.decide.throttle",
            "source": (SOURCES / "replication/decide/throttle.py").read_text() + added + "\n",
            "tests": [tests],
            "becomes": added,
            "writing": writing,
        }
        (tmp_path / "spec.json").write_text(json.dumps(facts))
        command = [sys.executable, "-m", "tests.mutation.trial", str(tmp_path / "spec.json")]
        subprocess.run(command, pass_fds=[writing], capture_output=True, timeout=200, check=True)
        os.close(writing)
        assert json.loads(told.read()) == {"outcome": outcome, "by": by, "becomes": added, "tests": ran}


def test_what_cannot_be_imported_is_found_whatever_the_tests() -> None:
    room, state = ROOMS[0], digest([DIVERGENCE])
    for outcome, by, holds in (("killed", "", True), ("timeout", "", False), ("survived", "", False)):
        result = Result(sites(DIVERGENCE)[0].name, state, "another state", outcome, by)
        assert result.holds(room) is holds
    assert not Result(sites(DIVERGENCE)[0].name, "another source", "", "killed").holds(room)


PROGRAM = """
import sys
from pathlib import Path
from tests.mutation import results, run
from tests.mutation.rooms import Room

results.CACHE = Path(sys.argv[1])
run.ROOMS = (Room("throttle", ("replication/decide/throttle.py",), ("unit/replication/test_throttle.py",)),)
runs = [[]]
for word in sys.argv[2:]:
    runs.append([]) if word == "then" else runs[-1].append(word)
sys.exit(max(run.main(each) for each in runs))
"""


def test_a_run_tells_what_was_found_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """One change that a test finds in a live function, one in a new process, and nothing the second time. A process
    that only ends would count as found, too."""

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-u", "-c", PROGRAM, str(tmp_path), "--workers", "2", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    live, imported = "Throttle.is_throttled ReplaceOrWithAnd", " NumberReplacer 1: DEFAULT_WINDOW_MS"
    first = ran("--only", live, "then", "--only", imported)
    measured = "".join(path.read_text() for path in tmp_path.rglob("covering/**/*.json"))
    told = [line.split() for line in first.stdout.splitlines() if line.startswith("throttle ")]
    assert told == [["throttle", "1", "1", "0", "0", "0", "0"]] * 2, f"{first.stdout}\n{first.stderr}\n{measured}"
    assert first.returncode == 0
    known = (tmp_path / "throttle.jsonl").read_text()
    for result in map(json.loads, known.splitlines()):
        assert (result["outcome"], result["by"].partition("::")[0]) == (
            "killed",
            "tests/unit/replication/test_throttle.py",
        )
    assert ran("--only", "Throttle.is_throttled ReplaceOrWithAnd").returncode == 0
    assert (tmp_path / "throttle.jsonl").read_text() == known


def test_what_survives_named_tests_is_not_known_to_have_survived_all(tmp_path: Path) -> None:
    only = ("--only", "Throttle.is_throttled ReplaceOrWithAnd")
    runs = (*only, "--tests", "unit/replication/test_divergence.py", "then", *only, "--known")
    command = [sys.executable, "-u", "-c", PROGRAM, str(tmp_path), *runs]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    told = [line.split()[2:] for line in ran.stdout.splitlines() if line.startswith("throttle ")]
    # killed, explained, survived, uncovered, not run
    assert told == [["0", "0", "0", "1", "0"], ["0", "0", "0", "0", "1"]], ran.stdout + ran.stderr


def test_any_test_may_tell_of_a_module_of_which_no_line_runs_but_when_it_is_imported() -> None:
    covering = Covering()
    covering.add("slow", 2.0, {"src/a.py": [1]})
    covering.add("quick", 0.1, {"src/b.py": [1]})
    assert covering.of_module(Path("src/a.py")) == ["slow"]
    assert covering.of_module(Path("src/values.py")) == ["quick", "slow"]
