"""Kafka's topics and log files as Spark's tables and streams, read and written in Python, with no JAR.

It works with kavka and with Apache Kafka, through kavka's client. Spark finds the formats by the top-level modules
pyspark_kavka*; this package does the work.

    session, cores      a Spark session with the right settings; how many tasks run at the same time
    source, stream_source, sink    what Spark asks of a source, a stream and a sink
    options, source_options, sink_options    what their options mean
    jvm_sockets, worker_garbage    a worker acknowledges at once what Spark sends it, and does not look through what it
                        has loaded for garbage
    errors, plain_errors    what can go wrong, with topic, partition and offset; how Spark shows it
    missing_rights      which rights a query needs

    From topics to rows
    offsets             topics, timestamps and JSON as offsets
    filter_bounds, push_down   filters that reach the source
    read_tasks, trigger_limits    ranges as tasks; how far a micro-batch goes
    reader, connections    a range read, whoever leads; a worker's connections
    first_contact       how long a cluster is looked for, and what is said where there is none
    backfill            ranges before a stream's beginning
    lag                 how far a query is behind
    batch_walk, decoder    batches that a reader sees; their records as Arrow columns
    record_fields, chunk, gather, columns, batch_columns    the parts of the decoder
    plain_decoder       one record at a time, and what is wrong with it

    From rows to topics
    sink_schema         which column becomes which part of a record
    writer, deliveries  a task; what became of its batches
    row_encoder, key_partitions, encoder    rows as batches of partitions
    stable              the same rows in the same tasks
    exactly_once, markers, marker_topic   each micro-batch once
    writer_layouts, layout_settlement    how many tasks write, and how that may change

    Records with schemas
    registry            columns of a schema registry's types, and back
    schema_types        Avro's types as Spark's
    schema_decoder, schema_encoder    what a worker does

    lakehouse/          topics as Delta and Iceberg tables

    Rows that must hold
    expectations        what must hold for a flow's rows, and where the others go
    stream_plans        the steps of a frame's plan

    Log files
    log_format          the format and its options
    log_segments, log_filters    which files and pieces
    log_scan, log_batches, log_transactions    batches and damage; a row per batch; aborted or not

    doctor, trial       is this machine ready for Spark?
    recovery            how far a query has come that was killed, and how it goes on
    pipelines/          pipelines on Spark Declarative Pipelines

    from kavka_spark import session

    spark = session("orders")
    spark.read.format("kavka").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()
"""

from kavka_spark.expectations import DeadLetterTopic, expect
from kavka_spark.session import session
from kavka_spark.stable import stable

__all__ = ["DeadLetterTopic", "expect", "session", "stable"]
