"""Sessions of users: a session ends when its user clicks nothing for a while, in the clicks' own time."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

spark = SparkSession.active()

# As types and not as DDL text: Spark would have its server parse a text, which it allows no flow of a pipeline.
SESSION = (
    T.StructType()
    .add("user", T.StringType())
    .add("began", T.TimestampType())
    .add("ended", T.TimestampType())
    .add("clicks", T.LongType())
)
STATE = T.StructType().add("began_ms", T.LongType()).add("last_ms", T.LongType()).add("clicks", T.LongType())


class Sessions(StatefulProcessor):
    """Keeps the session of each user that goes on, and a timer for its end.

    I1  A user has one timer at most: that of the last click.
    I2  Clicks come in any order; one that is older than what the watermark allows does not come at all.
    """

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._session = handle.getValueState("session", STATE)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,
    ) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for at_ms in sorted(int(at.timestamp() * 1000) for at in frame["at"]):
                yield from self._on_click(key[0], at_ms)
        _began_ms, last_ms, _clicks = self._session.get()
        for timer in self._handle.listTimers():
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(last_ms + self._gap_ms)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[pd.DataFrame]:
        yield self._row(key[0], self._session.get())
        self._session.clear()

    def close(self) -> None:
        """Nothing is held outside of the state."""

    def _on_click(self, user: str, at_ms: int) -> Iterator[pd.DataFrame]:
        if not self._session.exists():
            self._session.update((at_ms, at_ms, 1))
            return
        began_ms, last_ms, clicks = self._session.get()
        if at_ms - last_ms > self._gap_ms:
            yield self._row(user, (began_ms, last_ms, clicks))
            self._session.update((at_ms, at_ms, 1))
        else:
            self._session.update((min(began_ms, at_ms), max(last_ms, at_ms), clicks + 1))

    def _row(self, user: str, session: tuple[int, int, int]) -> pd.DataFrame:
        began_ms, last_ms, clicks = session
        return pd.DataFrame(
            {
                "user": [user],
                "began": [pd.Timestamp(began_ms, unit="ms", tz="UTC")],
                "ended": [pd.Timestamp(last_ms, unit="ms", tz="UTC")],
                "clicks": [clicks],
            }
        )


def _clicks() -> DataFrame:
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", spark.conf.get("spark.kavka.bootstrap.servers"))
        .option("subscribe", spark.conf.get("clicks.clicked"))
        .option("startingOffsets", "earliest")
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), "at TIMESTAMP, user STRING")
    return records.select(event.alias("event")).select("event.*").withWatermark("at", spark.conf.get("clicks.lateness"))


# Not within the flow: Spark is asked for the columns of what this is called on, which a flow may not do.
SESSIONS = (
    _clicks()
    .groupBy("user")
    .transformWithStateInPandas(
        statefulProcessor=Sessions(int(spark.conf.get("clicks.session_gap_ms"))),
        outputStructType=SESSION,
        outputMode="Append",
        timeMode="EventTime",
    )
)


@dp.table(comment="Sessions that are over")
def sessions() -> DataFrame:
    return SESSIONS
