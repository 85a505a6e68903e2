"""What can be done to topics: create, settings, more partitions, delete, delete records; and brokers' settings.

Decides what each shows before it is done. Must not know pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kavka.client.admin import (
    UP_TO_HIGH_WATERMARK,
    Admin,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.console.actions.action import (
    Action,
    ActionRefused,
    Change,
    Field,
    Preview,
    Values,
    Warned,
    quoted,
    settings,
    text,
    topic_field,
    topic_of,
    whole,
)
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.observe.health.report import Statement

if TYPE_CHECKING:
    from kavka.client.cluster import TopicMetadata
    from kavka.console.clusters import ClusterWatch

MOST_PARTITIONS = 10_000
"""Of one topic, in a form: more is taken for a slip."""
HIDDEN = "(hidden)"


class CreateTopic(Action):
    name, title, role, section = "create-topic", "Create a topic", "operator", "topics"

    def topics(self, values: Values) -> Sequence[str]:
        return topic_of(values)

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        return (
            Field("topic", "Name", value=values.get("topic", ""), required=True),
            Field(
                "partitions",
                "Partitions",
                "number",
                values.get("partitions", ""),
                "Empty: the brokers' default.",
            ),
            Field("replicas", "Replicas", "number", values.get("replicas", ""), "Empty: the brokers' default."),
            Field(
                "settings",
                "Settings",
                "area",
                values.get("settings", ""),
                "One name=value in each line, for example retention.ms=86400000.",
            ),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        topic = self._topic(values)
        admin = Admin(watch.cluster)
        failures = await admin.create_topics([topic], validate_only=True)
        for error in failures.values():
            raise ActionRefused(f"{error.code.name}: {error}")
        options = [f"--partitions {topic.partition_count}"] if topic.partition_count > 0 else []
        options += [f"--replicas {topic.replication_factor}"] if topic.replication_factor > 0 else []
        own = [*options, *(f"--set {quoted(f'{name}={value}')}" for name, value in topic.configs.items())]
        kafkas = [option.replace("--replicas", "--replication-factor") for option in options]
        kafkas += [f"--config {quoted(f'{name}={value}')}" for name, value in topic.configs.items()]
        name = quoted(topic.name)
        replicas = topic.replication_factor
        rows = (
            Change("partitions", "", str(topic.partition_count) if topic.partition_count > 0 else "default"),
            Change("replicas", "", str(replicas) if replicas > 0 else "default"),
            *(Change(setting, "", value) for setting, value in topic.configs.items()),
        )
        return Preview(
            f"topic {topic.name}",
            Statement("This creates the topic {topic}.", {"topic": topic.name}),
            rows,
            tuple(_risks_of(topic)),
            (
                " ".join(["kavka topics create", name, f"-b {watch.settings.bootstrap}", *own]),
                " ".join(
                    [
                        "kafka-topics.sh --create",
                        f"--bootstrap-server {watch.settings.bootstrap} --topic {name}",
                        *kafkas,
                    ]
                ),
            ),
            wanted="\n".join(f"{row.what}={row.after}" for row in rows),
            button="Create it",
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        for error in (await Admin(watch.cluster).create_topics([self._topic(values)])).values():
            raise error

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        return await _described(watch, values)

    def link(self, base: str, values: Values) -> str:
        return _topic_link(base, values)

    def is_ambiguous(self, refused: RequestError) -> bool:
        return super().is_ambiguous(refused) or refused.code is ErrorCode.TOPIC_ALREADY_EXISTS

    def _topic(self, values: Values) -> NewTopic:
        return NewTopic(
            text(values, "topic", "the topic's name"),
            whole(values, "partitions", "partitions", least=1, most=MOST_PARTITIONS)
            if values.get("partitions")
            else -1,
            whole(values, "replicas", "replicas", least=1, most=1_000) if values.get("replicas") else -1,
            settings(values, "settings"),
        )


def _risks_of(topic: NewTopic) -> Iterator[Warned]:
    """What a topic with so many replicas does not survive, or does not accept meanwhile."""
    replicas = topic.replication_factor
    if replicas == 1:
        yield Warned("warn", Statement("With one replica, the loss of its broker's disk loses the topic."))
    least = topic.configs.get("min.insync.replicas", "")
    if least.isdecimal() and len(least) < 10 and 0 < replicas == int(least) > 1:
        text_ = (
            "min.insync.replicas equals the number of replicas: while any broker is down, writes with acks=all "
            "are refused."
        )
        yield Warned("warn", Statement(text_))


class AlterConfig(Action):
    """Settings of a topic, of a broker, or of all brokers; an empty value takes one's own away."""

    name, title, role, section = "alter-config", "Change settings", "operator", "topics"

    def topics(self, values: Values) -> Sequence[str] | None:
        if values.get("topic"):
            return [values["topic"]]
        # A form that asks which topic is about topics, though it names none yet.
        return [] if "topic" in values and "broker" not in values else None

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        resource = self._resource(values)
        entries = await self._entries(watch, resource)
        known = "\n".join(f"{entry.name}={entry.value or ''}" for entry in entries if is_own(entry, resource))
        return (
            *self._which(values),
            Field(
                "settings",
                "Settings",
                "area",
                values.get("settings", known),
                "One name=value in each line. A setting removed from the list goes back to its default.",
            ),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        resource = self._resource(values)
        entries = await self._entries(watch, resource)
        changes = self._changes(values, entries, resource)
        if not changes:
            raise ActionRefused("nothing changes: these are the settings that it has")
        if any(change.name not in {entry.name for entry in entries} for change in changes):
            unknown = [change.name for change in changes if change.name not in {entry.name for entry in entries}]
            raise ActionRefused(f"there is no setting {', '.join(unknown[:5])}")
        failures = await Admin(watch.cluster).alter_configs({resource: changes}, validate_only=True)
        for error in failures.values():
            raise ActionRefused(f"{error.code.name}: {error}")
        now = {entry.name: entry for entry in entries}
        rows = [shown_change(now[change.name], change) for change in changes]
        return Preview(
            _target(resource),
            Statement("Settings of {what} that change: {n}.", {"n": len(rows), "what": _target(resource)}),
            tuple(rows),
            tuple(_config_warnings(watch, resource, changes)),
            self._commands(watch, resource, [without_secret(now[change.name], change) for change in changes]),
            before="\n".join(f"{row.what}={row.before}" for row in rows),
            wanted="\n".join(f"{row.what}={row.after}" for row in rows),
            button="Change them",
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        resource = self._resource(values)
        changes = self._changes(values, await self._entries(watch, resource), resource)
        for error in (await Admin(watch.cluster).alter_configs({resource: changes})).values():
            raise error

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        resource = self._resource(values)
        entries = await self._entries(watch, resource)
        return "\n".join(f"{entry.name}={entry.value}" for entry in entries if is_own(entry, resource))

    def link(self, base: str, values: Values) -> str:
        if values.get("topic"):
            return _topic_link(base, values)
        return f"{base}/brokers" + (f"/{values['broker']}" if values.get("broker", "").isdecimal() else "")

    def _which(self, values: Values) -> Sequence[Field]:
        return tuple(Field(name, "", "hidden", values[name]) for name in ("topic", "broker") if values.get(name))

    def _resource(self, values: Values) -> ConfigResource:
        if values.get("topic"):
            return ConfigResource(ResourceType.TOPIC, values["topic"])
        broker = values.get("broker", "")
        if broker and not broker.isdecimal() and broker != "all":
            raise ActionRefused(f"{broker[:40]!r} is not a broker")
        if not broker:
            raise ActionRefused("settings of which topic or broker?")
        return ConfigResource(ResourceType.BROKER, "" if broker == "all" else broker)

    async def _entries(self, watch: ClusterWatch, resource: ConfigResource) -> list[ConfigEntry]:
        found = await Admin(watch.cluster).describe_configs([resource], include_synonyms=True)
        return found[resource]

    def _changes(self, values: Values, entries: Sequence[ConfigEntry], resource: ConfigResource) -> list[ConfigChange]:
        wanted = settings(values, "settings")
        own = {entry.name: entry for entry in entries if is_own(entry, resource)}
        changes = [
            ConfigChange(name, value)
            for name, value in sorted(wanted.items())
            if name not in own or (own[name].value or "") != value
        ]
        # A sensitive value was never shown, so its absence says nothing.
        gone = [name for name, entry in own.items() if name not in wanted and not entry.is_sensitive]
        return changes + [ConfigChange(name, None, ConfigOperation.DELETE) for name in sorted(gone)]

    def _commands(
        self, watch: ClusterWatch, resource: ConfigResource, changes: Sequence[ConfigChange]
    ) -> tuple[str, ...]:
        put = [f"{change.name}={change.value}" for change in changes if change.value is not None]
        gone = [change.name for change in changes if change.value is None]
        which = f"--topic {quoted(resource.name)}"
        kafkas = f"--entity-type topics --entity-name {quoted(resource.name)}"
        if resource.resource_type is ResourceType.BROKER:
            which = f"--broker {resource.name}" if resource.name else "--all-brokers"
            kafkas = "--entity-type brokers " + (
                f"--entity-name {resource.name}" if resource.name else "--entity-default"
            )
        own = []
        if put:
            own.append(f"kavka configs set {which} -b {watch.settings.bootstrap} {' '.join(map(quoted, put))}")
        if gone:
            own.append(f"kavka configs unset {which} -b {watch.settings.bootstrap} {' '.join(map(quoted, gone))}")
        line = f"kafka-configs.sh --bootstrap-server {watch.settings.bootstrap} --alter {kafkas}"
        line += f" --add-config {quoted(','.join(f'{each}' for each in put))}" if put else ""
        line += f" --delete-config {quoted(','.join(gone))}" if gone else ""
        return (*own, line)


class AddPartitions(Action):
    name, title, role, section = "add-partitions", "Add partitions", "operator", "topics"

    def topics(self, values: Values) -> Sequence[str]:
        return topic_of(values)

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        if values.get("topic"):
            topic = await _topic(watch, values)
            named, count = Field("topic", "Topic", "hidden", topic.name), str(len(topic.partitions) + 1)
        else:
            named, count = topic_field(values), ""
        hint = "This cannot be undone: partitions are never removed."
        total = Field("count", "Partitions in total", "number", values.get("count", count), hint, required=True)
        return named, total

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        topic = await _topic(watch, values)
        count = whole(values, "count", "the number of partitions", least=1, most=MOST_PARTITIONS)
        if count <= len(topic.partitions):
            raise ActionRefused(
                f"the number of partitions of {topic.name} is {len(topic.partitions)} and can only grow"
            )
        failures = await Admin(watch.cluster).create_partitions({topic.name: count}, validate_only=True)
        for error in failures.values():
            raise ActionRefused(f"{error.code.name}: {error}")
        name = quoted(topic.name)
        text_ = (
            "Keys map to other partitions from then on. Records of one key are no longer in order across the change."
        )
        return Preview(
            f"topic {topic.name}",
            Statement("Partitions added to {topic}: {n}.", {"topic": topic.name, "n": count - len(topic.partitions)}),
            (Change("partitions", str(len(topic.partitions)), str(count)),),
            (Warned("warn", Statement(text_)),),
            (
                f"kavka topics alter {name} --partitions {count} -b {watch.settings.bootstrap}",
                f"kafka-topics.sh --bootstrap-server {watch.settings.bootstrap} --alter --topic {name} "
                f"--partitions {count}",
            ),
            before=f"{len(topic.partitions)} partitions",
            wanted=f"{count} partitions",
            button="Add them",
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        topic = text(values, "topic", "the topic")
        count = whole(values, "count", "the number of partitions", least=1, most=MOST_PARTITIONS)
        for error in (await Admin(watch.cluster).create_partitions({topic: count})).values():
            raise error

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        return await _described(watch, values)

    def link(self, base: str, values: Values) -> str:
        return _topic_link(base, values)

    def is_ambiguous(self, refused: RequestError) -> bool:
        return super().is_ambiguous(refused) or refused.code is ErrorCode.INVALID_PARTITIONS


class DeleteTopic(Action):
    name, title, role, section = "delete-topic", "Delete a topic", "admin", "topics"

    def topics(self, values: Values) -> Sequence[str]:
        return topic_of(values)

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        if not values.get("topic"):
            return (topic_field(values),)
        topic = await _topic(watch, values)
        return (Field("topic", "Topic", "hidden", topic.name),)

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        topic = await _topic(watch, values)
        seen = watch.snapshot.topics.get(topic.name)
        readers = sorted(group.group_id for group in watch.snapshot.groups.values() if topic.name in group.topics)
        warnings = [Warned("bad", Statement("All its records are lost, on every broker. This cannot be undone."))]
        if readers:
            known = {"n": len(readers), "groups": ", ".join(readers[:5])}
            warnings.append(Warned("bad", Statement("Groups that read it ({n}): {groups}.", known)))
        if seen is not None and seen.in_records_per_s:
            rate = {"rate": f"{seen.in_records_per_s:,.1f}"}
            warnings.append(Warned("bad", Statement("It is being written to: {rate} records/s.", rate)))
        if topic.is_internal:
            warnings.append(
                Warned("bad", Statement("It is one of Kafka's own topics: groups or transactions need it."))
            )
        name = quoted(topic.name)
        return Preview(
            f"topic {topic.name}",
            Statement("This deletes the topic {topic} and all its records.", {"topic": topic.name}),
            (Change("partitions", str(len(topic.partitions)), ""),),
            tuple(warnings),
            (
                f"kavka topics delete {name} -b {watch.settings.bootstrap}",
                f"kafka-topics.sh --bootstrap-server {watch.settings.bootstrap} --delete --topic {name}",
            ),
            before=f"id {topic.topic_id}, {len(topic.partitions)} partitions",
            button="Delete it",
            is_danger=True,
            type_name=topic.name,
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        for error in (await Admin(watch.cluster).delete_topics([text(values, "topic", "the topic")])).values():
            raise error

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        return await _described(watch, values)

    def is_ambiguous(self, refused: RequestError) -> bool:
        return super().is_ambiguous(refused) or refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class DeleteRecords(Action):
    name, title, role, section = "delete-records", "Delete records", "admin", "topics"

    def topics(self, values: Values) -> Sequence[str]:
        return topic_of(values)

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        topic = await _topic(watch, values)
        return (
            Field("topic", "Topic", "hidden", topic.name),
            Field("partition", "Partition", "number", values.get("partition", ""), "Empty: all partitions."),
            Field(
                "before",
                "Before the offset",
                "number",
                values.get("before", ""),
                "Records before it are deleted. Empty: all records that are there now.",
            ),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        wanted = await self._wanted(watch, values)
        starts = await list_offsets(watch.cluster, dict.fromkeys(wanted, EARLIEST))
        ends = await list_offsets(watch.cluster, dict.fromkeys(wanted, LATEST))
        rows, deleted = [], 0
        for partition, offset in wanted.items():
            start, end = starts[partition].offset, ends[partition].offset
            until = end if offset == UP_TO_HIGH_WATERMARK else offset
            if until > end:
                raise ActionRefused(f"{partition} ends at {end}: nothing can be deleted before {until}")
            if until > start:
                rows.append(Change(str(partition), f"from {start}", f"from {until}"))
                deleted += until - start
        if not rows:
            raise ActionRefused("there is nothing to delete: no record stands before that offset")
        topic = next(iter(wanted)).topic
        which = f"--before {values['before'].strip()}" if values.get("before") else "--all"
        which = f"--partition {values['partition'].strip()} {which}" if values.get("partition") else which
        lines = [f"{topic}:{place.partition}={offset}" for place, offset in wanted.items()]
        return Preview(
            f"topic {topic}",
            Statement("Records of {topic} that are deleted, in offsets: {n}.", {"n": f"{deleted:,}", "topic": topic}),
            tuple(rows),
            (Warned("bad", Statement("Deleted records are lost, also for groups that have not read them yet.")),),
            (
                f"kavka records delete {quoted(topic)} {which} -b {watch.settings.bootstrap}",
                f"kafka-delete-records.sh --bootstrap-server {watch.settings.bootstrap} "
                "--offset-json-file offsets.json",
            ),
            before="\n".join(f"{row.what} {row.before}" for row in rows),
            wanted="\n".join(lines),
            button="Delete them",
            is_danger=True,
            type_name=topic,
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        await Admin(watch.cluster).delete_records(await self._wanted(watch, values))

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        starts = await list_offsets(watch.cluster, dict.fromkeys(await self._wanted(watch, values), EARLIEST))
        return "\n".join(f"{partition} from {at.offset}" for partition, at in starts.items())

    def link(self, base: str, values: Values) -> str:
        return _topic_link(base, values)

    async def _wanted(self, watch: ClusterWatch, values: Values) -> dict[TopicPartition, int]:
        topic = await _topic(watch, values)
        chosen = [each.partition for each in topic.partitions]
        if values.get("partition"):
            number = whole(values, "partition", "the partition")
            if number not in chosen:
                raise ActionRefused(f"{topic.name} has no partition {number}")
            chosen = [number]
        offset = UP_TO_HIGH_WATERMARK
        if values.get("before"):
            offset = whole(values, "before", "the offset", most=2**63 - 1)
        return {TopicPartition(topic.name, number): offset for number in chosen}


# ------------------------------------------------------------------------------------------------------------ in common


async def _topic(watch: ClusterWatch, values: Values) -> TopicMetadata:
    name = text(values, "topic", "the topic's name")
    try:
        return (await Admin(watch.cluster).describe_topics([name]))[0]
    except RequestError as refused:
        if refused.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise ActionRefused(f"there is no topic {name[:250]}") from refused
        raise


async def _described(watch: ClusterWatch, values: Values) -> str:
    """How the topic stands now, in words."""
    name = values.get("topic", "").strip()
    found = [each for each in await Admin(watch.cluster).list_topics(include_internal=True) if each.name == name]
    if not found:
        return "there is no such topic"
    return f"id {found[0].topic_id}, {len(found[0].partitions)} partitions"


def _topic_link(base: str, values: Values) -> str:
    from urllib.parse import quote

    return f"{base}/topics/{quote(values.get('topic', '').strip(), safe='')}"


def _target(resource: ConfigResource) -> str:
    if resource.resource_type is ResourceType.TOPIC:
        return f"topic {resource.name}"
    return f"broker {resource.name}" if resource.name else "all brokers"


def own_source(resource: ConfigResource) -> ConfigSource:
    """Where what was set at run time for this topic, this broker, or all brokers is told to come from."""
    if resource.resource_type is ResourceType.TOPIC:
        return ConfigSource.TOPIC
    return ConfigSource.DYNAMIC_BROKER if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER


def is_own(entry: ConfigEntry, resource: ConfigResource) -> bool:
    """Whether it was set at run time for just this, and can be taken away again. What was set for all brokers is
    inherited by each of them and by topics."""
    return entry.source is own_source(resource) and not entry.is_read_only


def shown_change(entry: ConfigEntry, change: ConfigChange) -> Change:
    """What a page and the audit log may have of it: neither the former nor the new value of a sensitive setting."""
    before = HIDDEN if entry.is_sensitive else entry.value or ""
    if change.value is None:
        return Change(change.name, before, _inherited(entry))
    return Change(change.name, before, HIDDEN if entry.is_sensitive else change.value)


def without_secret(entry: ConfigEntry, change: ConfigChange) -> ConfigChange:
    """For a command line that is shown."""
    return change._replace(value="...") if entry.is_sensitive and change.value is not None else change


def _inherited(entry: ConfigEntry) -> str:
    """What a setting is when its own value is taken away."""
    return next((synonym.value or "" for synonym in entry.synonyms if synonym.source != entry.source), "default")


def _config_warnings(
    watch: ClusterWatch, resource: ConfigResource, changes: Sequence[ConfigChange]
) -> Sequence[Warned]:
    found = []
    topic = watch.snapshot.topics.get(resource.name) if resource.resource_type is ResourceType.TOPIC else None
    for change in changes:
        least = change.value or ""
        if change.name == "min.insync.replicas" and least.isdecimal() and len(least) < 10 and topic is not None:
            short = [each for each in topic.partitions if len(each.in_sync_replicas) < int(least)]
            if short:
                known = {"n": len(short)}
                text_ = (
                    "Partitions with fewer replicas in sync now: {n}. Writes to them with acks=all would be refused."
                )
                found.append(Warned("bad", Statement(text_, known)))
        if change.name in ("retention.ms", "retention.bytes") and change.value:
            found.append(Warned("warn", Statement("Records beyond the new bound are deleted within minutes.")))
        if change.name == "unclean.leader.election.enable" and change.value == "true":
            text_ = "A replica that is not in sync may become leader: acknowledged records may be lost."
            found.append(Warned("bad", Statement(text_)))
    return found
