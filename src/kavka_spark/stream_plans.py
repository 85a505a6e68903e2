"""What a frame's plan reads and does, of Spark Connect's frames and of classic ones.

Decides nothing: it gives the steps of a plan as values, without asking Spark to analyze anything that a flow of a
pipeline may not have analyzed. Plans of both kinds are internal to Spark; tests pin what is used of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kavka.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CONNECT: Final = "spark.connect."
MOST_STEPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Step:
    """One node. `options` are those of a source, by lower-case names."""

    name: str
    is_stream: bool = False
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    is_opaque: bool = False
    """A text of SQL, whose plan only Spark knows."""
    query: str = ""
    """That text."""
    table: str = ""
    """The table that is read, if it is read by name."""


def require_frame(made: Any, flow: str) -> DataFrame:
    """What a flow's function returned, if it is a frame. Raises ConfigError."""
    from pyspark.sql import DataFrame

    if isinstance(made, DataFrame):
        return made
    what = type(made).__name__
    hint = "does it end with .load()?" if "Reader" in what else "does it end with `return ...`?"
    raise ConfigError(
        f"the function of {flow} returned {'None' if made is None else f'a {what}'}, no DataFrame: {hint}"
    )


def nodes(frame: DataFrame) -> Iterator[Step]:
    """Every step of a frame's plan, in no order."""
    plan: Any = getattr(frame, "_plan", None)
    if plan is not None:
        session: Any = frame._session
        yield from _of_message(plan.plan(session.client))
        return
    classic: Any = frame
    yield from _of_tree(classic._jdf.queryExecution().analyzed())


def set_options(frame: DataFrame, source: str, options: Mapping[str, str]) -> None:
    """Gives options to every stream of a format that a frame of Spark Connect's reads."""
    from pyspark.sql.connect.plan import DataSource, LogicalPlan

    connect: Any = frame
    todo: list[Any] = [connect._plan]
    for _ in range(MOST_STEPS):
        if not todo:
            return
        plan = todo.pop()
        if isinstance(plan, DataSource) and plan._is_streaming and plan._format == source:
            plan._options = {**(plan._options or {}), **options}
        for value in vars(plan).values():
            todo += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, LogicalPlan)]


class _Renamed:
    """A frame of Spark Connect's as SDP's registry asks it for its plan, and nothing else."""

    def __init__(self, frame: Any, names: Mapping[str, str]) -> None:
        self._frame = frame
        self._names = names

    @property
    def _plan(self) -> _Renamed:
        return self

    def plan(self, client: object) -> Any:
        message = self._frame._plan.plan(client)
        _rename(message, self._names)
        return message


def rename_tables(frame: DataFrame, names: Mapping[str, str]) -> Any:
    """The frame for SDP's registry, with other names for the tables that it reads."""
    return _Renamed(frame, names)


def _rename(message: Any, names: Mapping[str, str]) -> None:
    if message.DESCRIPTOR.full_name == f"{_CONNECT}Read.NamedTable":
        message.unparsed_identifier = names.get(message.unparsed_identifier, message.unparsed_identifier)
    for inner in _inner(message):
        _rename(inner, names)


def _inner(message: Any) -> Iterator[Any]:
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None and not descriptor.message_type.GetOptions().map_entry:
            yield from (value,) if hasattr(value, "DESCRIPTOR") else value


def _of_message(message: Any) -> Iterator[Step]:
    name = message.DESCRIPTOR.full_name.removeprefix(_CONNECT)
    if name == "Read":
        source = message.data_source
        options = {each.lower(): text for each, text in source.options.items()}
        table = message.named_table.unparsed_identifier
        yield Step(name, bool(message.is_streaming), source.format, options, table=table)
    elif message.DESCRIPTOR.full_name.startswith(_CONNECT) and not name.startswith(("Relation", "Plan", "Expression")):
        is_sql = name == "SQL"
        yield Step(name, is_opaque=is_sql, query=message.query if is_sql else "")
    for inner in _inner(message):
        yield from _of_message(inner)


def _of_tree(plan: Any) -> Iterator[Step]:
    todo = [plan]
    for _ in range(MOST_STEPS):
        if not todo:
            return
        step = todo.pop()
        name = step.getClass().getSimpleName()
        if name.startswith("StreamingRelation"):
            yield Step(name, is_stream=True, **_source(step))
        elif name == "SubqueryAlias" and step.identifier().qualifier().length():
            yield Step(name, table=step.identifier().toString())  # An alias of the user's has no qualifier.
        else:
            yield Step(name)
        for inner in (step.children(), step.subqueries()):
            todo += [inner.apply(number) for number in range(inner.length())]


def _source(relation: Any) -> dict[str, Any]:
    """Format and options of a stream's relation, where it has them."""
    names = [relation.productElementName(number) for number in range(relation.productArity())]
    if "extraOptions" not in names:
        return {}
    pairs = relation.extraOptions().asCaseSensitiveMap()
    return {"format": str(relation.sourceName()), "options": {str(key).lower(): str(pairs[key]) for key in pairs}}
