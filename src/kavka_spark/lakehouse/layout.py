"""Layout: what a task must know of a table to write files for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.lakehouse.places import Place

DEFAULT_FILE_BYTES: Final = 128 * 1024 * 1024

DEFAULT_BUCKETS: Final = 8
Partition: TypeAlias = tuple[tuple[str, Any], ...]
"""Names and values of what a file is partitioned by: a table may have been partitioned otherwise then."""

FIELD_ID: Final = b"PARQUET:field_id"

BUCKET_COLUMN: Final = "kavka_bucket"
"""By which a table of merged changes is partitioned."""
MERGE_KEYS, MERGE_BUCKETS = "kavka.mergeKeys", "kavka.mergeBuckets"
"""Properties of such a table."""


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """How changes are merged: by which columns, and which files each bucket has."""

    keys: tuple[str, ...]
    buckets: int
    files: Mapping[int, tuple[str, ...]]


def merge_properties(keys: tuple[str, ...], buckets: int) -> dict[str, str]:
    """What a table says of how changes are merged into it, from when it is made."""
    return {MERGE_KEYS: ",".join(keys), MERGE_BUCKETS: str(buckets)} if keys else {}


def check_merge(found: Mapping[str, str], keys: tuple[str, ...], buckets: int, table: str) -> None:
    """Whether the table with these properties is one for changes by `keys`. Raises TableRefused."""
    there = found.get(MERGE_KEYS)
    if there is None and keys:
        raise TableRefused(
            f"{table} was not made for changes, so its rows are in no buckets: write changes to another table, which "
            "the first batch makes"
        )
    if there is not None and ",".join(keys) != there:
        raise TableRefused(f"{table} merges changes by {there}: set option mergeKeys to {there!r}")
    if keys and found.get(MERGE_BUCKETS) != str(buckets):
        count = found.get(MERGE_BUCKETS)
        raise TableRefused(
            f"{table} has {count} buckets: set option mergeBuckets to {count}, and buckets={count} where the changes "
            "are made. The number cannot change, for rows would be in another bucket than before"
        )


def check_buckets(there: Sequence[str], keys: tuple[str, ...], table: str) -> None:
    """Whether a table of merged changes is partitioned by its buckets still. Raises TableRefused."""
    if keys and list(there) != [BUCKET_COLUMN]:
        raise TableRefused(
            f"{table} is partitioned by {', '.join(there) or 'nothing'}, and changes are merged by {BUCKET_COLUMN}: "
            f"partition it by {BUCKET_COLUMN} again, or write the changes to another table"
        )


def check_partition(there: Sequence[str], wanted: Sequence[str] | None, table: str) -> None:
    """Whether the table is partitioned as option partitionBy says, if it is given. Raises TableRefused."""
    if wanted is not None and list(wanted) != list(there):
        raise TableRefused(
            f"{table} is partitioned by {', '.join(there) or 'nothing'}, and option 'partitionBy' is "
            f"{','.join(wanted)!r}: leave it out, or write to another table"
        )


@dataclass(frozen=True, kw_only=True)
class Layout:
    """`table_id` tells the table from a later one at the same place. `columns` are the table's, in its order and types;
    those that may not be null say so. Files have all of them but those in `left_out`."""

    place: Place
    table_id: str
    columns: pa.Schema
    partition_by: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    file_bytes: int = DEFAULT_FILE_BYTES
    merge: MergePlan | None = None
    """None: rows are added."""

    def without_files(self) -> Layout:
        """What a task reports back: without the names of all files."""
        return self if self.merge is None else replace(self, merge=replace(self.merge, files={}))

    @property
    def file_columns(self) -> pa.Schema:
        return pa.schema([each for each in self.columns if each.name not in self.left_out])

    def check_same(self, now: Layout) -> None:
        """Raises TableRefused where files that were written for this layout are none of the table as it is now."""
        changed = None
        there = {each.name: each for each in now.columns}
        if self.table_id != now.table_id:
            changed = "it was replaced by another table"
        elif self.partition_by != now.partition_by:
            changed = f"it is partitioned by {', '.join(now.partition_by) or 'nothing'} now"
        else:
            for each in self.columns:
                found = there.get(each.name)
                if found is None or not each.type.equals(found.type):
                    kind = "gone" if found is None else found.type
                    changed = f"its column {each.name!r} is {kind} now, and was {each.type}"
                elif field_ids(each) != field_ids(found):
                    # Readers would look for the present one in the files, by its id, and find nothing.
                    changed = f"its column {each.name!r} is another column of that name now"
        if changed is not None:
            raise TableRefused(
                f"the table at {self.place.address} was changed while a batch was written: {changed}. Nothing was "
                "committed; start the query again, and it writes the batch for the table as it is"
            )


def field_id(field: pa.Field) -> bytes | None:
    """By which Iceberg tells a column from another of its name; None in a Delta table."""
    found: bytes | None = (field.metadata or {}).get(FIELD_ID)
    return found


def field_ids(field: pa.Field) -> list[bytes | None]:
    """Its id, and those of the fields inside."""
    kind = field.type
    inside = [kind.field(at) for at in range(kind.num_fields)]
    return [field_id(field), *(found for each in inside for found in field_ids(each))]
