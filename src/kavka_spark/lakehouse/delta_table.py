"""A Delta table, by delta-rs (package deltalake).

Decides how a batch is kept in Delta's log, and which tables are refused because this writer would break a promise of
theirs. Rows are the tasks' business.

    txn  appId = the query's id, version = the batch's number
    txn  appId = kavka/WRITER/TOPIC/TOPIC-ID/PARTITION, version = the next offset, for each partition that moved
    commitInfo "kavka" = the whole batch as JSON: for people, and for time travel to an offset

Transactions outlive the cleaning of the log, commitInfo does not (delta.logRetentionDuration, 30 days).

Invariants
  I1  A commit is made on the version that was opened, or not at all (max_commit_retries=0). So what `held` said is true
      of the commit: two writers of one batch cannot both have looked before either wrote.
  I2  The table is made, and columns are added, before tasks write: both may be done twice.
  I3  Delta's RESTORE takes rows back and leaves transactions. So then the batches up to the restored version count,
      as commitInfo has them, until the next batch is committed. That commit sets the transactions of all queries back:
      another query of the table finds what was taken from it, too. NONE stands for "no batch" and "no offset".
  I4  Paths are as they are on the disk. The log has them encoded; delta-rs encodes what it is given, and gives what the
      log has. An encoded path would take out nothing, and leave the rows of a rewritten file in the table twice.

Source: the Delta transaction log protocol; delta-rs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from kavka.model import TopicPartition
from kavka_spark.lakehouse.batch import Batch
from kavka_spark.lakehouse.data_files import WrittenFile
from kavka_spark.lakehouse.delta_log_actions import can_partition, partition_text, partition_value, statistics
from kavka_spark.lakehouse.errors import CommitConflict, SchemaRefused, TableRefused, stored
from kavka_spark.lakehouse.evolution import check_names, evolve, plain_schema
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.layout import BUCKET_COLUMN, Layout, Partition, merge_properties
from kavka_spark.lakehouse.places import Place
from kavka_spark.lakehouse.progress import Held
from kavka_spark.lakehouse.table import MARK, TableFile, check_options, filled_in_of, mark_of, merge_plan
from kavka_spark.lakehouse.table_changes import ChangedFile, CommitFiles

NONE: Final = -1
NO_ID: Final = "-"
"""In place of the id of a topic whose brokers have none."""
FIRST, FILLER = "first", "filler"
"""What transactions note of a partition besides its next offset: where its rows begin, who filled in earlier ones."""
FORGETS: Final = "delta.setTransactionRetentionDuration"
"""A property after which a table's transactions count no more."""
LOOKED_BACK: Final = 100
"""Commits that are looked through for the ids of topics."""
HARMLESS: Final = frozenset(
    {"appendOnly", "changeDataFeed", "deletionVectors", "domainMetadata", "invariants", "timestampNtz", "v2Checkpoint"}
)
"""Features of a table that adding files does not touch. Invariants are looked for in its columns."""
_LATEST_PLAIN_WRITER: Final = 7
"""From this version on, features are listed."""


class DeltaLakeTable:
    """See `table.Table`."""

    def __init__(self, place: Place, opened: DeltaTable, options: LakeOptions) -> None:
        self._place, self._opened, self._options = place, opened, options
        columns = plain_schema(pa.schema(opened.schema().to_arrow()))
        partition_by = tuple(opened.metadata().partition_columns)
        self._layout = Layout(
            place=place,
            table_id=str(opened.metadata().id),
            columns=columns,
            partition_by=partition_by,
            left_out=frozenset(partition_by),
            file_bytes=options.file_bytes,
        )
        if options.merge_keys:
            self._layout = replace(self._layout, merge=merge_plan(options, self.files()))

    @classmethod
    def prepare(cls, place: Place, rows: pa.Schema, options: LakeOptions) -> DeltaLakeTable:
        """The table, made if there is none, with all columns that the rows have (I2). Raises SchemaRefused,
        TableRefused, StoreFailed, and CommitConflict where somebody else has changed it meanwhile."""
        opened = _open(place)
        if opened is None:
            _create(place, rows, options)
            opened = _open(place)
            if opened is None:
                raise TableRefused(f"{place.address} was made a Delta table, and is none")
        _check(opened, place, options)
        table = plain_schema(pa.schema(opened.schema().to_arrow()))
        change = evolve(table, rows, name=place.address, merge=options.merge_schema, may_widen=False)
        if change.added:
            try:
                with stored(f"columns cannot be added to the Delta table at {place.address}"):
                    opened.alter.add_columns([Field.from_arrow(each) for each in change.added])
            except CommitFailedError as failure:
                raise CommitConflict(f"{place.address}: {failure}") from failure
            return cls.prepare(place, rows, options)
        return cls(place, opened, options)

    @classmethod
    def existing(cls, place: Place, options: LakeOptions) -> DeltaLakeTable:
        """The table as it is. Raises TableRefused if there is none, or one that this code would harm."""
        opened = _open(place)
        if opened is None:
            raise TableRefused(f"there is no Delta table at {place.address}")
        _check(opened, place, None)
        return cls(place, opened, options)

    @property
    def name(self) -> str:
        return self._place.address

    @property
    def layout(self) -> Layout:
        return self._layout

    def held(self, batch: Batch, writer_id: str) -> Held:
        marks = self._own_marks(writer_id)
        topic_ids: dict[str, str] = {}
        for mark in reversed(marks):  # Queries of several topics may write one table: each topic's latest counts.
            topic_ids |= mark["topicIds"]
        if self._restored_to() is not None:  # I3
            offsets = {
                TopicPartition(topic, int(partition)): end
                for mark in reversed(marks)
                for topic, ends in mark["ends"].items()
                for partition, end in ends.items()
                if mark["topicIds"].get(topic) == topic_ids.get(topic)
            }
            batches = [mark["batch"] for mark in marks if mark["query"] == batch.query]
            number = batches[0] if batches else None
            return Held(number, offsets, topic_ids, filled_in=_filled_in(marks, batch.query, number))
        offsets = {}
        for name in batch.ends:
            # A source without topics' ids may go on where one with them was, and the other way round.
            ids = {batch.topic_ids.get(name.topic) or topic_ids.get(name.topic, NO_ID), NO_ID}
            found = [self._opened.transaction_version(_application(writer_id, name, each)) for each in ids]
            known = [each for each in found if each is not None and each >= 0]
            if known:
                offsets[name] = max(known)
        number = self._opened.transaction_version(batch.query)
        firsts, fillers = (self._noted(what, writer_id, batch, topic_ids) for what in (FIRST, FILLER))
        own = _number_of(batch.query)
        others = {
            name: batch.query if filler == own else f"another query, {filler}" for name, filler in fillers.items()
        }
        return Held(
            None if number is None or number < 0 else number,
            offsets,
            topic_ids,
            firsts,
            others,
            _filled_in(marks, batch.query, number),
        )

    def _noted(
        self, what: str, writer_id: str, batch: Batch, topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, int]:
        """What commits have noted of the batch's partitions besides their next offsets."""
        found = {}
        for name in batch.ends:
            topic_id = batch.topic_ids.get(name.topic) or topic_ids.get(name.topic, NO_ID)
            version = self._opened.transaction_version(f"{_application(writer_id, name, topic_id)}/{what}")
            if version is not None and version >= 0:
                found[name] = version
        return found

    def append(
        self,
        files: Sequence[WrittenFile],
        batch: Batch | None,
        writer_id: str,
        removed: Sequence[str] = (),
        *,
        same_rows: bool = False,
    ) -> None:
        now_ms = int(time.time() * 1000)
        transactions = []
        marks: dict[str, Any] = {}
        if batch is not None:
            restored = self._restored_to() is not None
            versions = self._set_back() if restored else {}
            versions[batch.query] = batch.number
            for name, end in sorted(batch.ends.items()):
                application = _application(writer_id, name, batch.topic_ids.get(name.topic, NO_ID))
                if restored or batch.starts.get(name) != end:
                    versions[application] = end
                first = batch.firsts.get(name)
                if first is not None and first != self._opened.transaction_version(f"{application}/{FIRST}"):
                    versions[f"{application}/{FIRST}"] = first
            for name, _, _ in batch.filled_in:
                application = _application(writer_id, name, batch.topic_ids.get(name.topic, NO_ID))
                versions[f"{application}/{FILLER}"] = _number_of(batch.query)
            transactions = [Transaction(name, version, now_ms) for name, version in versions.items()]
            marks[MARK] = json.dumps(mark_of(batch, writer_id), separators=(",", ":"))
        properties = CommitProperties(custom_metadata=marks, max_commit_retries=0, app_transactions=transactions)
        taken_out = [self._remove(path, now_ms, same_rows=same_rows) for path in removed]
        added = [self._add(file, now_ms, same_rows=same_rows) for file in files]
        try:
            with stored(f"the commit to {self.name} failed"):
                self._opened.create_write_transaction(
                    [*taken_out, *added],
                    "append",
                    self._opened.schema(),
                    partition_by=list(self._layout.partition_by),
                    commit_properties=properties,
                )
        except CommitFailedError as failure:
            raise CommitConflict(f"{self.name}: {failure}") from failure

    def _add(self, file: WrittenFile, now_ms: int, *, same_rows: bool) -> AddAction:
        return AddAction(
            path=file.path,
            size=file.size_bytes,
            partition_values=self._partition_texts(self._named(file.partition)),
            modification_time=now_ms,
            data_change=not same_rows,
            stats=statistics(file.footer, self._layout.file_columns),
        )

    def _remove(self, path: str, now_ms: int, *, same_rows: bool) -> RemoveAction:
        file = self._files[path]
        return RemoveAction(path, not same_rows, now_ms, file.size_bytes, self._partition_texts(file.partition))

    def _partition_texts(self, partition: Partition) -> dict[str, str | None]:
        """The partition of a file, as Delta's log has it."""
        return {name: partition_text(value) for name, value in partition}

    def _named(self, values: Iterable[Any]) -> Partition:
        return tuple(zip(self._layout.partition_by, values, strict=True))

    def files(self) -> Mapping[str, TableFile]:
        return self._files

    def properties(self) -> Mapping[str, str]:
        return dict(self._opened.metadata().configuration)

    def versions(self) -> list[int]:
        names = self._place.names("_delta_log")
        found = sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())
        return [version for version in found if version <= self._opened.version()]

    def reaches_back(self) -> bool:
        return self.versions()[:1] == [0]

    def files_of(self, version: int) -> CommitFiles:
        files: dict[str, list[ChangedFile]] = {"add": [], "remove": []}
        for line in self._place.read(f"_delta_log/{version:020d}.json").splitlines():
            for kind, action in json.loads(line).items():
                if kind not in files or not action.get("dataChange", True):
                    continue
                if action.get("deletionVector"):
                    raise TableRefused(
                        f"version {version} of {self.name} deletes rows beside its files (deletion vectors)"
                    )
                values = action.get("partitionValues") or {}
                partition = self._named(
                    partition_value(values.get(name), self._layout.columns.field(name).type)
                    for name in self._layout.partition_by
                )
                files[kind].append(ChangedFile(unquote(action["path"]), partition))
        return CommitFiles(version, tuple(files["add"]), tuple(files["remove"]))

    def batch_marks(self) -> list[dict[str, Any]]:
        history = self._opened.history()
        return _live(_marks(history), history)

    @cached_property
    def _files(self) -> dict[str, TableFile]:
        if "deletionVectors" in (self._opened.protocol().writer_features or ()):
            raise TableRefused(
                f"the Delta table at {self.name} may have rows that are deleted beside its files (deletionVectors), "
                "which this code does not read"
            )
        found = pa.table(self._opened.get_add_actions(flatten=True))
        partitions = [found[f"partition.{name}"].to_pylist() for name in self._layout.partition_by]
        values = zip(*partitions, strict=True) if partitions else iter([()] * found.num_rows)
        columns = zip(found["path"].to_pylist(), found["size_bytes"].to_pylist(), values, strict=True)
        return {unquote(path): TableFile(size_bytes, self._named(partition)) for path, size_bytes, partition in columns}

    def _own_marks(self, writer_id: str) -> list[dict[str, Any]]:
        """Of the table as it is: what was restored away does not count."""
        history = self._opened.history() if self._restored_to() is not None else self._history
        return [mark for mark in _live(_marks(history), history) if mark["writer"] == writer_id]

    def _set_back(self) -> dict[str, int]:
        """The transactions of all queries as of the version that the table was restored to (I3)."""
        history = self._opened.history()
        live = {mark["version"] for mark in _live(_marks(history), history)}
        versions: dict[str, int] = {}
        for mark in reversed(_marks(history)):
            found = {str(mark["query"]): int(mark["batch"])}
            for topic, ends in mark["ends"].items():
                topic_id = mark["topicIds"].get(topic, NO_ID)
                for partition, end in ends.items():
                    found[_application(mark["writer"], TopicPartition(topic, int(partition)), topic_id)] = int(end)
            for name, version in found.items():
                if mark["version"] in live:
                    versions[name] = version
                else:
                    versions.setdefault(name, NONE)
        return versions

    def _restored_to(self) -> int | None:
        """The version that the table was restored to, if no batch has been committed since."""
        for commit in self._history:
            if commit.get("operation") == "RESTORE":
                return _restored_version(commit.get("operationParameters") or {})
            if MARK in commit:
                return None
        return None

    @cached_property
    def _history(self) -> list[dict[str, Any]]:
        """Others may have committed more often than that since a batch, or since a RESTORE: then all of it."""
        found = self._opened.history(LOOKED_BACK)
        told = any(MARK in commit or commit.get("operation") == "RESTORE" for commit in found)
        return found if told or len(found) < LOOKED_BACK else self._opened.history()


def _marks(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What commits say of their batches, the latest first, each with its `version`."""
    return [{**json.loads(commit[MARK]), "version": commit["version"]} for commit in history if MARK in commit]


def _live(marks: Sequence[dict[str, Any]], history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those of the marks whose rows no RESTORE has taken back."""
    gone: set[int] = set()
    for commit in history:
        if commit.get("operation") == "RESTORE" and commit["version"] not in gone:
            restored_to = _restored_version(commit.get("operationParameters") or {})
            gone |= set(range(restored_to + 1, commit["version"]))
    return [mark for mark in marks if mark["version"] not in gone]


def _restored_version(parameters: Mapping[str, Any]) -> int:
    """0 where a time was named in its place: all batches count as gone, and the user has to say where to go on."""
    text = str(parameters.get("version", ""))
    return int(text) if text.isdigit() else 0


def _application(writer_id: str, name: TopicPartition, topic_id: str) -> str:
    return f"{MARK}/{writer_id}/{name.topic}/{topic_id}/{name.partition}"


def _filled_in(
    marks: Iterable[Mapping[str, Any]], query: str, number: int | None
) -> tuple[tuple[TopicPartition, int, int], ...] | None:
    """What the query's batch filled in, if its commit is still told of."""
    return next((filled_in_of(mark) for mark in marks if mark["query"] == query and mark["batch"] == number), None)


def _number_of(query: str) -> int:
    """A query's id as a number that a transaction of Delta can have."""
    return int.from_bytes(hashlib.sha256(query.encode()).digest()[:8]) >> 1


def _open(place: Place) -> DeltaTable | None:
    try:
        return DeltaTable(place.address)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as failure:
        raise TableRefused(f"the Delta table at {place.address} cannot be opened: {failure}") from failure


def _create(place: Place, rows: pa.Schema, options: LakeOptions) -> None:
    check_names(rows.names, place.address)
    absent = [name for name in options.partition_by or () if name not in rows.names]
    if absent:
        raise SchemaRefused(f"option 'partitionBy' names {absent[0]!r}, and the rows have {', '.join(rows.names)}")
    for name in options.partition_by or ():
        if not can_partition(rows.field(name).type):
            raise SchemaRefused(f"a table cannot be partitioned by {name!r} of the type {rows.field(name).type}")
    if options.partition_by and len(options.partition_by) == len(rows):
        raise SchemaRefused("a table cannot be partitioned by all its columns")
    columns = pa.schema([each.with_nullable(True) for each in rows])
    try:
        schema = Schema.from_arrow(columns)
    except Exception as failure:  # delta-rs raises bare ones here
        raise SchemaRefused(f"the rows have a type that Delta does not have: {failure}") from failure
    try:
        with stored(f"no Delta table can be made at {place.address}"):
            place.make()
            DeltaTable.create(
                place.address,
                schema,
                partition_by=[BUCKET_COLUMN] if options.merge_keys else list(options.partition_by or ()),
                configuration=merge_properties(options.merge_keys, options.merge_buckets),
                raise_if_key_not_exists=False,
            )
    except DeltaError as failure:
        if _open(place) is None:  # Otherwise another process was faster.
            raise TableRefused(f"no Delta table can be made at {place.address}: {failure}") from failure


def _check(opened: DeltaTable, place: Place, options: LakeOptions | None) -> None:
    """Raises TableRefused where adding files would break what the table promises, or, with options, where it is not as
    they say."""
    protocol, metadata = opened.protocol(), opened.metadata()
    features = set(protocol.writer_features or ()) if protocol.min_writer_version >= _LATEST_PLAIN_WRITER else set()
    configuration = metadata.configuration
    found = sorted(features - HARMLESS)
    found += sorted(name for name in configuration if name.startswith("delta.constraints."))
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        found.append("delta.columnMapping.mode")
    for field in opened.schema().fields:
        kept = {"delta.invariants", "delta.generationExpression", "delta.identity.start"} & set(field.metadata)
        found += [f"{name} of column {field.name}" for name in sorted(kept)]
    if options is not None and options.merge_keys and configuration.get("delta.appendOnly") == "true":
        found.append("delta.appendOnly")
    if found:
        raise TableRefused(
            f"the Delta table at {place.address} uses {', '.join(found)}, which files that tasks write would not keep: "
            "write to another table, or take it out of this one"
        )
    if options is not None and FORGETS in configuration:
        raise TableRefused(
            f"the Delta table at {place.address} has {FORGETS} = {configuration[FORGETS]}: it forgets which batches "
            "and offsets it has, and records could be there twice. Take the property out of the table"
        )
    if options is not None:
        check_options(configuration, metadata.partition_columns, options, f"the Delta table at {place.address}")
