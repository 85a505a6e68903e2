"""Expectations: what must hold for each row of a flow, and what becomes of a row for which it does not.

Decides which rows a flow keeps, what it counts, and which rows its quarantine gets. It is made of Spark's own parts, so
plain `spark-pipelines` runs it too. It must not know who reports the counts.

    otherwise     the row                                  the flow
    warn          is kept and counted                      goes on
    drop          is left out and counted                  goes on
    quarantine    goes to `into` with its reasons          goes on
    fail          stays in its topic                       fails, before the micro-batch is committed

A row that breaks several is treated as the last of those in the table. NULL does not hold.

The quarantine is a flow of its own. It runs the same function over the same source with a checkpoint of its own:

I1  Of a row, whether it is quarantined depends on the row alone. So the two flows, each of which takes every record
    once, put each row into one of the two places, once, however often either is killed and starts again.
I2  What would break I1 is refused where the plan shows it: a source that begins where its topic ends (the flows start
    at different times), steps whose outcome depends on how records fall into micro-batches (watermarks, aggregates,
    duplicates, joins of two streams), and functions of the moment or of chance in an expectation.
I3  A flow's counts are those of the micro-batches that Spark reports (`observe`). They are figures: a micro-batch that
    is done again after a kill is counted again.

Source: Spark's Dataset.observe, raise_error; headers as in KIP-298 (Kafka Connect's dead letters), under our own names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from kavka.errors import ConfigError
from kavka_spark.stream_plans import Step, nodes, require_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Otherwise: TypeAlias = Literal["warn", "drop", "quarantine", "fail"]
Query: TypeAlias = "Callable[[], DataFrame]"

OBSERVED: Final = "kavka_expectations"
"""The name under which Spark's reports have the counts."""
ROWS: Final = "rows"
ORIGIN: Final = ("topic", "partition", "offset")
REASONS: Final = "reasons"
QUARANTINE_OF: Final = "quarantine_of"
"""The attribute of a quarantine's function that names the flow."""
BOOTSTRAP: Final = "spark.kavka.bootstrap.servers"
MOST_EXPECTATIONS: Final = 200
"""Each is a column of every report."""
_MOMENT_OR_CHANCE: Final = re.compile(
    r"\b(current_date|current_timestamp|current_time|localtimestamp)\b|\b(rand|randn|random|randstr|uniform|uuid|"
    r"shuffle|monotonically_increasing_id|spark_partition_id|now|curdate|reflect|try_reflect|java_method|"
    r"input_file_name|input_file_block_start|input_file_block_length)\s*\(|\bunix_timestamp\s*\(\s*\)",
    re.I,
)
_STEPS_THAT_REMEMBER: Final = re.compile(r"Watermark|Deduplicate|Aggregate|GroupMap|MapGroups|WithState|Limit|Offset")


@dataclass(frozen=True, slots=True)
class Expectation:
    """`condition` is SQL. `name` is what counts and reasons call it."""

    name: str
    condition: str
    otherwise: Otherwise

    @property
    def column(self) -> str:
        """Its count in Spark's report."""
        return f"{self.otherwise}: {self.name}"


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """Where quarantined records go as they came: key and value as in their topic, and headers that say why.

    `options` are the sink's (spark.md); without any, brokers are those of pipeline.yml and `exactlyOnce` is true.
    `tasks` is how many tasks write, see `stable`.
    """

    topic: str
    options: Mapping[str, str] = field(default_factory=dict)
    tasks: int = 2


def expect(
    *,
    warn: Mapping[str, str] | None = None,
    drop: Mapping[str, str] | None = None,
    quarantine: Mapping[str, str] | None = None,
    fail: Mapping[str, str] | None = None,
    into: str | DeadLetterTopic | None = None,
    leave_out: Sequence[str] = (),
) -> Callable[[Query], Query]:
    """A decorator below `@dp.table` or `@dp.append_flow`: what must hold for each row that the flow returns.

    Each argument maps names to conditions in SQL. `quarantine` and `fail` need the columns topic, partition and offset
    of the source. `into` is the quarantine: the name of a table to be made, FLOW_quarantine if none is given, which has
    all columns and `reasons`; or a topic, for which the flow keeps `key` and `value`. `leave_out` names columns that
    only the quarantine gets.

    Raises `ConfigError` for what cannot be kept, here or when the flow is planned.
    """
    given: Mapping[Otherwise, Mapping[str, str]] = {
        "warn": warn or {},
        "drop": drop or {},
        "quarantine": quarantine or {},
        "fail": fail or {},
    }
    expectations = _checked(
        [Expectation(name, text, kind) for kind, texts in given.items() for name, text in texts.items()]
    )
    if into is not None and not quarantine:
        raise ConfigError("expect(into=...) without quarantine=: nothing would go there")

    def decorate(query: Query) -> Query:
        if not callable(query):
            # What pyspark's decorators return: the table is defined already, and none of this would count for it.
            raise ConfigError("@expect stands above @dp.table or @dp.append_flow: write it below, next to the function")
        if quarantine:
            _define_quarantine(query, expectations, f"{_name(query)}_quarantine" if into is None else into)

        @functools.wraps(query)
        def kept() -> DataFrame:
            frame = _streamed(query, with_quarantine=bool(quarantine))
            return _kept(frame, _name(query), expectations).drop(*leave_out)

        return kept

    return decorate


def _checked(expectations: list[Expectation]) -> list[Expectation]:
    if not expectations:
        raise ConfigError(
            'expect() without an expectation: write for example expect(drop={"has an id": "id IS NOT NULL"})'
        )
    if len(expectations) > MOST_EXPECTATIONS:
        raise ConfigError(f"{len(expectations)} expectations; a flow has at most {MOST_EXPECTATIONS}")
    names = [each.name for each in expectations]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two expectations are called {twice!r}: give each a name of its own")
    if any(each.otherwise == "quarantine" for each in expectations):
        for each in expectations:
            found = _MOMENT_OR_CHANCE.search(re.sub(r"'[^']*'", "", each.condition))
            if found is not None and each.otherwise in ("quarantine", "fail"):
                word = found[1] or found[2] or found[0]
                raise ConfigError(
                    f"expectation {each.name!r} uses {word}: it would not hold for the same rows in a "
                    "flow and in its quarantine; use a column of the record, such as timestamp"
                )
    return expectations


def _name(query: Query) -> str:
    return str(getattr(query, "__name__", "flow"))


# -- what is kept


def _kept(frame: DataFrame, flow: str, expectations: Sequence[Expectation]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    counts = [F.sum(F.when(_holds(each), 0).otherwise(1)).alias(each.column) for each in expectations]
    counted = frame.observe(OBSERVED, F.count(F.lit(1)).alias(ROWS), *counts)
    leaving = [each for each in expectations if each.otherwise in ("drop", "quarantine")]
    return _filtered(counted, flow, expectations, _all_hold(leaving))


def _filtered(frame: DataFrame, flow: str, expectations: Sequence[Expectation], wanted: Column) -> DataFrame:
    """The wanted rows. A row that breaks an expectation that must not be broken ends the task that reads it.

    One CASE for both, so that no optimizer asks the second question first."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    failing = [each for each in expectations if each.otherwise == "fail"]
    if not failing:
        return frame.where(wanted)
    place = F.format_string("%s-%s, offset %s", *(F.col(name).cast("string") for name in ORIGIN))
    message = F.concat(
        F.lit(f"flow {flow}: the record at "), place, F.lit(" breaks "), F.array_join(_broken(failing), ", ")
    )
    return frame.where(F.when(_all_hold(failing), wanted).otherwise(F.raise_error(message).cast("boolean")))


def _holds(expectation: Expectation) -> Column:
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    return F.coalesce(F.expr(f"({expectation.condition}\n)").cast("boolean"), F.lit(False))


def _all_hold(expectations: Sequence[Expectation]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    return functools.reduce(lambda both, each: both & _holds(each), expectations, F.lit(True))


def _broken(expectations: Sequence[Expectation]) -> Column:
    """The names of those that a row breaks."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    return F.array_compact(F.array(*(F.when(~_holds(each), F.lit(each.name)) for each in expectations)))


# -- what is quarantined


def _define_quarantine(query: Query, expectations: Sequence[Expectation], into: str | DeadLetterTopic) -> None:
    """A table or a sink, and the flow that fills it, with the place of the function that they are about."""
    from pyspark import pipelines as dp
    from pyspark.pipelines.flow import Flow
    from pyspark.pipelines.graph_element_registry import get_active_graph_element_registry
    from pyspark.pipelines.source_code_location import SourceCodeLocation

    if isinstance(into, DeadLetterTopic):
        target = f"{_name(query)}_dead_letters"
        dp.create_sink(target, "kavka", _sink_options(into))
    else:
        target = into
        dp.create_streaming_table(target, comment=f"Rows that {_name(query)} has put into quarantine.")

    def quarantined() -> DataFrame:
        frame = _quarantined(_streamed(query, with_quarantine=True), _name(query), expectations)
        return frame if isinstance(into, str) else _letters(frame, _name(query), into)

    setattr(quarantined, QUARANTINE_OF, _name(query))
    code = getattr(query, "__code__", None)
    place = SourceCodeLocation(code.co_filename, code.co_firstlineno) if code is not None else SourceCodeLocation("", 0)
    get_active_graph_element_registry().register_flow(
        Flow(name=target, target=target, spark_conf={}, source_code_location=place, func=quarantined)
    )


def _quarantined(frame: DataFrame, flow: str, expectations: Sequence[Expectation]) -> DataFrame:
    """The rows that are put aside, with the names of all that they break."""
    aside = [each for each in expectations if each.otherwise == "quarantine"]
    found = frame.withColumn(REASONS, _broken(expectations))
    return _filtered(found, flow, expectations, ~_all_hold(aside)).select(*ORIGIN, REASONS, *_others())


def _others() -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    return [F.expr(f"* EXCEPT ({', '.join((*ORIGIN, REASONS))})")]


def _letters(frame: DataFrame, flow: str, letters: DeadLetterTopic) -> DataFrame:
    """Records for the topic. The columns by which rows are placed are no record's topic and partition to the sink."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    from kavka_spark.stable import stable

    texts = {
        "deadletter.flow": F.lit(flow),
        "deadletter.reasons": F.array_join(F.col(REASONS), "; "),
        **{f"deadletter.{name}": F.col(name).cast("string") for name in ORIGIN},
    }
    headers = F.array(
        *(F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in texts.items())
    )
    came_from = [F.col(name).alias(f"from_{name}") for name in ORIGIN]
    records = frame.select("key", "value", headers.alias("headers"), *came_from)
    return stable(records, letters.tasks, *(f"from_{name}" for name in ORIGIN))


def _sink_options(letters: DeadLetterTopic) -> dict[str, str]:
    from pyspark.sql import SparkSession

    options = {"exactlyOnce": "true", **letters.options, "topic": letters.topic}
    if "kafka.bootstrap.servers" not in options:
        session = SparkSession.active()
        options["kafka.bootstrap.servers"] = str(session.conf.get(BOOTSTRAP))
    return options


# -- what is refused


def _streamed(query: Query, *, with_quarantine: bool) -> DataFrame:
    """What the function returns. Raises `ConfigError` for a plan that could not keep I1."""
    frame = require_frame(query(), _name(query))
    refuse_inexact(_name(query), list(nodes(frame)), with_quarantine=with_quarantine)
    return frame


def remembers(step: Step) -> bool:
    """Whether what a step does with a record depends on the records before it, and so on micro-batches."""
    return _STEPS_THAT_REMEMBER.search(step.name) is not None


def refuse_inexact(flow: str, plan: Sequence[Step], *, with_quarantine: bool) -> None:
    """Raises `ConfigError` for a plan whose counts or whose quarantine would not be exact (I2)."""
    streams = [step for step in plan if step.is_stream]
    if not streams and not any(step.is_opaque for step in plan):
        raise ConfigError(
            f"{flow} is no stream: a materialized view is computed anew each time; put the expectation on the "
            "streaming table that it reads"
        )
    if not with_quarantine:
        return
    if any(step.is_opaque for step in plan):
        raise ConfigError(
            f"{flow} is made of SQL, whose steps only Spark knows: whether its quarantine is exact is not to be seen. "
            "Read with spark.readStream, and use the frame's methods"
        )
    for step in plan:
        if remembers(step):
            raise ConfigError(
                f"{flow} has a step {step.name}, whose outcome depends on how records fall into micro-batches: "
                "a row might be in the table and in the quarantine, or in neither. Put the expectation on a flow "
                "before that step"
            )
    if len(streams) > 1 and any("Join" in step.name for step in plan):
        raise ConfigError(f"{flow} joins streams: put the expectations on the flows that it joins")
    for step in streams:
        _refuse_a_moving_start(flow, step.format, step.options)


def _refuse_a_moving_start(flow: str, source: str, options: Mapping[str, str]) -> None:
    if source not in ("kavka", "kafka"):
        return
    by_time = ("startingtimestamp", "startingoffsetsbytimestamp")
    if any(name in options for name in by_time):
        return
    starting = options.get("startingoffsets", "latest")
    if starting == "latest" or re.search(r":\s*-1\b", starting):
        raise ConfigError(
            f"{flow} begins where its topic ends: the flow and its quarantine start at different times, and records "
            "between the two would be in neither. Set startingOffsets=earliest, offsets, or startingTimestamp"
        )


def parse_column(column: str) -> tuple[str, str] | None:
    """("drop", "has an id") of a count's name in a report; None of another's."""
    otherwise, colon, name = column.partition(": ")
    return (otherwise, name) if colon and otherwise in get_args(Otherwise) else None


def counts_of(progress: Mapping[str, Any]) -> tuple[int, dict[str, int]] | None:
    """Rows, and how many broke each expectation (by its column), in a report of a micro-batch; None without any."""
    observed = progress.get("observedMetrics", {}).get(OBSERVED)
    if observed is None:
        return None
    values = observed.get("values", observed)
    if isinstance(values, list):
        values = dict(zip((each["name"] for each in observed["schema"]["fields"]), values, strict=True))
    counts = {name: int(count or 0) for name, count in values.items()}
    return counts.pop(ROWS, 0), counts
