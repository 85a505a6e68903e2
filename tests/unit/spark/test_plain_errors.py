"""What a worker of Spark's tells of an exception: PySpark formats it, the process is as its workers are."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.util import handle_worker_exception

from kavka.errors import ConfigError
from kavka_spark.errors import DataLossError
from kavka_spark.log_format import KavkaLogSource
from kavka_spark.plain_errors import RefusedStream, with_plain_errors
from kavka_spark.source import KavkaSource

HIDE = "SPARK_HIDE_TRACEBACK"


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    monkeypatch.setenv(HIDE, "")


@with_plain_errors
class Reader:
    def partitions(self) -> list[InputPartition]:
        raise ConfigError("so it is")

    def read(self, partition: InputPartition) -> Iterator[int]:
        yield 1
        if partition.value == "defect":
            raise ZeroDivisionError
        raise DataLossError("orders", 3, 17, 40, 90, "retention removed it")


def told(error: Exception) -> str:
    out = io.BytesIO()
    try:
        raise error
    except Exception as raised:
        handle_worker_exception(raised, out)
    return out.getvalue()[8:].decode()


@pytest.mark.usefixtures("worker")
def test_an_error_of_kavkas_is_told_without_kavkas_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        Reader().partitions()
    assert told(caught.value) == "kavka.errors.ConfigError: so it is\n"


@pytest.mark.usefixtures("worker")
def test_an_error_amid_the_rows_is_told_plainly_too() -> None:
    rows = Reader().read(InputPartition("lost"))
    assert next(rows) == 1
    with pytest.raises(DataLossError) as caught:
        next(rows)
    assert told(caught.value).startswith("kavka_spark.errors.DataLossError: orders-3: offset 17 is wanted")


@pytest.mark.usefixtures("worker")
def test_a_defect_is_told_with_its_lines() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(Reader().read(InputPartition("defect")))
    assert told(caught.value).startswith("Traceback (most recent call last):")


def test_another_process_than_a_worker_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)
    monkeypatch.delenv(HIDE, raising=False)
    with pytest.raises(ConfigError):
        Reader().partitions()
    assert HIDE not in os.environ


@pytest.mark.usefixtures("worker")
def test_a_stream_with_a_wrong_option_says_so_at_its_first_call() -> None:
    """Where streamReader raises, PySpark tells of an UnboundLocalError of its own."""
    source = KavkaSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribed": "t"})
    reader = pickle.loads(pickle.dumps(source.streamReader(None)))  # type: ignore[arg-type]
    assert isinstance(reader, RefusedStream)
    for call in (
        reader.initialOffset,
        lambda: reader.latestOffset({}, None),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(InputPartition(0)),
    ):
        with pytest.raises(ConfigError, match="did you mean 'subscribe'"):
            call()


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("source", [KavkaSource, KavkaLogSource])
def test_every_format_tells_plainly(source: type, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        source({"columns": "valu", "path": "/nowhere"}).schema()
    assert os.environ[HIDE] == "1"
