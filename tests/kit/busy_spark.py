"""A Spark on a busy machine: it gives the Python of a stream's source ten seconds to start, whatever its settings say.

A query that failed for nothing else is started again, as whoever watches over it would; on a free machine none is.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

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
