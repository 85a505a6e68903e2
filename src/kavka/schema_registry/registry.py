"""Registry: what each request means: which version is registered, which id it gets, what is refused.

Decides everything that the interface promises, on a `State`. Must not know HTTP, nor how records are written: a `Log`
does that.

I1  What is decided for a write is decided on the state that the log has at that moment, or decided again.
I2  A schema that is there already keeps its id; an id never means two schemas of one context.
I3  Schemas are parsed and compared on another thread, at most `THREADS` at a time: one that is large or wicked holds up
    neither the loop nor more than a core or two.

    level                  new schema reads old data    old schemas read new data    compared with
    BACKWARD               yes                                                        the latest version
    BACKWARD_TRANSITIVE    yes                                                        all versions
    FORWARD                                             yes                           the latest version
    FORWARD_TRANSITIVE                                  yes                           all versions
    FULL, FULL_TRANSITIVE  yes                          yes                           the latest, all
    NONE                                                                              nothing

Source: Confluent Schema Registry, "Schema Evolution and Compatibility", "API reference".
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kavka.schema_registry import refusal
from kavka.schema_registry.records import (
    MOST_ID,
    Change,
    ConfigSet,
    HighestIds,
    ModeSet,
    Reference,
    SchemaGone,
    SchemaVersion,
    SubjectDeleted,
)
from kavka.schema_registry.schemas import ParsedSchema, SchemaProblem, parse_schema
from kavka.schema_registry.state import ALL, State, content_of
from kavka.schema_registry.subject_name import DEFAULT_CONTEXT, context_of, qualified, require_valid

THREADS: Final = 2
MOST_PARSED: Final = 500
"""Schemas that are kept ready to be compared."""
MOST_PARSED_TEXT: Final = 8_000_000
"""Characters of all of them with their references; what is made of a text takes about thirty times as much."""
MOST_REFERENCES: Final = 200
"""Of one schema, with those that its references have."""
MOST_TRIES: Final = 10
"""How often a write is decided anew because another registry wrote."""
RETRY_S: Final = 0.05
Answer = TypeVar("Answer")


class Level(Enum):
    """How a new version must fit the earlier ones: see the table above."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


class Mode(Enum):
    """What may be done with a subject."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    """As READONLY, and counts for all subjects, whatever modes they have."""
    IMPORT = "IMPORT"
    """Schemas come with their ids."""


DEFAULT_LEVEL: Final = Level.BACKWARD
DEFAULT_MODE: Final = Mode.READWRITE


class Log(Protocol):
    """Where changes are kept (topic.py)."""

    @property
    def state(self) -> State: ...

    async def catch_up(self) -> None: ...

    async def append(self, changes: Sequence[Change]) -> bool: ...


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema as a request has it. number, version: only where the mode is IMPORT."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    further: tuple[tuple[str, str], ...] = ()
    number: int | None = None
    version: int | None = None


class Verdict(NamedTuple):
    """Whether a schema fits, and what speaks against it."""

    fits: bool
    messages: list[str]


class _Text(NamedTuple):
    """What a schema is parsed from. references: names and texts."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...]
    is_new: bool

    @property
    def size(self) -> int:
        return len(self.text) + sum(len(text) for _, text in self.references)


class Registry:
    """One registry on one log. Each method answers a request, or raises RegistryRefusal."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._writing = asyncio.Lock()
        self._threads = asyncio.Semaphore(THREADS)
        self._parsed: OrderedDict[_Text, ParsedSchema] = OrderedDict()
        self._parsed_text = 0

    @property
    def state(self) -> State:
        return self._log.state

    # ---------------------------------------------------------------------------------------------------------- reading

    async def fresh(self, question: Callable[[], Answer]) -> Answer:
        """The answer to a question about the state; what is not found is looked for again with what has been written
        since, maybe by another registry. While the brokers are away nobody knows that there is none: a reader would
        take a good record for a bad one."""
        try:
            return question()
        except refusal.RegistryRefusal as first:
            if first.status != 404:
                raise
            try:
                await self._log.catch_up()
            except refusal.RegistryRefusal as away:
                if first.code in refusal.NOT_FOUND:
                    raise away from first
                raise first from None  # What is set is what is known.
            return question()

    def require_subject(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions of a subject."""
        found = self.state.versions(subject, deleted=deleted)
        if not found:
            raise refusal.subject_not_found(subject)
        return found

    def version(self, subject: str, version: str, *, deleted: bool = False) -> SchemaVersion:
        """The version that a request names: a number, -1 or latest."""
        number = version_number(version)
        self.require_subject(subject, deleted=deleted)
        found = (
            self.state.latest(subject, deleted=deleted)
            if number is None
            else self.state.version(subject, number, deleted=deleted)
        )
        if found is None:
            raise refusal.version_not_found(version)
        return found

    def with_id(self, number: int, *, subject: str = "") -> list[SchemaVersion]:
        """The versions that have an id. subject: whose context counts, and which is preferred."""
        context = context_of(subject) if subject else DEFAULT_CONTEXT
        found = self.state.with_id(context, number)
        if not found:
            raise refusal.schema_not_found(number)
        return sorted(found, key=lambda each: each.subject != subject)

    async def formatted(self, found: SchemaVersion, form: str) -> str:
        """The text of a version, or what its type has in this form instead."""
        other = (await self._parse_version(found)).formatted(form) if form else None
        return found.text if other is None else other

    def level_of(self, subject: str) -> Level:
        """The level that counts for a subject: its own, its context's, that of all."""
        for place in _places(subject):
            level = self.state.configs.get(place, {}).get("compatibilityLevel")
            if level in Level.__members__:
                return Level(level)
        return DEFAULT_LEVEL

    def mode_of(self, subject: str) -> Mode:
        """The mode that counts for a subject."""
        if self.state.modes.get(ALL) == Mode.READONLY_OVERRIDE.value:
            return Mode.READONLY_OVERRIDE
        for place in _places(subject):
            mode = self.state.modes.get(place)
            if mode in Mode.__members__:
                return Mode(mode)
        return DEFAULT_MODE

    def normalizes(self, subject: str) -> bool:
        """Whether schemas of a subject are kept normalized, by its settings."""
        for place in _places(subject):
            wanted = self.state.configs.get(place, {}).get("normalize")
            if isinstance(wanted, bool):
                return wanted
        return False

    # ------------------------------------------------------------------------------------------------------ registering

    async def register(self, subject: str, new: NewSchema, *, normalize: bool = False) -> SchemaVersion:
        """Registers a schema, unless the subject has it already."""
        require_valid(subject)
        if not new.text.strip():
            raise refusal.invalid_schema("the schema is empty")

        async def decide() -> tuple[SchemaVersion, list[Change]]:
            # The references must be there when it is written, not only when it was asked for.
            parsed = await self._ready(subject, new, is_new=True)
            return await self._placed(subject, new, parsed, normalize=normalize or self.normalizes(subject))

        # Whatever is wrong with the schema is said, and one that is there is found, before a broker is asked.
        parsed = await self._settled(subject, new, is_new=True)
        if new.number is None and self.mode_of(subject) is Mode.READWRITE:
            form = self._form(subject, new, parsed, normalize=normalize or self.normalizes(subject))
            same = self._same(subject, form, new, deleted=False)
            if same is not None:
                return same
        return await self._write(decide)

    async def find(
        self, subject: str, wanted: NewSchema, *, deleted: bool = False, normalize: bool = False
    ) -> SchemaVersion:
        """The version of a subject that is this schema."""
        await self.fresh(lambda: self.require_subject(subject, deleted=True))
        if not self.state.versions(subject, deleted=deleted):
            raise refusal.subject_not_found(subject)
        parsed = await self._settled(subject, wanted, is_new=False)
        form = self._form(subject, wanted, parsed, normalize=normalize or self.normalizes(subject))

        def look() -> SchemaVersion:
            found = self._same(subject, form, wanted, deleted=deleted)
            if found is None:
                raise refusal.schema_not_found()
            return found

        return await self.fresh(look)

    async def verdict(self, subject: str, new: NewSchema, *, version: str | None = None) -> Verdict:
        """Whether a schema could be registered: compared with one version, or without `version` as its level says."""
        parsed = await self._settled(subject, new, is_new=True)
        if version is None:
            return await self._compared(subject, parsed, new.kind, self._to_compare(subject))
        if version_number(version) is None:
            latest = self.state.latest(subject)
            others = [] if latest is None else [latest]
        else:
            others = [await self.fresh(lambda: self.version(subject, version))]
        return await self._compared(subject, parsed, new.kind, others)

    # --------------------------------------------------------------------------------------------------------- deleting

    async def delete_version(self, subject: str, version: str, *, permanent: bool) -> int:
        """Deletes one version: softly, so that its id still means it, or for good what is softly deleted already."""

        async def decide() -> tuple[int, list[Change]]:
            self._require_writable(subject)
            found = self.version(subject, version, deleted=True)
            if version_number(version) is None and not permanent:
                found = self.version(subject, version)
            self._require_unreferenced(found)
            if permanent:
                if not found.deleted:
                    raise refusal.version_not_soft_deleted(subject, found.version)
                return found.version, self._gone([found])
            if found.deleted:
                raise refusal.version_soft_deleted(subject, found.version)
            return found.version, [replace(found, deleted=True)]

        return await self._write(decide)

    async def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Deletes all versions of a subject, and returns their numbers."""

        async def decide() -> tuple[list[int], list[Change]]:
            self._require_writable(subject)
            everything = self.require_subject(subject, deleted=True)
            current = self.state.versions(subject)
            for each in current:
                self._require_unreferenced(each)
            if not permanent:
                if not current:
                    raise refusal.subject_soft_deleted(subject)
                return [each.version for each in current], [SubjectDeleted(subject, current[-1].version)]
            if current:
                raise refusal.subject_not_soft_deleted(subject)
            changes = self._gone(everything)
            if subject in self.state.configs:
                changes.append(ConfigSet(subject, None))
            if subject in self.state.modes:
                changes.append(ModeSet(subject, None))
            return [each.version for each in everything], changes

        return await self._write(decide)

    def _gone(self, versions: Sequence[SchemaVersion]) -> list[Change]:
        """Versions that are deleted for good; their ids stay taken, also once the topic is compacted."""
        highest = self.state.highest_ids()
        is_highest = any(each.number == highest.get(context_of(each.subject)) for each in versions)
        kept: list[Change] = [HighestIds(highest)] if is_highest else []
        return [*kept, *(SchemaGone(each.subject, each.version) for each in versions)]

    # --------------------------------------------------------------------------------------------------------- settings

    async def set_config(self, subject: str, wanted: Mapping[str, Any]) -> None:
        """Adds settings to those of a subject, or of all."""

        async def decide() -> tuple[None, list[Change]]:
            self._require_settable(subject)
            return None, [ConfigSet(subject, {**self.state.configs.get(subject, {}), **wanted})]

        return await self._write(decide)

    async def remove_config(self, subject: str) -> dict[str, Any]:
        """Takes a subject's settings away, and returns them."""

        async def decide() -> tuple[dict[str, Any], list[Change]]:
            self._require_settable(subject)
            found = self.state.configs.get(subject)
            if found is None:
                if subject:
                    raise refusal.subject_not_found(subject)
                return {}, []
            return found, [ConfigSet(subject, None)]

        return await self._write(decide)

    async def set_mode(self, subject: str, mode: Mode, *, force: bool) -> None:
        """Sets the mode of a subject, or of all."""

        async def decide() -> tuple[None, list[Change]]:
            if mode is Mode.IMPORT and self.mode_of(subject) is not Mode.IMPORT and not force:
                concerned = (
                    self.state.versions(subject) if subject else [each for each in self.state if not each.deleted]
                )
                if concerned:
                    raise refusal.not_permitted("Cannot import since found existing subjects")
            return None, [ModeSet(subject, mode.value)]

        return await self._write(decide)

    async def remove_mode(self, subject: str) -> str:
        """Takes a subject's own mode away, and returns it."""

        async def decide() -> tuple[str, list[Change]]:
            found = self.state.modes.get(subject)
            if found is None:
                if subject:
                    raise refusal.subject_not_found(subject)
                return DEFAULT_MODE.value, []
            return found, [ModeSet(subject, None)]

        return await self._write(decide)

    # ------------------------------------------------------------------------------------------------------ in the dark

    async def _write(self, decide: Callable[[], Awaitable[tuple[Answer, list[Change]]]]) -> Answer:
        async with self._writing:
            for attempt in range(MOST_TRIES):
                # Two that overtake each other again and again get out of step.
                await asyncio.sleep(random.uniform(0, attempt * RETRY_S))
                await self._log.catch_up()
                answer, changes = await decide()
                if not changes or await self._log.append(changes):
                    return answer
        raise refusal.store_failed(f"other registries wrote in between {MOST_TRIES} times: try again")

    async def _placed(
        self, subject: str, new: NewSchema, parsed: ParsedSchema, *, normalize: bool
    ) -> tuple[SchemaVersion, list[Change]]:
        """The version that a schema is or becomes, and what is written for that."""
        form = self._form(subject, new, parsed, normalize=normalize)
        mode = self.mode_of(subject)
        if mode in (Mode.READONLY, Mode.READONLY_OVERRIDE):
            raise refusal.not_permitted(f"Subject {subject} is in read-only mode")
        if mode is Mode.IMPORT:
            return self._imported(subject, new, form)
        if new.number is not None:
            raise refusal.not_permitted(f"Subject {subject} is not in import mode")
        same = self._same(subject, form, new, deleted=False)
        if same is not None:
            return same, []
        found = await self._compared(subject, parsed, new.kind, self._to_compare(subject))
        if not found.fits:
            raise refusal.incompatible(subject, found.messages)
        number = self.state.id_of(context_of(subject), content_of(form))
        number = self.state.next_id(context_of(subject)) if number is None else number
        if number > MOST_ID:
            raise refusal.store_failed(f"there is no id left above {MOST_ID}")
        latest = self.state.latest(subject, deleted=True)
        placed = replace(form, number=number, version=1 if latest is None else latest.version + 1)
        if new.version is not None and new.version not in (0, placed.version):
            raise refusal.invalid_version(new.version)
        return placed, [placed]

    def _imported(self, subject: str, new: NewSchema, form: SchemaVersion) -> tuple[SchemaVersion, list[Change]]:
        if new.number is None:
            raise refusal.not_permitted(f"Subject {subject} is in import mode: a schema comes with its id")
        for each in self.state.with_id(context_of(subject), new.number):
            if content_of(each) != content_of(form):
                raise refusal.not_permitted(f"Overwrite new schema with id {new.number} is not permitted.")
        known = self.state.id_of(context_of(subject), content_of(form))
        if known not in (None, new.number):
            raise refusal.id_does_not_match(new.number, f"this registry has it with the id {known}")
        latest = self.state.latest(subject, deleted=True)
        version = new.version or (1 if latest is None else latest.version + 1)
        placed = replace(form, number=new.number, version=version)
        if self.state.version(subject, version) == placed:
            return placed, []
        return placed, [placed]

    def _form(self, subject: str, new: NewSchema, parsed: ParsedSchema, *, normalize: bool) -> SchemaVersion:
        """A schema as it would be kept, without id and version."""
        text = parsed.normalized() if normalize else parsed.text
        return SchemaVersion(subject, 0, 0, new.kind, text, new.references, further=new.further)

    def _same(self, subject: str, form: SchemaVersion, new: NewSchema, *, deleted: bool) -> SchemaVersion | None:
        """The newest version that is this schema: as it is kept, or as it was sent, which older registries kept."""
        wanted = {content_of(form), content_of(replace(form, text=new.text))}
        for each in reversed(self.state.versions(subject, deleted=deleted)):
            if content_of(each) in wanted:
                return each
        return None

    def _to_compare(self, subject: str) -> list[SchemaVersion]:
        """The versions that a new one is compared with."""
        found = self.state.versions(subject)
        level = self.level_of(subject)
        return [] if level is Level.NONE else found if level.is_transitive else found[-1:]

    async def _compared(
        self, subject: str, parsed: ParsedSchema, kind: str, others: Sequence[SchemaVersion]
    ) -> Verdict:
        level = self.level_of(subject)
        if level is Level.NONE:
            return Verdict(True, [])
        for each in reversed(others):
            if each.kind != kind:
                return Verdict(
                    False,
                    [
                        f"{{errorType:'TYPE_MISMATCH', description:'Version {each.version} is {each.kind}, "
                        f"and this schema is {kind}'}}"
                    ],
                )
            try:
                old = await self._parse_version(each)
            except refusal.RegistryRefusal as problem:
                return Verdict(False, [f"{{errorType:'OLD_SCHEMA_UNREADABLE', description:'{problem.message}'}}"])
            compare = partial(_reasons, level, parsed, old)
            found = await self._in_thread(compare)
            if found:
                return Verdict(
                    False,
                    [
                        *found,
                        f"{{oldSchemaVersion: {each.version}}}",
                        f"{{oldSchema: '{each.text}'}}",
                        f"{{compatibility: '{level.value}'}}",
                    ],
                )
        return Verdict(True, [])

    # ---------------------------------------------------------------------------------------------------------- parsing

    async def _settled(self, subject: str, new: NewSchema, *, is_new: bool) -> ParsedSchema:
        """A request's schema made ready; references that are not there yet are looked for once more."""
        try:
            return await self._ready(subject, new, is_new=is_new)
        except refusal.RegistryRefusal:
            if not new.references:
                raise
            await self._log.catch_up()
            return await self._ready(subject, new, is_new=is_new)

    async def _ready(self, subject: str, new: NewSchema, *, is_new: bool) -> ParsedSchema:
        form = SchemaVersion(subject, 0, 0, new.kind, new.text, new.references)
        return await self._parse(form, is_new=is_new)

    async def _parse_version(self, found: SchemaVersion) -> ParsedSchema:
        return await self._parse(found, is_new=False)

    async def _parse(self, form: SchemaVersion, *, is_new: bool) -> ParsedSchema:
        texts = self.texts_of(form)
        key = _Text(form.kind, form.text, tuple(texts.items()), is_new)
        known = self._parsed.get(key)
        if known is not None:
            self._parsed.move_to_end(key)
            return known
        try:
            found = await self._in_thread(lambda: parse_schema(form.kind, form.text, texts, is_new=is_new))
        except SchemaProblem as problem:
            raise refusal.invalid_schema(str(problem)) from problem
        if key not in self._parsed:  # Another request may have parsed it meanwhile.
            self._parsed_text += key.size
        self._parsed[key] = found
        while len(self._parsed) > MOST_PARSED or self._parsed_text > MOST_PARSED_TEXT:
            self._parsed_text -= self._parsed.popitem(last=False)[0].size
        return found

    def texts_of(self, form: SchemaVersion) -> dict[str, str]:
        """What the references of a schema mean, with theirs: name to text, those that others need first. Raises
        RegistryRefusal."""
        found: dict[str, str] = {}
        self._collect(form, found, ())
        return found

    def _collect(self, form: SchemaVersion, found: dict[str, str], above: tuple[tuple[str, int], ...]) -> None:
        for each in form.references:
            if each.name in found:
                continue
            subject = qualified(context_of(form.subject), each.subject)
            place = (subject, each.version)
            meant = self.state.version(subject, each.version, deleted=True)
            if meant is None:
                raise refusal.invalid_schema(
                    f"no schema reference found for subject {each.subject!r} and version {each.version}"
                )
            if place in above or len(above) + len(found) >= MOST_REFERENCES:
                raise refusal.invalid_schema(
                    f"the references of {form.subject} lead in a circle, or to too many schemas"
                )
            self._collect(meant, found, (*above, place))
            found[each.name] = meant.text

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        async with self._threads:
            return await asyncio.to_thread(work)

    # --------------------------------------------------------------------------------------------------------- refusing

    def _require_writable(self, subject: str) -> None:
        if self.mode_of(subject) in (Mode.READONLY, Mode.READONLY_OVERRIDE):
            raise refusal.not_permitted(f"Subject {subject} is in read-only mode")

    def _require_settable(self, subject: str) -> None:
        if self.mode_of(subject) in (Mode.READONLY, Mode.READONLY_OVERRIDE):
            what = f"Subject {subject}" if subject else "The registry"
            raise refusal.not_permitted(f"{what} is in read-only mode")

    def _require_unreferenced(self, found: SchemaVersion) -> None:
        others = self.state.referrers(found.subject, found.version)
        if others:
            raise refusal.reference_exists(
                found.subject, found.version, f"{others[0].subject} version {others[0].version}"
            )


def version_number(text: str) -> int | None:
    """The version that a request names; None for the latest. Raises RegistryRefusal."""
    if text in ("latest", "-1"):
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 20 or not 1 <= int(text) <= MOST_ID:
        raise refusal.invalid_version(text)
    return int(text)


def _places(subject: str) -> tuple[str, ...]:
    """Where settings that count for a subject may stand, the nearest first."""
    if not subject:
        return (ALL,)
    context = context_of(subject)
    return (subject, ALL) if context == DEFAULT_CONTEXT else (subject, f":{context}:", ALL)


def _reasons(level: Level, new: ParsedSchema, old: ParsedSchema) -> list[str]:
    found: list[str] = []
    try:
        if level.new_reads_old:
            found += new.misfits(old)
        if level.old_reads_new:
            found += old.misfits(new)
    except SchemaProblem as problem:
        found.append(f"{{errorType:'NOT_COMPARED', description:'{problem}'}}")
    except RecursionError:
        found.append("{errorType:'NOT_COMPARED', description:'The schemas are nested too deep to be compared'}")
    return found
