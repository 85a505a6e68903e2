"""Layout: what a task must know of a table to write files for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.lakehouse.places import Place

DEFAULT_FILE_BYTES: Final = 128 * 1024 * 1024


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

    @property
    def file_columns(self) -> pa.Schema:
        return pa.schema([each for each in self.columns if each.name not in self.left_out])

    def check_same(self, now: Layout) -> None:
        """Raises TableRefused where files that were written for this layout are none of the table as it is now."""
        changed = None
        there = {each.name: each.type for each in now.columns}
        if self.table_id != now.table_id:
            changed = "it was replaced by another table"
        elif self.partition_by != now.partition_by:
            changed = f"it is partitioned by {', '.join(now.partition_by) or 'nothing'} now"
        else:
            for each in self.columns:
                if not each.type.equals(there.get(each.name)):
                    changed = f"its column {each.name!r} is {there.get(each.name, 'gone')} now, and was {each.type}"
        if changed is not None:
            raise TableRefused(
                f"the table at {self.place.address} was changed while a batch was written: {changed}. Nothing was "
                "committed; start the query again, and it writes the batch for the table as it is"
            )
