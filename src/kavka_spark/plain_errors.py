"""What a user of Spark sees of an error of kavka's: what it says, without the lines of kavka's own code.

Spark shows the traceback of a worker before the sentence that matters, also where an option is spelled wrongly. A
worker process ends with the exception that it reports, so it can hide the traceback of this one alone. Other exceptions
are shown as they are: those may be defects, in which the lines count. It must not import anything heavy.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kavka.errors import KavkaError
from kavka_spark.missing_rights import with_advice
from kavka_spark.worker_garbage import in_worker

Class = TypeVar("Class", bound=type)

SHOWN: Final = (
    "schema",
    "reader",
    "streamReader",
    "writer",
    "streamWriter",
    "pushFilters",
    "partitions",
    "read",
    "initialOffset",
    "prepareForTriggerAvailableNow",
    "latestOffset",
    "write",
    "commit",
    "abort",
)
"""What Spark calls of a source, a reader or a writer."""
_HIDE: Final = "SPARK_HIDE_TRACEBACK"


def with_plain_errors(given: Class) -> Class:
    """A class whose methods that Spark calls show errors of kavka's plainly."""
    for name in SHOWN:
        method = vars(given).get(name)
        if method is not None:
            setattr(given, name, _plain(method))
    return given


def or_refused(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """The reader, or one that refuses all with the error. Spark 4.3 hides an error of `streamReader` behind an
    UnboundLocalError of its own."""
    try:
        return make()
    except KavkaError as error:
        return RefusedStream(error)


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        with shown_plainly():
            result = method(*given, **named)
        return _each(result) if hasattr(result, "__next__") else result

    return call


def _each(rows: Iterator[Any]) -> Iterator[Any]:
    with shown_plainly():
        yield from rows


@contextmanager
def shown_plainly() -> Iterator[None]:
    """What is called in here shows errors of kavka's plainly."""
    try:
        yield
    except KavkaError as failure:
        if in_worker():
            os.environ[_HIDE] = "1"
        told = with_advice(failure)
        if told is failure:
            raise
        raise told from failure


@with_plain_errors
class RefusedStream(DataSourceStreamReader):
    """A stream that cannot begin."""

    def __init__(self, error: KavkaError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._error
