"""stable: the same rows in the same tasks, on however many cores Spark runs.

Decides which task writes which row, and says so in a column that the sink checks. Spark plans another number of tasks
when the cores, the files or the shuffle's settings change, and tells a task neither that number nor what it was before.
So the number is the caller's, and it travels with the rows.

| bits of kavka_task | |
| 32 and up | the number of tasks |
| 0 to 31 | the task, which is Spark's partition id |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TASK_COLUMN: Final = "kavka_task"
TASK_BITS: Final = 32
MOST_WRITING_TASKS: Final = 1_000
"""A change of the number fences every task of the old one."""


def stable(df: DataFrame, tasks: int, *by: str | Column) -> DataFrame:
    """The rows of `df` in `tasks` tasks: which one depends on the row alone.

    Rows with equal values of the columns `by` are in one task. Without `by` the key decides, and the value of rows
    without one. Call it last: a step behind it that moves rows makes the sink refuse them. Rows of one key keep their
    order if they come from one task. It adds the column kavka_task, which is not written.
    In a flow of a pipeline name the columns: Spark does not let a flow ask which ones there are.

    Raises `ConfigError` for a number that is not 1 to 1,000, and if there is no column to decide by.
    """
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    if not 1 <= tasks <= MOST_WRITING_TASKS:
        raise ConfigError(f"stable(df, {tasks}): expected 1 to {MOST_WRITING_TASKS} tasks")
    if not by and "value" not in df.columns:
        raise ConfigError("stable(df, tasks) needs a column 'value', or names of columns behind the number of tasks")
    if by:
        row_hash = F.xxhash64(*by)
    elif "key" in df.columns:
        row_hash = F.when(F.col("key").isNotNull(), F.xxhash64("key")).otherwise(F.xxhash64("value"))
    else:
        row_hash = F.xxhash64("value")
    task = F.lit(tasks << TASK_BITS) + F.pmod(row_hash, F.lit(tasks))
    placed = df.withColumn(TASK_COLUMN, task)
    return placed.repartitionById(tasks, F.pmod(F.col(TASK_COLUMN), F.lit(tasks)).cast("int"))
