"""format("kavka-delta"): rows into a Delta table.

Decides what is asked of Spark's options before a table is looked at. It is imported in every Python process that looks
for formats: it imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.errors import ConfigError
from kavka.installation import install_command
from kavka_spark.lakehouse.table_format import TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from kavka_spark.lakehouse.delta_table import DeltaLakeTable
    from kavka_spark.lakehouse.lake_options import LakeOptions
    from kavka_spark.lakehouse.places import Place
    from kavka_spark.lakehouse.table import Table


class DeltaFormat(TableFormat):
    """Delta tables as Spark sees them: a sink."""

    @classmethod
    def name(cls) -> str:
        return "kavka-delta"

    def target(self, *, streaming: bool) -> DeltaTarget:
        from kavka_spark.lakehouse.lake_options import lake_options

        return self._of(lake_options(self.given, "path", streaming=streaming))

    def source(self) -> DeltaTarget:
        from kavka_spark.lakehouse.lake_options import LakeOptions, check_source_names

        check_source_names(self.given, "path")
        return self._of(LakeOptions())

    def _of(self, options: LakeOptions) -> DeltaTarget:
        from kavka_spark.lakehouse.places import Place

        path = self.given.get("path", "").strip()
        if not path:
            raise ConfigError(
                "a Delta table has a path: name it with start(PATH), save(PATH), load(PATH) or option 'path'"
            )
        return DeltaTarget(Place.at(path), options)


@dataclass(frozen=True)
class DeltaTarget:
    """Which table, and how. It travels to tasks, which need no delta-rs."""

    place: Place
    options: LakeOptions

    def __call__(self, columns: pa.Schema) -> Table:
        from kavka_spark.lakehouse.table import made_ready

        code = _code()
        return made_ready(lambda: code.prepare(self.place, columns, self.options))

    def existing(self) -> Table:
        """The table as it is. Raises TableRefused if there is none."""
        return _code().existing(self.place, self.options)


def _code() -> type[DeltaLakeTable]:
    try:
        from kavka_spark.lakehouse.delta_table import DeltaLakeTable
    except ModuleNotFoundError as missing:
        if missing.name != "deltalake":
            raise
        raise ConfigError(f"Delta tables need the package deltalake: {install_command('delta')}") from missing
    return DeltaLakeTable
