"""What the sink's options mean, which are refused, and what is said of a schema that does not fit."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kavka.errors import ConfigError
from kavka.records.compression import Compression
from kavka_spark.errors import SinkError
from kavka_spark.sink_options import DEFAULT_MARKER_TOPIC, SinkOptions, sink_options
from kavka_spark.sink_schema import SinkColumns, sink_columns

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def parsed(*, streaming: bool = True, **options: str) -> SinkOptions:
    named = {name.replace("__", "."): text for name, text in options.items()}
    return sink_options({"kafka.bootstrap.servers": "h:1", **named}, streaming=streaming)


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_a_producer_is_idempotent_without_options_and_obeys_those_it_is_given() -> None:
    usual = parsed(topic="t").producer
    assert (usual.acks, usual.idempotent, usual.compression) == (-1, True, Compression.NONE)
    given = parsed(
        topic="t",
        kafka__acks="1",
        kafka__enable__idempotence="false",
        kafka__compression__type="ZSTD",
        kafka__compression__zstd__level="7",
        kafka__batch__size="5000",
        kafka__delivery__timeout__ms="7000",
        kafka__linger__ms="100",
    ).producer
    assert (given.acks, given.idempotent, given.compression, given.compression_level) == (1, False, Compression.ZSTD, 7)
    assert (given.batch_size, given.delivery_timeout_ms) == (5000, 7000)


def test_spaces_around_a_topic_are_not_part_of_its_name() -> None:
    assert parsed(topic=" t ").topic == "t"


def test_names_are_taken_in_any_case_and_spark_s_own_are_passed_over() -> None:
    found = parsed(TOPIC="t", exactlyonce="TRUE", checkpointlocation="/c", queryName="q", includeHeaders="true")
    assert found.topic == "t"
    assert found.exactly_once is not None
    assert found.exactly_once.marker_topic == DEFAULT_MARKER_TOPIC


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topik": "t"}, "no option 'topik'; did you mean 'topic'"),
        ({"topic": " "}, "'topic' is empty"),
        ({"path": "/x"}, "has no path"),
        ({"kafka.transactional.id": "x"}, "set exactlyOnce to true"),
        ({"kafka.key.serializer": "x"}, "cast the column"),
        ({"kafka.acks": "2"}, "expected all, 1 or 0"),
        ({"kafka.compression.type": "rar"}, "expected none, gzip, snappy, lz4 or zstd"),
        ({"kafka.compression.type": "gzip", "kafka.compression.gzip.level": "best"}, "expected a whole number"),
        ({"kafka.compression.type": "gzip", "kafka.compression.gzip.level": "0"}, "expected 1 to 9"),
        ({"kafka.compression.type": "lz4", "kafka.compression.lz4.level": "99"}, "expected 1 to 17"),
        ({"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "23"}, "expected -131072 to 22"),
        ({"exactlyOnce": "yes"}, "expected true or false"),
        ({"exactlyOnceTopic": "m"}, "needs exactlyOnce=true"),
        ({"exactlyOnce": "true", "kafka.acks": "1"}, "exactlyOnce needs kafka.acks=all"),
        ({"exactlyOnce": "true", "kafka.enable.idempotence": "false"}, "needs kafka.enable.idempotence=true"),
        ({"exactlyOnce": "true", "exactlyOnceId": "x"}, "its checkpoint identifies a stream"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        sink_options({"kafka.bootstrap.servers": "h:1", **options}, streaming=True)


def test_a_batch_job_that_is_to_write_once_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="needs option 'exactlyOnceId'"):
        parsed(streaming=False, exactlyOnce="true")
    with pytest.raises(ConfigError, match="'exactlyOnceBatch' is '-1'"):
        parsed(streaming=False, exactlyOnce="true", exactlyOnceId="load", exactlyOnceBatch="-1")
    found = parsed(streaming=False, exactlyOnce="true", exactlyOnceId="load", exactlyOnceBatch="3").exactly_once
    assert found is not None
    assert (found.given_id, found.given_batch) == ("load", 3)


def test_columns_are_found_by_name_and_others_left_aside() -> None:
    found = sink_columns(
        schema(offset=LongType(), key=StringType(), value=BinaryType(), partition=IntegerType(), headers=HEADERS),
        parsed(topic="t"),
    )
    assert found == SinkColumns(value=2, key=1, topic=-1, partition=3, headers=4, timestamp=-1)
    capitals = ArrayType(StructType([StructField("Key", StringType()), StructField("VALUE", BinaryType())]))
    assert sink_columns(schema(value=BinaryType(), headers=capitals), parsed(topic="t")).headers == 1
    with_topic = schema(topic=StringType(), value=StringType(), timestamp=TimestampType())
    assert sink_columns(with_topic, parsed()).topic == 0
    assert sink_columns(with_topic, parsed(topic="t")).topic == -1  # the option decides, as in Spark's own sink
    assert sink_columns(with_topic, parsed(topic="t")).timestamp == -1
    assert sink_columns(with_topic, parsed(includeTimestamp="true")).timestamp == 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": LongType()}, r"no column 'value'; the columns are id\. Make one"),
        ({"Value": StringType()}, "did you mean 'Value'?"),
        ({"value": LongType()}, r"'value' is bigint, expected string or binary.*CAST\(value AS STRING\)"),
        ({"value": MapType(StringType(), StringType())}, r"to_json\(value\) AS value"),
        ({"value": StringType(), "key": IntegerType()}, r"CAST\(key AS STRING\) AS key"),
        ({"value": StringType(), "topics": StringType()}, "did you mean 'topics'?"),
        ({"value": StringType(), "topic": LongType()}, "'topic' is bigint, expected string"),
        (
            {"value": StringType(), "topic": StringType(), "partition": LongType()},
            "'partition' is bigint, expected int",
        ),
        ({"value": StringType(), "topic": StringType(), "headers": StringType()}, "expected array<struct<key:string,"),
    ],
)
def test_what_does_not_fit_is_said_with_how_to_mend_it(columns: dict[str, DataType], said: str) -> None:
    with pytest.raises(SinkError, match=said):
        sink_columns(schema(**columns), parsed())


def test_a_column_that_is_there_twice_is_refused() -> None:
    twice = StructType([StructField("value", StringType()), StructField("value", StringType())])
    with pytest.raises(SinkError, match="2 columns 'value'"):
        sink_columns(twice, parsed(topic="t"))


def test_a_timestamp_that_is_asked_for_must_be_there() -> None:
    with pytest.raises(SinkError, match="no column 'timestamp'"):
        sink_columns(schema(value=StringType()), parsed(topic="t", includeTimestamp="true"))


def test_gzips_own_level_is_that_of_no_option() -> None:
    own = parsed(topic="t", kafka__compression__type="gzip", kafka__compression__gzip__level="-1")
    assert own.producer.compression_level is None
