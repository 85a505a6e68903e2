"""What keeps a pipeline from running that is found without Spark: definitions that do not parse, brokers that do not
answer, topics that are not there.

Decides in which order it is asked, cheapest first: a JVM and a session take many seconds. What definitions mean, Spark
says afterwards; it must not know how a run goes on.

I1  A parse runs nothing of a definition.
I2  Brokers are asked only where a definition reads the setting that names them. Topics are asked for only where a
    reader names them: a pattern may match nothing yet, and a sink's topic may be made by the broker
    (auto.create.topics.enable).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pyspark.pipelines.output import Sink

from kavka.errors import ConfigError, KavkaError
from kavka_spark.pipelines.definitions import Definitions, Place
from kavka_spark.pipelines.problems import Problem, told
from kavka_spark.pipelines.progress import short_name
from kavka_spark.pipelines.spec import BOOTSTRAP, PipelineSpec
from kavka_spark.pipelines.sql_definitions import SqlProblem, sql_definitions

if TYPE_CHECKING:
    from google.protobuf.message import Message

OURS: Final = "kavka"
ANSWER_MS: Final = 5_000
"""How long brokers may take to answer, and a topic to appear."""


class Endpoint(NamedTuple):
    """A reader or a sink of a flow."""

    flow: str
    kind: Literal["stream", "table", "sink"]
    format: str
    options: Mapping[str, str]
    """By lower-case names."""


def parse_problem(spec: PipelineSpec) -> Problem | None:
    """The first definition that is no Python or no SQL, with its line. Raises SpecError where there are no files."""
    for file in spec.files():
        text = file.read_bytes()
        name = str(file.relative_to(spec.root)) if file.is_relative_to(spec.root) else str(file)
        try:
            if file.suffix == ".sql":
                sql_definitions(text.decode())
            else:
                compile(text, str(file), "exec", dont_inherit=True)
        except SyntaxError as error:
            return Problem(f"{type(error).__name__}: {error.msg}", file=name, line=error.lineno or 0)
        except SqlProblem as problem:
            return Problem(str(problem), file=name, line=problem.line)
        except ValueError as error:  # UnicodeDecodeError, or a null byte
            return Problem(f"{name} is not text: {error}", "definitions are UTF-8")
    return None


def brokers_problem(spec: PipelineSpec) -> Problem | None:
    """Why the brokers of pipeline.yml cannot be reached; None also where no definition asks for them."""
    if not any(BOOTSTRAP in file.read_text(encoding="utf-8") for file in spec.files()):
        return None
    bootstrap = spec.configuration.get(BOOTSTRAP, spec.own.bootstrap)
    return _asked(Endpoint("", "sink", OURS, {"kafka.bootstrap.servers": bootstrap}), spec, None)


def topics_problem(spec: PipelineSpec, definitions: Definitions, endpoints: Iterable[Endpoint]) -> Problem | None:
    """The first reader or sink of kavka's whose options are wrong, or whose brokers or topics are not there."""
    for endpoint in endpoints:
        if endpoint.format == OURS:
            problem = _asked(endpoint, spec, definitions.place_of(endpoint.flow))
            if problem is not None:
                return problem
    return None


def readers_in(flow: str, plan: Message) -> Iterator[Endpoint]:
    """Each source that a plan of Spark Connect reads."""
    if plan.DESCRIPTOR.full_name == "spark.connect.Read":
        read: Any = plan
        if read.data_source.format:
            options = {name.lower(): text for name, text in read.data_source.options.items()}
            yield Endpoint(flow, "stream" if read.is_streaming else "table", read.data_source.format, options)
    for field, value in plan.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for inner in (value,) if hasattr(value, "DESCRIPTOR") else value:
            yield from readers_in(flow, inner)


def sinks_in(definitions: Definitions) -> Iterator[Endpoint]:
    """Each sink, under the name of a flow into it."""
    for flow in definitions.flows:
        output = definitions.outputs.get(short_name(flow.target))
        if isinstance(output, Sink):
            options = {name.lower(): text for name, text in output.options.items()}
            yield Endpoint(short_name(flow.name), "sink", output.format, options)


def _asked(endpoint: Endpoint, spec: PipelineSpec, place: Place | None) -> Problem | None:
    try:
        missing = _missing_topics(endpoint)
    except (KavkaError, TimeoutError) as error:
        name = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        return told(name + (str(error) or "no answer in time"), spec, place, endpoint.flow)
    if not missing:
        return None
    problem = told(f"there is no topic {', '.join(map(repr, missing))}", spec, place, endpoint.flow)
    return replace(problem, next_step=f"kavka topics create {missing[0]}")


def _missing_topics(endpoint: Endpoint) -> list[str]:
    """Raises `KavkaError` for options that are wrong and brokers that do not answer."""
    from kavka_spark.connections import connection
    from kavka_spark.offsets import find_partitions
    from kavka_spark.options import connection_options
    from kavka_spark.sink_options import sink_options
    from kavka_spark.source_options import SubscribePattern, source_options

    reached = connection_options(endpoint.options)
    client = replace(reached.client, api_timeout_ms=min(reached.client.api_timeout_ms, ANSWER_MS))
    if endpoint.kind == "sink":
        sink_options(endpoint.options, streaming=True)
        connection(replace(reached, client=client))
        return []
    topics = source_options(endpoint.options, streaming=endpoint.kind == "stream").topics
    opened = connection(replace(reached, client=client))
    if isinstance(topics, SubscribePattern):
        return []
    return opened.run(find_partitions(opened.cluster, topics, patient=False)).missing
