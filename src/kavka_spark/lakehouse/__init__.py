"""Topics as Delta and Iceberg tables: Spark's tasks write Parquet files, and one commit per micro-batch adds them.

No row passes through the driver. The commit also holds the query, the number of the batch and the offsets that the
batch read, so the table itself tells what it has: a batch that comes again is left out, and offsets that do not follow
on those in the table are refused.

    delta_format, iceberg_format    format("kavka-delta") and format("kavka-iceberg") as Spark sees them
    table_format            what both have in common
    lake_sink               tasks, and the commit of a batch
    lake_options, places    options; paths and addresses
    batch                   which rows a micro-batch has, out of Spark's checkpoint
    progress                whether a batch may be committed, is there already, or is refused (pure)
    evolution               which rows fit into which table, and how it may change (pure)
    layout, data_files      what tasks must know of a table; rows as Parquet files
    table                   what a table format must be able to do
    delta_table             Delta, by delta-rs
    delta_log_actions       values of Delta's log: statistics and partitions (pure)
    iceberg_table           Iceberg, by PyIceberg
    changes                 changes of rows, out of Debezium's envelope
    merging                 a task's changes into its part of a table
    stored_files            a table's files, read with its columns
    table_stream, table_changes    a table's changes as a stream; a task's part of it
    handles                 a table for its users: its batches, and which version has an offset
    compaction              small files as few large ones
    errors                  what is refused, and the way out
"""
