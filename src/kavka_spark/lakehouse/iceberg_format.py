"""format("kavka-iceberg"): rows into an Iceberg table.

Decides what is asked of Spark's options before a catalog is asked. It is imported in every Python process that looks
for formats: it imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.errors import ConfigError
from kavka.installation import install_command
from kavka_spark.lakehouse.table_format import TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from kavka_spark.lakehouse.iceberg_table import IcebergTable
    from kavka_spark.lakehouse.lake_options import LakeOptions
    from kavka_spark.lakehouse.table import Table

CATALOG: Final = "catalog"
DEFAULT_CATALOG: Final = "default"


class IcebergFormat(TableFormat):
    """Iceberg tables as Spark sees them: a sink."""

    @classmethod
    def name(cls) -> str:
        return "kavka-iceberg"

    def target(self, *, streaming: bool) -> IcebergTarget:
        from kavka_spark.lakehouse.lake_options import lake_options

        return self._of(lake_options(self.given, "table", CATALOG, "path", streaming=streaming))

    def source(self) -> IcebergTarget:
        from kavka_spark.lakehouse.lake_options import LakeOptions, check_source_names

        check_source_names(self.given, "table", CATALOG, "path")
        return self._of(LakeOptions())

    def _of(self, options: LakeOptions) -> IcebergTarget:
        table = self.given.get("table", "").strip() or self.given.get("path", "").strip()
        if not all(table.split(".")) or "." not in table or "/" in table:
            raise ConfigError(
                f"an Iceberg table has a name with its namespace, found {table!r}: name it with option 'table', for "
                "example shop.orders"
            )
        properties = {
            name[len(CATALOG) + 1 :]: text for name, text in self.given.items() if name.startswith(f"{CATALOG}.")
        }
        return IcebergTarget(
            table, self.given.get(CATALOG, DEFAULT_CATALOG), tuple(sorted(properties.items())), options
        )


@dataclass(frozen=True)
class IcebergTarget:
    """Which table of which catalog, and how. It travels to tasks, which need no PyIceberg."""

    table: str
    catalog: str
    properties: tuple[tuple[str, str], ...]
    options: LakeOptions

    def __call__(self, columns: pa.Schema) -> Table:
        from kavka_spark.lakehouse.table import made_ready

        code = _code()
        return made_ready(lambda: code.prepare(self.table, self.catalog, dict(self.properties), columns, self.options))

    def existing(self) -> Table:
        """The table as it is. Raises TableRefused if there is none."""
        return _code().existing(self.table, self.catalog, dict(self.properties), self.options)


def _code() -> type[IcebergTable]:
    try:
        from kavka_spark.lakehouse.iceberg_table import IcebergTable
    except ModuleNotFoundError as missing:
        if missing.name != "pyiceberg":
            raise
        raise ConfigError(f"Iceberg tables need the package pyiceberg: {install_command('iceberg')}") from missing
    return IcebergTable
