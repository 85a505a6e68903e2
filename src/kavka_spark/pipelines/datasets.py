"""Datasets: the topics and tables that a flow reads and writes, by the names that OpenLineage gives them.

Decides names only, from what definitions say. A temporary view is no dataset: who reads it reads what it reads.

    topic        namespace kafka://HOST:PORT (the first broker that is named), name the topic
    table        of Spark's own catalog: where its files are. namespace file, or scheme://authority; name the path
                 of another catalog: namespace the catalog, name DATABASE.TABLE

Source: OpenLineage's naming of datasets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlparse

from kavka.errors import ConfigError
from kavka_spark.pipelines import catalog
from kavka_spark.pipelines.progress import short_name
from kavka_spark.pipelines.sql_definitions import tables_read
from kavka_spark.source_options import Assign, Subscribe, SubscribePattern, source_options

if TYPE_CHECKING:
    from kavka_spark.pipelines.definitions import Definitions
    from kavka_spark.pipelines.spec import PipelineSpec
    from kavka_spark.stream_plans import Step

FORMATS: Final = ("kavka", "kafka")


class Dataset(NamedTuple):
    """A topic or a table."""

    namespace: str
    name: str


def topic_datasets(options: Mapping[str, str]) -> Iterator[Dataset]:
    """What a reader's or a sink's options name; a pattern counts as its text. Nothing of options that are wrong."""
    namespace = f"kafka://{options.get('kafka.bootstrap.servers', '').split(',')[0].strip()}"
    if "topic" in options:
        yield Dataset(namespace, options["topic"])
        return
    try:
        topics = source_options({**options, "kafka.bootstrap.servers": "localhost:9092"}, streaming=True).topics
    except ConfigError:
        return
    match topics:
        case Subscribe(names):
            yield from (Dataset(namespace, name) for name in names)
        case Assign(partitions):
            yield from (Dataset(namespace, name) for name in dict.fromkeys(each.topic for each in partitions))
        case SubscribePattern(pattern):
            yield Dataset(namespace, pattern)


def table_dataset(name: str, spec: PipelineSpec) -> Dataset:
    """A table by its name in a definition."""
    table = short_name(name.replace("`", ""))
    if spec.catalog not in (None, catalog.CATALOG) or not catalog.is_ours(spec):
        database = spec.database or catalog.DATABASE
        return Dataset(spec.catalog or catalog.CATALOG, table if "." in table else f"{database}.{table}")
    warehouse = urlparse(catalog.settings(spec)["spark.sql.warehouse.dir"])
    database, _, last = table.rpartition(".")
    database = database or spec.database or catalog.DATABASE
    folder = last if database == catalog.DATABASE else f"{database}.db/{last}"
    namespace = "file" if warehouse.scheme == "file" else f"{warehouse.scheme}://{warehouse.netloc}"
    return Dataset(namespace, f"{unquote(warehouse.path).rstrip('/')}/{folder}")


def datasets_of(
    definitions: Definitions, reads: Mapping[str, Iterable[Step]], spec: PipelineSpec
) -> list[dict[str, object]]:
    """For each flow that is no view's: flow, inputs and outputs. `reads` has the steps of each flow's plan."""
    inputs = {flow: list(_inputs(steps, spec)) for flow, steps in reads.items()}
    for each in definitions.sql:
        if each.definition.query:
            names = [name.replace("`", "") for name in tables_read(each.definition.query)]
            inputs[short_name(each.definition.name.replace("`", ""))] = [table_dataset(name, spec) for name in names]
    views = {
        table_dataset(place.target, spec): inputs.get(flow, [])
        for flow, place in definitions.places.items()
        if definitions.kind_of(place.target) == "temporary view"
    }
    return [
        {
            "flow": flow,
            "inputs": [list(each) for each in dict.fromkeys(_through(inputs.get(flow, []), views))],
            "outputs": [list(each) for each in _outputs(definitions, place.target, spec)],
        }
        for flow, place in definitions.places.items()
        if definitions.kind_of(place.target) != "temporary view"
    ]


def _inputs(steps: Iterable[Step], spec: PipelineSpec) -> Iterator[Dataset]:
    for step in steps:
        if step.table:
            yield table_dataset(step.table, spec)
        elif step.format in FORMATS:
            yield from topic_datasets(step.options)


def _through(inputs: Iterable[Dataset], views: Mapping[Dataset, list[Dataset]], depth: int = 0) -> Iterator[Dataset]:
    for each in inputs:
        if each in views and depth < len(views):
            yield from _through(views[each], views, depth + 1)
        else:
            yield each


def _outputs(definitions: Definitions, target: str, spec: PipelineSpec) -> Iterator[Dataset]:
    output = definitions.outputs.get(target)
    options = getattr(output, "options", None)
    if options is None:
        yield table_dataset(target, spec)
    elif getattr(output, "format", "") in FORMATS:
        yield from topic_datasets({name.lower(): text for name, text in options.items()})
