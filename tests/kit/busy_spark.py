"""A Spark on a busy machine: it gives the Python of a stream's source ten seconds to start, whatever its settings say.

A query that failed for nothing else is started again, as whoever watches over it would; on a free machine none is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from tests.kit.pipeline_project import PipelineProject, RunFailed

TOO_BUSY = "Python worker failed to connect back"
ATTEMPTS = 4


def drained(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query that `start` starts, when it has come to its end."""
    for _ in range(ATTEMPTS - 1):
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as failed:
            if TOO_BUSY not in str(failed):
                raise
        else:
            return query
    query = start()
    query.awaitTermination()
    return query


def running(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query that `start` starts, when it has read something."""
    for attempt in range(ATTEMPTS):
        query = start()
        while query.isActive and query.lastProgress is None:
            time.sleep(0.2)
        failed = query.exception()
        if failed is None:
            return query
        if attempt == ATTEMPTS - 1 or TOO_BUSY not in str(failed):
            raise failed
    raise AssertionError("unreachable")


def failure(start: Callable[[], StreamingQuery], timeout_s: float = 100.0) -> str:
    """What the query that `start` starts fails with."""
    said = ""
    for _ in range(ATTEMPTS):
        query = start()
        try:
            has_ended = query.awaitTermination(timeout_s)
        except StreamingQueryException as failed:
            said = str(failed)
            if TOO_BUSY not in said:
                return said
        else:
            raise AssertionError("the query came to its end" if has_ended else f"no failure within {timeout_s} s")
    return said


def completed(project: PipelineProject, *words: str, verb: str = "run") -> None:
    """A run of a pipeline that has to complete."""
    for attempt in range(ATTEMPTS):
        try:
            project.run(*words, verb=verb)
        except RunFailed as failed:
            if attempt == ATTEMPTS - 1 or TOO_BUSY not in str(failed):
                raise
        else:
            return
