"""Tables in a store with Amazon S3's interface: what holds on a disk holds there, and Spark's tasks write to it.

The tests of batches and of merged changes, Delta and Iceberg, with the table in the store, and a stream that has its
checkpoint there as well, by Hadoop's connector with the settings of docs/lakehouse.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kavka_spark import session
from kavka_spark.lakehouse.handles import delta_table
from kavka_spark.lakehouse.places import Place
from tests.apache_kafka import PeerMissing
from tests.integration.documentation.page import PROJECT, shown
from tests.kit.kavka_process import KavkaProcess
from tests.kit.lake_case import DeltaLake, IcebergLake, Lake
from tests.kit.object_store import ObjectStore
from tests.kit.spark_job import SMALL, JobFailed, SparkJob
from tests.kit.topic_contents import create, fill
from tests.unit.spark.lakehouse.test_batches import (  # noqa: F401  # collected here, with the fixture `lake` below
    case,
    test_a_batch_without_rows_counts,
    test_a_driver_that_died_after_the_commit_leaves_the_batch_out_and_its_new_files_too,
    test_a_driver_that_died_between_files_and_commit_writes_the_batch_again,
    test_a_new_checkpoint_that_begins_where_the_table_ends_goes_on,
    test_a_new_column_needs_merge_schema,
    test_a_table_that_went_back_to_an_earlier_version_is_refused_and_goes_on_from_there,
    test_appends_of_others_are_no_obstacle,
    test_batches_add_up_and_each_is_one_commit,
    test_of_two_drivers_that_commit_the_same_batch_one_does,
)
from tests.unit.spark.lakehouse.test_merging import (  # noqa: F401  # as above
    test_a_bucket_that_changed_while_the_batch_was_written_is_refused,
    test_a_key_has_one_row_with_its_last_name_and_none_once_it_is_deleted,
    test_files_without_a_changed_key_stay,
)

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

BUCKET, ROWS = "lake", 2_000
JOB = Path(__file__).with_name("table_job.py")
OF_THE_JOB = 300
WITHOUT_THE_BUNDLE = {
    "spark.jars.packages": ",".join(
        (
            "org.apache.hadoop:hadoop-aws:3.5.0",
            *(f"software.amazon.awssdk:{name}:2.35.4" for name in ("s3-transfer-manager", "sts", "apache-client")),
        )
    ),
    "spark.jars.excludes": "software.amazon.awssdk:bundle,org.slf4j:slf4j-api",
}
"""What hadoop-aws calls of Amazon's SDK: 19 MB in place of 600."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    try:
        found = ObjectStore(BUCKET, tmp_path_factory.mktemp("store") / "moto.log")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, store: ObjectStore, tmp_path: Path) -> Lake:
    place = f"s3://{store.bucket}/{tmp_path.name}"
    if request.param is DeltaLake:
        return DeltaLake(tmp_path, place)
    return IcebergLake(tmp_path, place, s3_endpoint=store.endpoint, s3_region="us-east-1")


def test_an_address_as_spark_needs_it_is_the_same_place(store: ObjectStore) -> None:
    files, path = Place.at(f"s3://{store.bucket}/checkpoint/offsets").open()
    with files.open_output_stream(f"{path}/0") as stream:
        stream.write(b"v1")
    assert Place.at(f"s3a://{store.bucket}/checkpoint").read("offsets/0") == "v1"
    assert Place.at(f"s3a://{store.bucket}/checkpoint/").names("offsets") == ["0"]


def test_sparks_tasks_write_there_and_a_run_that_finds_nothing_adds_nothing(
    store: ObjectStore, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    create(kavka_broker.bootstrap, "stored", 2)
    for partition in range(2):
        fill(kavka_broker.bootstrap, "stored", partition, [b"%d" % number for number in range(partition, ROWS, 2)])
    path = f"s3://{store.bucket}/spark/table"
    spark = session("stores", **{**SMALL, "spark.master": "local[2]"})
    try:
        for _ in range(2):
            query = (
                spark.readStream.format("kavka")
                .option("kafka.bootstrap.servers", kavka_broker.bootstrap)
                .option("subscribe", "stored")
                .option("startingOffsets", "earliest")
                .option("maxOffsetsPerTrigger", "500")
                .load()
                .selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id", "partition", "offset")
                .writeStream.format("kavka-delta")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(path)
            )
            assert query.awaitTermination(300)
            assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == list(range(ROWS))
        assert len(delta_table(path).batches()) == 4
    finally:
        spark.stop()


def test_a_driver_that_is_killed_after_its_commit_goes_on_with_a_checkpoint_in_the_store(
    store: ObjectStore, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    """The table has the batch, and the checkpoint does not say that it is done."""
    create(kavka_broker.bootstrap, "kept-there", 2)
    for partition in range(2):
        numbers = range(partition, OF_THE_JOB, 2)
        fill(kavka_broker.bootstrap, "kept-there", partition, [b"%d" % number for number in numbers])
    settings = dict(
        line.split(None, 1)
        for line in shown(PROJECT / "docs" / "lakehouse.md", "spark.jars.packages").splitlines()
        if line and not line.startswith("#")
    )
    settings |= WITHOUT_THE_BUNDLE | {"spark.hadoop.fs.s3a.endpoint": store.endpoint}
    (tmp_path / "after-commit").touch()
    path = f"s3://{store.bucket}/kept-there/table"
    job = {
        "bootstrap": kavka_broker.bootstrap,
        "source": "kept-there",
        "format": "kavka-delta",
        "table": {"path": path},
        "checkpoint": f"s3a://{store.bucket}/kept-there/checkpoint",
        "rows_per_batch": 100,
        "hold": str(tmp_path),
        "conf": {**SMALL, "spark.master": "local[2]", **settings},
    }
    with SparkJob(JOB, job, tmp_path / "job.log") as running:
        running.start()
        try:
            running.wait_until("the commit", (tmp_path / "held").exists)
        except JobFailed as failed:
            if "unresolved dependency" in str(failed):
                pytest.skip("Hadoop's connector cannot be had here")
            raise
        assert DeltaTable(path).version() == 1
        assert running.kill(lambda found: True)
        (tmp_path / "after-commit").unlink()
        running.start()
        running.finish()
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == list(range(OF_THE_JOB))
    assert DeltaTable(path).version() == 3
    files, place = Place.at(job["checkpoint"]).open()
    with files.open_input_stream(f"{place}/offsets/0") as offsets:
        assert json.loads(offsets.readall().splitlines()[-1])["kept-there"] == {"0": 50, "1": 50}
