"""What keeps a pipeline from running that is found without a query: definitions that do not parse, brokers that do not
answer, topics that are not there.

Decides in which order it is asked, cheapest first: a JVM and a session take many seconds. What definitions mean, Spark
says afterwards; it must not know how a run goes on.

    before Spark        does each definition parse; does anybody listen at the brokers' addresses
    definitions loaded  do the brokers of each reader and sink answer, with its own options; in a check: are its topics
                        there

Only the beginning is asked about, for `ANSWER_S`: a query waits much longer for brokers that go away, and its flow is
tried again.

I1  A parse runs nothing of a definition.
I2  Before Spark brokers are asked only where a definition reads the setting that names them, and only whether they
    listen: which login they want is in the definitions.
I3  Topics are asked for only where a reader names them: a pattern may match nothing yet, and a sink's topic may be made
    by the broker (auto.create.topics.enable).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, Literal, NamedTuple

from pyspark.pipelines.output import Sink

from kavka.client.cluster import NoBrokerAnswers
from kavka.errors import ConfigError, ConnectionFailed, KavkaError
from kavka.network import Network
from kavka_spark.options import ConnectionOptions, connection_options
from kavka_spark.pipelines.definitions import Definitions, Place
from kavka_spark.pipelines.problems import BROKERS_NEXT, Problem, told
from kavka_spark.pipelines.progress import short_name
from kavka_spark.pipelines.spec import BOOTSTRAP, PipelineSpec
from kavka_spark.pipelines.sql_definitions import SqlProblem, sql_definitions

OURS: Final = "kavka"
ANSWER_S: Final = 10.0
"""How long brokers may take to answer: one that is being started again is there by then."""
AGAIN_S: Final = 0.2
NEAR: Final = 0.85
"""Above how much alike "kavka" and "kafka" are, which is a format, too."""


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
    """Why nobody can be reached where pipeline.yml says that brokers are; None also where no definition asks for them,
    and as soon as somebody listens at one of the addresses (I2)."""
    if not any(BOOTSTRAP in file.read_text(encoding="utf-8") for file in spec.files()):
        return None
    try:
        addresses = connection_options({"kafka.bootstrap.servers": spec.own.bootstrap}).bootstrap
    except ConfigError as error:
        return Problem(str(error), "write -b HOST:PORT, or kavka.bootstrap in pipeline.yml")
    failures = asyncio.run(_failures(addresses))
    return Problem(str(NoBrokerAnswers(failures)), BROKERS_NEXT) if failures else None


def endpoints_problem(spec: PipelineSpec, definitions: Definitions, *, with_topics: bool) -> Problem | None:
    """The first reader or sink of kavka's whose options are wrong or whose brokers do not answer, or, `with_topics`,
    whose topics are not there."""
    for endpoint in (*readers_in(definitions), *sinks_in(definitions)):
        place = definitions.place_of(endpoint.flow)
        problem = None
        if endpoint.format == OURS:
            problem = _asked(endpoint, spec, place, with_topics=with_topics)
        elif endpoint.kind == "sink":
            wrong = _wrong_sink(endpoint)
            problem = told(wrong, spec, place, endpoint.flow) if wrong else None
        if problem is not None:
            return problem
    return None


def readers_in(definitions: Definitions) -> Iterator[Endpoint]:
    """Each source that a flow reads, as far as flows have been planned."""
    for flow, steps in definitions.reads.items():
        for step in steps:
            if step.format:
                yield Endpoint(flow, "stream" if step.is_stream else "table", step.format, step.options)


def sinks_in(definitions: Definitions) -> Iterator[Endpoint]:
    """Each sink, under the name of a flow into it."""
    for flow in definitions.flows:
        output = definitions.outputs.get(short_name(flow.target))
        if isinstance(output, Sink):
            options = {name.lower(): text for name, text in output.options.items()}
            yield Endpoint(short_name(flow.name), "sink", output.format, options)


def reach(endpoint: Endpoint) -> None:
    """Raises `KavkaError` where its options are wrong, or its brokers do not answer in time."""
    from kavka_spark.connections import connection

    connection(_impatient(endpoint), begins=True)


def _asked(endpoint: Endpoint, spec: PipelineSpec, place: Place | None, *, with_topics: bool) -> Problem | None:
    try:
        reach(endpoint)
        missing = _missing_topics(endpoint) if with_topics and endpoint.kind != "sink" else []
    except (KavkaError, TimeoutError) as error:
        name = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        return told(str(error) or "no answer in time", spec, place, endpoint.flow, name=name)
    if not missing:
        return None
    problem = told(f"there is no topic {', '.join(map(repr, missing))}", spec, place, endpoint.flow)
    return replace(problem, next_step=f"kavka topics create {missing[0]}")


def _wrong_sink(endpoint: Endpoint) -> str:
    """What is wrong with a sink of another format than topics', which Spark asks for with its first rows only."""
    from kavka_spark.lakehouse.delta_format import DeltaFormat
    from kavka_spark.lakehouse.iceberg_format import IcebergFormat

    formats = {each.name(): each for each in (DeltaFormat, IcebergFormat)}
    if endpoint.format in formats:
        try:
            # Each flow has a checkpoint from the pipeline.
            formats[endpoint.format]({**endpoint.options, "checkpointlocation": "/"}).target(streaming=True)
        except ConfigError as error:
            return str(error)
        return ""
    near = get_close_matches(endpoint.format, (OURS, *formats), 1, NEAR)
    return f"there is no format {endpoint.format!r}; did you mean {near[0]!r}?" if near else ""


def _missing_topics(endpoint: Endpoint) -> list[str]:
    """Raises `KavkaError`."""
    from kavka_spark.connections import connection
    from kavka_spark.offsets import find_partitions
    from kavka_spark.source_options import SubscribePattern, source_options

    topics = source_options(endpoint.options, streaming=endpoint.kind == "stream").topics
    if isinstance(topics, SubscribePattern):
        return []
    opened = connection(_impatient(endpoint), begins=True)
    return opened.run(find_partitions(opened.cluster, topics, patient=False)).missing


def _impatient(endpoint: Endpoint) -> ConnectionOptions:
    """How its brokers are reached, within `ANSWER_S` for all of their addresses. Raises `ConfigError`."""
    from kavka_spark.sink_options import sink_options
    from kavka_spark.source_options import source_options

    if endpoint.kind == "sink":
        reached = sink_options(endpoint.options, streaming=True).connection
    else:
        reached = source_options(endpoint.options, streaming=endpoint.kind == "stream").connection
    client, answer_ms = reached.client, int(ANSWER_S * 1000)
    return replace(
        reached,
        first_contact_ms=min(reached.first_contact_ms, answer_ms),
        client=replace(
            client,
            api_timeout_ms=min(client.api_timeout_ms, answer_ms),
            request_timeout_ms=min(client.request_timeout_ms, answer_ms),
            connect_timeout_ms=min(client.connect_timeout_ms, answer_ms // len(reached.bootstrap)),
        ),
    )


async def _failures(addresses: Sequence[tuple[str, int]]) -> list[ConnectionFailed]:
    """Why nobody could be reached, the last failure of each address; empty as soon as one accepts a connection."""
    from kavka.runtime.network.client_network import client_network

    network = client_network(None, connect_timeout_s=ANSWER_S)
    deadline = asyncio.get_running_loop().time() + ANSWER_S
    trying = [asyncio.create_task(_tried(network, host, port, deadline)) for host, port in addresses]
    try:
        failures = []
        for ended in asyncio.as_completed(trying):
            failure = await ended
            if failure is None:
                return []
            failures.append(failure)
        return failures
    finally:
        for task in trying:
            task.cancel()


async def _tried(network: Network, host: str, port: int, deadline: float) -> ConnectionFailed | None:
    """Tries until a connection is accepted (None), or the time is over."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            (await network.connect(host, port)).close()
        except ConnectionFailed as caught:
            if loop.time() + AGAIN_S >= deadline:
                return caught
        else:
            return None
        await asyncio.sleep(AGAIN_S)
