"""An Iceberg table, by PyIceberg.

Decides how a batch is kept in an Iceberg table, and which tables are refused. Rows are the tasks' business.

    summary of a snapshot   "kavka" = the batch with its offsets, as JSON
    property of the table   "kavka.query.QUERY-ID" = the same, for when snapshots have expired

Snapshots go with a rollback, properties do not. So the current snapshot and those before it count, and properties only
where the chain is cut because older ones have expired.

Invariants
  I1  A commit is made on the snapshot that was looked at, or not at all: PyIceberg's own retries, which would commit
      again without looking, are off. Every catalog compares the snapshot, or the whole metadata, when it commits.
  I2  The table is made, and columns are added, before tasks write: both may be done twice.

Source: the Iceberg table specification; PyIceberg.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import Table as Opened
from pyiceberg.table import TableProperties
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of
from pyiceberg.transforms import IdentityTransform

from kavka.model import TopicPartition
from kavka_spark.lakehouse.batch import Batch
from kavka_spark.lakehouse.data_files import WrittenFile
from kavka_spark.lakehouse.errors import CommitConflict, SchemaRefused, TableRefused, stored
from kavka_spark.lakehouse.evolution import check_names, evolve, plain_schema, plain_type
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.layout import BUCKET_COLUMN, Layout, Partition, merge_properties
from kavka_spark.lakehouse.places import Place
from kavka_spark.lakehouse.progress import Held
from kavka_spark.lakehouse.table import MARK, TableFile, check_options, filled_in_of, mark_of, merge_plan
from kavka_spark.lakehouse.table_changes import ChangedFile, CommitFiles

QUERY: Final = f"{MARK}.query."
"""What the names of the table's properties begin with."""
TURN: Final = "turn"
"""In a property: which of several queries committed later. The numbers of their batches do not tell."""
SAME_ROWS: Final = f"{MARK}.same-rows"
"""In the summary of a snapshot that only rearranges files: PyIceberg's overwrite does not call itself a replacement."""
NEWEST_FORMAT: Final = 2


class IcebergTable:
    """See `table.Table`."""

    def __init__(self, opened: Opened, options: LakeOptions) -> None:
        self._opened, self._options = opened, options
        base = opened.properties.get(TableProperties.WRITE_DATA_PATH, f"{opened.location()}/data")
        self._base = base.rstrip("/")
        self._layout = Layout(
            place=Place.of_location(self._base),
            table_id=str(opened.metadata.table_uuid),
            columns=_file_columns(opened),
            partition_by=tuple(field.name for field in opened.spec().fields),
            file_bytes=options.file_bytes,
        )
        if options.merge_keys:
            self._layout = replace(self._layout, merge=merge_plan(options, self.files()))

    @classmethod
    def prepare(
        cls, name: str, catalog: str, properties: Mapping[str, str], rows: pa.Schema, options: LakeOptions
    ) -> IcebergTable:
        """The table, made if there is none, with all columns that the rows have (I2). Raises SchemaRefused,
        TableRefused, StoreFailed, and CommitConflict where somebody else has changed it meanwhile."""
        found = _catalog(catalog, properties)
        opened = _open(found, name)
        if opened is None:
            _create(found, name, rows, options)
            opened = found.load_table(name)
        _check(opened, name, options)
        change = evolve(
            plain_schema(schema_to_pyarrow(opened.schema())),
            rows,
            name=name,
            merge=options.merge_schema,
            may_widen=True,
        )
        if change:
            with (
                stored(f"the columns of the Iceberg table {name} cannot be changed", Exception),
                _or_conflict(name),
                opened.update_schema() as update,
            ):
                update.union_by_name(pa.schema([*change.added, *change.widened]))
        return cls(opened, options)

    @classmethod
    def existing(cls, name: str, catalog: str, properties: Mapping[str, str], options: LakeOptions) -> IcebergTable:
        """The table as it is. Raises TableRefused if there is none, or one that this code would harm."""
        opened = _open(_catalog(catalog, properties), name)
        if opened is None:
            raise TableRefused(f"the catalog {catalog!r} has no Iceberg table {name}")
        _check(opened, name, None)
        return cls(opened, options)

    @property
    def name(self) -> str:
        return ".".join(self._opened.name())

    @property
    def layout(self) -> Layout:
        return self._layout

    def held(self, batch: Batch, writer_id: str) -> Held:
        number, filled_in = None, None
        offsets: dict[TopicPartition, int] = {}
        topic_ids: dict[str, str] = {}
        firsts: dict[TopicPartition, int] = {}
        fillers: dict[TopicPartition, str] = {}
        for mark in self.marks:
            if number is None and mark["query"] == batch.query:
                number, filled_in = int(mark["batch"]), filled_in_of(mark)
            if mark["writer"] != writer_id:
                continue
            for topic, ends in mark["ends"].items():
                topic_id = mark["topicIds"].get(topic, "")
                topic_ids[topic] = topic_ids.get(topic) or topic_id
                if topic_id and topic_ids[topic] != topic_id:
                    continue  # A topic of the same name that there was before.
                first_of, filler_of = (mark.get(what, {}).get(topic, {}) for what in ("firsts", "fillers"))
                for partition, end in ends.items():
                    name = TopicPartition(topic, int(partition))
                    if name not in offsets:  # The latest mark carries on what those before it had noted.
                        offsets[name] = int(end)
                        if partition in first_of:
                            firsts[name] = int(first_of[partition])
                        if partition in filler_of:
                            fillers[name] = str(filler_of[partition])
        known_ids = {topic: topic_id for topic, topic_id in topic_ids.items() if topic_id}
        for topic in batch.topic_ids:
            if known_ids.get(topic, batch.topic_ids[topic]) != batch.topic_ids[topic]:
                offsets = {name: end for name, end in offsets.items() if name.topic != topic}
        return Held(
            number,
            {name: offsets[name] for name in batch.ends if name in offsets},
            known_ids,
            {name: firsts[name] for name in offsets if name in firsts},
            {name: fillers[name] for name in offsets if name in fillers},
            filled_in,
        )

    def append(
        self,
        files: Sequence[WrittenFile],
        batch: Batch | None,
        writer_id: str,
        removed: Sequence[str] = (),
        *,
        same_rows: bool = False,
    ) -> None:
        # A change of this object's metadata alone: no update of the table is made of it (I1).
        metadata = self._opened.metadata
        without_retries = {**metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        self._opened.metadata = metadata.model_copy(update={"properties": without_retries})
        transaction = self._opened.transaction()
        summary = {SAME_ROWS: "true"} if same_rows else {}
        if batch is not None:
            mark = json.dumps(mark_of(batch, writer_id), separators=(",", ":"))
            summary[MARK] = mark
            kept = json.dumps({**mark_of(batch, writer_id), TURN: self._next_turn()}, separators=(",", ":"))
            transaction.set_properties({f"{QUERY}{batch.query}": kept})
        update = transaction.update_snapshot(snapshot_properties=summary)
        failed = f"the commit to {self.name} failed"
        with stored(failed), update.overwrite() if removed else update.fast_append() as change:
            for path in removed:
                change.delete_data_file(self._files[path])
            for file in files:
                change.append_data_file(self._data_file(file))
        with stored(failed, Exception), _or_conflict(self.name):
            transaction.commit_transaction()

    def _data_file(self, file: WrittenFile) -> DataFile:
        opened = self._opened
        spec, schema = opened.spec(), opened.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=file.footer,
            stats_columns=compute_statistics_plan(schema, opened.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        values = [
            PartitionFieldValue(field=field, value=value)
            for field, value in zip(spec.fields, file.partition, strict=True)
        ]
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._base}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=PartitionKey(field_values=values, partition_spec=spec, schema=schema).partition,
            file_size_in_bytes=file.size_bytes,
            sort_order_id=None,
            spec_id=spec.spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def files(self) -> Mapping[str, TableFile]:
        return {path: TableFile(file.file_size_in_bytes, self._partition(file)) for path, file in self._files.items()}

    def properties(self) -> Mapping[str, str]:
        return dict(self._opened.properties)

    def versions(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in reversed(self._snapshots())]

    def reaches_back(self) -> bool:
        snapshots = self._snapshots()
        return not snapshots or _is_first(snapshots[-1])

    def files_of(self, version: int) -> CommitFiles:
        snapshot = self._opened.snapshot_by_id(version)
        if snapshot is None:
            raise TableRefused(f"the Iceberg table {self.name} no longer has snapshot {version}")
        summary = snapshot.summary
        if summary is not None and (
            summary.operation is Operation.REPLACE or SAME_ROWS in summary.additional_properties
        ):
            return CommitFiles(version)
        files: dict[ManifestEntryStatus, list[ChangedFile]] = {
            ManifestEntryStatus.ADDED: [],
            ManifestEntryStatus.DELETED: [],
        }
        for manifest in snapshot.manifests(self._opened.io):
            if manifest.added_snapshot_id != version:
                continue
            if manifest.content is ManifestContent.DELETES:
                raise TableRefused(f"snapshot {version} of {self.name} deletes rows beside its files")
            for entry in manifest.fetch_manifest_entry(self._opened.io, discard_deleted=False):
                if entry.status in files and entry.snapshot_id in (version, None):
                    files[entry.status].append(self._changed_file(entry.data_file))
        added, removed = files[ManifestEntryStatus.ADDED], files[ManifestEntryStatus.DELETED]
        return CommitFiles(version, tuple(added), tuple(removed))

    def _changed_file(self, file: DataFile) -> ChangedFile:
        if not file.file_path.startswith(f"{self._base}/"):
            raise TableRefused(f"{self.name} has a file at {file.file_path}, which is not below {self._base}")
        return ChangedFile(file.file_path.removeprefix(f"{self._base}/"), self._partition(file))

    def _partition(self, file: DataFile) -> Partition:
        """By what the table was partitioned when the file was written."""
        names = (field.name for field in self._opened.specs()[file.spec_id].fields)
        return tuple((name, file.partition[at]) for at, name in enumerate(names))

    def _snapshots(self) -> list[Snapshot]:
        return list(ancestors_of(self._opened.current_snapshot(), self._opened.metadata))

    def batch_marks(self) -> list[dict[str, Any]]:
        return [mark for mark in self.marks if "version" in mark]

    @cached_property
    def _files(self) -> dict[str, DataFile]:
        """By their paths below the layout's place."""
        found = {}
        for task in self._opened.scan().plan_files():
            path = task.file.file_path
            if task.delete_files or not path.startswith(f"{self._base}/"):
                problem = "rows that others deleted beside its files" if task.delete_files else f"a file at {path}"
                raise TableRefused(
                    f"the Iceberg table {self.name} has {problem}, which this code does not rewrite: let another "
                    "engine rewrite its data files first"
                )
            found[path.removeprefix(f"{self._base}/")] = task.file
        return found

    @cached_property
    def marks(self) -> list[dict[str, Any]]:
        """What commits say of their batches, the latest first; those of snapshots with its id."""
        opened = self._opened
        found, oldest = [], None
        for snapshot in ancestors_of(opened.current_snapshot(), opened.metadata):
            oldest = snapshot
            text = snapshot.summary.additional_properties.get(MARK) if snapshot.summary is not None else None
            if text is not None:
                found.append({**json.loads(text), "version": snapshot.snapshot_id})
        if oldest is not None and not _is_first(oldest):
            found += sorted(self._kept(), key=lambda mark: (-int(mark.get(TURN, 0)), -int(mark["batch"])))
        return found

    def _kept(self) -> list[dict[str, Any]]:
        """What properties say of each query's last batch."""
        return [json.loads(text) for name, text in self._opened.properties.items() if name.startswith(QUERY)]

    def _next_turn(self) -> int:
        return 1 + max((int(mark.get(TURN, 0)) for mark in self._kept()), default=0)


def _is_first(snapshot: Snapshot) -> bool:
    """Whether a snapshot without a known one before it is the table's first: PyIceberg's expiry takes the parent's id
    out of a snapshot whose parent it removes. Then there were files before those that it added."""
    if snapshot.parent_snapshot_id is not None:
        return False
    summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    total, added, deleted = (int(summary.get(f"{name}-data-files", 0)) for name in ("total", "added", "deleted"))
    return total == added and not deleted


def _file_columns(opened: Opened) -> pa.Schema:
    """As files have them: with Iceberg's ids of fields, in types that Spark's tasks have."""
    written = schema_to_pyarrow(opened.schema())
    return pa.schema([pa.field(each.name, _plain(each.type), each.nullable, each.metadata) for each in written])


def _plain(kind: pa.DataType) -> pa.DataType:
    """`plain_type`, with the ids inside."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type), each.nullable, each.metadata) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = kind.value_field
        return pa.list_(pa.field(inner.name, _plain(inner.type), inner.nullable, inner.metadata))
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(
            pa.field(key.name, _plain(key.type), key.nullable, key.metadata),
            pa.field(item.name, _plain(item.type), item.nullable, item.metadata),
        )
    return plain_type(kind)


def _catalog(catalog: str, properties: Mapping[str, str]) -> Catalog:
    try:
        return load_catalog(catalog, **dict(properties))
    except Exception as failure:  # what a catalog raises is its own
        raise TableRefused(
            f"the Iceberg catalog {catalog!r} cannot be opened: {failure}. Give its settings as options "
            "'catalog.type', 'catalog.uri', 'catalog.warehouse', ..., or in .pyiceberg.yaml"
        ) from failure


def _open(catalog: Catalog, name: str) -> Opened | None:
    try:
        return catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def _create(catalog: Catalog, name: str, rows: pa.Schema, options: LakeOptions) -> None:
    check_names(rows.names, name)
    for column in options.partition_by or ():
        if column not in rows.names:
            raise SchemaRefused(f"option 'partitionBy' names {column!r}, and the rows have {', '.join(rows.names)}")
        if pa.types.is_nested(rows.field(column).type) or pa.types.is_floating(rows.field(column).type):
            raise SchemaRefused(f"a table cannot be partitioned by {column!r} of the type {rows.field(column).type}")
    with stored(f"no Iceberg table {name} can be made", Exception), _or_conflict(name):
        _create_empty(catalog, name, rows, options)


def _create_empty(catalog: Catalog, name: str, rows: pa.Schema, options: LakeOptions) -> None:
    columns = pa.schema([pa.field(each.name, _wide_enough(each.type)) for each in rows])
    try:
        catalog.create_namespace(name.rpartition(".")[0])
    except NamespaceAlreadyExistsError:
        pass
    try:
        properties = merge_properties(options.merge_keys, options.merge_buckets)
        with (
            catalog.create_table_transaction(name, columns, properties=properties) as made,
            made.update_spec() as spec,
        ):
            for column in (BUCKET_COLUMN,) if options.merge_keys else options.partition_by or ():
                spec.add_field(column, IdentityTransform(), column)
    except TableAlreadyExistsError:
        pass  # Another process was faster.
    except (ValueError, TypeError) as failure:
        raise SchemaRefused(f"the rows have a type that Iceberg does not have: {failure}") from failure


@contextmanager
def _or_conflict(name: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedException as failure:
        raise CommitConflict(f"{name}: {failure}") from failure


def _wide_enough(kind: pa.DataType) -> pa.DataType:
    """Iceberg has no integers below 32 bits."""
    return pa.int32() if kind in (pa.int8(), pa.int16()) else kind


def _check(opened: Opened, name: str, options: LakeOptions | None) -> None:
    """Raises TableRefused for tables that files would not fit into, or, with options, that are not as they say."""
    if opened.format_version > NEWEST_FORMAT:
        raise TableRefused(
            f"the Iceberg table {name} has the format version {opened.format_version}, and this sink writes versions 1 "
            f"and {NEWEST_FORMAT}"
        )
    spec, schema = opened.spec(), opened.schema()
    for field in spec.fields:
        if not isinstance(field.transform, IdentityTransform) or field.name != schema.find_column_name(field.source_id):
            raise TableRefused(
                f"the Iceberg table {name} is partitioned by {field.name} ({field.transform}), and this sink writes "
                "tables that are partitioned by whole columns: add a column with that value, and partition by it"
            )
    if options is not None:
        check_options(opened.properties, [field.name for field in spec.fields], options, f"the Iceberg table {name}")
