"""Sweep: the simulator's comparison of lag policies over many thresholds, workloads, seeds and recorded traces, as a
Spark job.

Decides which cases there are and what row an outcome is. A case is a row that says what to run; a worker runs it with
the brokers' own code in virtual time (`studies.lag_policy`), so that a case has the same outcome wherever it runs.

I1  Cases are independent of each other: each row is run by itself.
I2  A false alarm and an overlooked follower are counted only if the workload says who was ailing; for a recorded trace
    that says nothing of it, they are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.replication.decide.lag_policy import MESSAGES, TIME
from kavka.studies.lag_outcome import Choice, Outcome
from kavka.studies.lag_policy import replay, run_workload
from kavka.studies.lag_trace import Recorded
from kavka.studies.lag_workload import Workload, articles_example, workloads

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.types import StructType

MAX_CASES: Final = 100_000
STUCK_MS: Final = 10_000
"""When the policy by messages considers a follower stuck: Kafka 0.8's default of replica.lag.time.max.ms."""


class Case(NamedTuple):
    """One run. `trace` is a file of `kavka lag-policy --write-trace` or of recorded fetches, empty for a workload."""

    workload: str
    trace: str
    policy: str
    max_ms: int
    max_messages: int
    seed: int
    minutes: float


def cases(
    *,
    times_ms: Sequence[int],
    messages: Sequence[int],
    names: Sequence[str] = (),
    seeds: int = 1,
    minutes: float = 10.0,
    traces: Sequence[str] = (),
) -> list[Case]:
    """Every threshold on every workload with every seed, and once on every trace. Raises ValueError."""
    known = _known(minutes)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no workload {unknown[0]}; there are {', '.join(known)}")
    choices = [(TIME, each, 0) for each in times_ms] + [(MESSAGES, STUCK_MS, each) for each in messages]
    chosen = list(names) or [workload.name for workload in workloads(minutes)]
    found = [
        Case(name, "", *choice, seed, minutes) for name in chosen for choice in choices for seed in range(1, seeds + 1)
    ]
    found += [Case(Path(trace).name, trace, *choice, 0, 0.0) for trace in traces for choice in choices]
    if len(found) > MAX_CASES:
        raise ValueError(f"{len(found):,} cases are more than {MAX_CASES:,}: take fewer seeds or thresholds")
    return found


def run_cases(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """For mapInPandas: cases in, outcomes out."""
    import pandas as pd

    for frame in frames:
        rows = [_row(Case(*values)) for values in frame[list(Case._fields)].itertuples(index=False, name=None)]
        yield pd.DataFrame(rows, columns=[field.name for field in outcome_schema().fields])


def case_schema() -> StructType:
    from pyspark.sql import types as T  # noqa: N812 - as Spark's own documents call it

    return (
        T.StructType()
        .add("workload", T.StringType())
        .add("trace", T.StringType())
        .add("policy", T.StringType())
        .add("max_ms", T.LongType())
        .add("max_messages", T.LongType())
        .add("seed", T.IntegerType())
        .add("minutes", T.DoubleType())
    )


def outcome_schema() -> StructType:
    from pyspark.sql import types as T  # noqa: N812 - likewise

    schema = T.StructType()
    for name in ("workload", "policy"):
        schema = schema.add(name, T.StringType())
    for name in _NUMBERS:
        schema = schema.add(name, T.LongType())
    return schema


_NUMBERS: Final = (
    "max_ms",
    "max_messages",
    "seed",
    "shrinks",
    "false_alarms",
    "to_be_found",
    "overlooked",
    "worst_detection_ms",
    "refused_ms",
    "stalled_ms",
    "isr_updates",
    "commit_p99_ms",
)


def _row(case: Case) -> dict[str, Any]:
    outcome, knows_ailments = _run(case)
    worst = outcome.worst_detection_ms
    return {
        "workload": case.workload,
        "policy": case.policy,
        "max_ms": case.max_ms,
        "max_messages": case.max_messages,
        "seed": case.seed,
        "shrinks": outcome.shrinks,
        "false_alarms": outcome.false_alarms if knows_ailments else None,
        "to_be_found": outcome.to_be_found if knows_ailments else None,
        "overlooked": outcome.overlooked if knows_ailments else None,
        "worst_detection_ms": worst,
        "refused_ms": outcome.refused_ms,
        "stalled_ms": outcome.stalled_ms,
        "isr_updates": outcome.isr_updates,
        "commit_p99_ms": outcome.commit_p99_ms,
    }


def _run(case: Case) -> tuple[Outcome, bool]:
    choice = Choice(case.policy, int(case.max_ms), int(case.max_messages))
    if not case.trace:
        workload = _known(case.minutes)[case.workload]
        return run_workload(workload, choice, minutes=case.minutes, seed=int(case.seed)), True
    recorded = Recorded()
    with open(case.trace, "rb") as lines:
        recorded.read(lines)
    recorded.check()
    return replay(recorded.trace, choice, name=case.workload, ailments=recorded.ailments), bool(recorded.ailments)


def _known(minutes: float) -> dict[str, Workload]:
    return {workload.name: workload for workload in (*workloads(minutes), *articles_example(minutes))}
