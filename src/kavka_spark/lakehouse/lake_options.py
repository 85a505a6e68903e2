"""Options of the tables' formats.

Decides what their texts mean; an unknown one is refused. Must not know rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kavka.errors import ConfigError
from kavka_spark.lakehouse.layout import DEFAULT_BUCKETS, DEFAULT_FILE_BYTES
from kavka_spark.lakehouse.places import Place
from kavka_spark.options import boolean, check_names, positive_int

DEFAULT_WRITER_ID: Final = "kavka"
_NAMES: Final = (
    "checkpointLocation",
    "exactlyOnceBatch",
    "exactlyOnceId",
    "maxFileBytes",
    "mergeBuckets",
    "mergeKeys",
    "mergeSchema",
    "partitionBy",
    "queryName",
    "writerId",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOptions:
    """Options that every table format has."""

    writer_id: str = DEFAULT_WRITER_ID
    merge_schema: bool = False
    merge_keys: tuple[str, ...] = ()
    """Rows are changes, merged by these columns; none: rows are added."""
    merge_buckets: int = DEFAULT_BUCKETS
    partition_by: tuple[str, ...] | None = None
    """Of a table that does not exist yet; None: not given."""
    file_bytes: int = DEFAULT_FILE_BYTES
    checkpoint: str | None = None
    """Of a stream."""
    load_id: str | None = None
    """Of a batch job that may be run again."""
    load_number: int = 0


def check_source_names(given: Mapping[str, str], *own: str) -> None:
    """For a stream of changes, as `lake_options`."""
    left = {name: text for name, text in given.items() if name.partition(".")[0] not in own}
    check_names(left, ("startingVersion", "maxVersionsPerTrigger", *own), what="table")


def lake_options(given: Mapping[str, str], *own: str, streaming: bool) -> LakeOptions:
    """`own` are a format's own options, which the format reads; after a dot more may follow. Raises ConfigError."""
    options = {name.lower(): text for name, text in given.items()}
    left = {name: text for name, text in options.items() if name.partition(".")[0] not in own}
    check_names(left, (*_NAMES, *own), what="table")
    checkpoint = options.get("checkpointlocation")
    if streaming and not checkpoint:
        raise ConfigError(
            "option 'checkpointLocation' is missing: a table's commits hold the offsets that the checkpoint has. Give "
            "it to the query itself, not as a setting of the session"
        )
    load_id = options.get("exactlyonceid", "").strip() or None
    if streaming and (load_id or "exactlyoncebatch" in options):
        raise ConfigError(
            "options 'exactlyOnceId' and 'exactlyOnceBatch' are for batch jobs: its checkpoint identifies a stream"
        )
    if load_id is None and "exactlyoncebatch" in options:
        raise ConfigError("option 'exactlyOnceBatch' needs option 'exactlyOnceId'")
    number = options.get("exactlyoncebatch", "0").strip()
    if not number.isascii() or not number.isdigit():
        raise ConfigError(f"option 'exactlyOnceBatch' is {number!r}, expected a whole number, 0 or more")
    writer_id = options.get("writerid", DEFAULT_WRITER_ID).strip()
    if not writer_id or "/" in writer_id:
        raise ConfigError(f"option 'writerId' is {writer_id!r}, expected a name without '/'")
    merge_keys, partition_by = _columns(options, "mergeKeys"), _columns(options, "partitionBy")
    if merge_keys and partition_by:
        raise ConfigError("a table of merged changes is partitioned by its buckets: leave out option 'partitionBy'")
    return LakeOptions(
        writer_id=writer_id,
        merge_keys=merge_keys or (),
        merge_buckets=_buckets(options, merge_keys),
        merge_schema=boolean(options, "mergeschema", default=False),
        partition_by=partition_by,
        file_bytes=positive_int(options, "maxfilebytes") if "maxfilebytes" in options else DEFAULT_FILE_BYTES,
        checkpoint=Place.at(checkpoint).address if checkpoint else None,
        load_id=load_id,
        load_number=int(number),
    )


def _buckets(options: Mapping[str, str], merge_keys: tuple[str, ...] | None) -> int:
    if "mergebuckets" not in options:
        return DEFAULT_BUCKETS
    if not merge_keys:
        raise ConfigError("option 'mergeBuckets' needs option 'mergeKeys'")
    return positive_int(options, "mergebuckets")


def _columns(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    text = options.get(name.lower())
    if text is None:
        return None
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"option {name!r} is {text!r}, expected names of columns, separated by commas")
    return names
