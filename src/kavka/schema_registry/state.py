"""State: what the records of `_schemas` add up to.

Decides what a change means for what is there, and answers questions about it. Must not know requests, nor parse
schemas: a topic with ten thousand of them is read in a moment, whatever is in them.

I1  The same records in the same order make the same state, also after compaction.
I2  A record that says nothing, or contradicts another one, is counted and passed over; it ends nothing.
I3  An id stands for one schema of its context: of two records that claim one, the earlier has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple, assert_never

from kavka.schema_registry.records import (
    Change,
    ConfigSet,
    HighestIds,
    ModeSet,
    NothingKept,
    SchemaGone,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
)
from kavka.schema_registry.subject_name import context_of, qualified

ALL: Final = ""
"""Stands for all subjects where settings belong to one or to all."""
MOST_COMPLAINTS: Final = 20


class Content(NamedTuple):
    """What makes two schemas the same: type and text, and what they refer to."""

    kind: str
    digest: bytes


def content_of(found: SchemaVersion) -> Content:
    """The content of a version."""
    parts = [found.text, *(f"{each.name}\0{each.subject}\0{each.version}" for each in found.references)]
    parts += [f"{name}={text}" for name, text in found.further]
    joined = "\1".join(parts).encode("utf-8", "surrogatepass")
    return Content(found.kind, hashlib.sha256(joined).digest())


class State:
    """Subjects, versions, ids, settings."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, SchemaVersion]] = {}
        self._by_id: dict[tuple[str, int], dict[tuple[str, int], None]] = {}
        """Context and id to the versions that have it, in order."""
        self._ids: dict[tuple[str, Content], int] = {}
        self._highest: dict[str, int] = {}
        """The highest id that a context ever had: one that is free again is not given to another schema."""
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], None]] = {}
        self.configs: dict[str, dict[str, Any]] = {}
        self.modes: dict[str, str] = {}
        self.passed_over = 0
        """Records that are no registry's, or contradict others (I2)."""
        self.complaints: list[str] = []

    # ------------------------------------------------------------------------------------------------------- questions

    def subjects(self) -> list[str]:
        """All that have a version, soft deleted ones included."""
        return sorted(self._subjects)

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """Of a subject, in order; with `deleted` the soft deleted ones, too."""
        found = self._subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> SchemaVersion | None:
        found = self._subjects.get(subject, {}).get(version)
        return None if found is None or (found.deleted and not deleted) else found

    def latest(self, subject: str, *, deleted: bool = False) -> SchemaVersion | None:
        found = self.versions(subject, deleted=deleted)
        return found[-1] if found else None

    def with_id(self, context: str, number: int) -> list[SchemaVersion]:
        """The versions that have this id, soft deleted ones included."""
        return [self._subjects[subject][version] for subject, version in self._by_id.get((context, number), ())]

    def id_of(self, context: str, content: Content) -> int | None:
        """The id that this content has in a context."""
        return self._ids.get((context, content))

    def next_id(self, context: str) -> int:
        return self._highest.get(context, 0) + 1

    def highest_ids(self) -> dict[str, int]:
        """Of each context, also of those that have no schema any more."""
        return dict(sorted(self._highest.items()))

    def contexts(self) -> list[str]:
        return sorted({".", *map(context_of, self._subjects)})

    def referrers(self, subject: str, version: int) -> list[SchemaVersion]:
        """The versions that refer to this one, without those that are soft deleted."""
        found = (self._subjects[of][number] for of, number in self._referrers.get((subject, version), ()))
        return [each for each in found if not each.deleted]

    def __iter__(self) -> Iterator[SchemaVersion]:
        for subject in self.subjects():
            yield from self.versions(subject, deleted=True)

    # --------------------------------------------------------------------------------------------------------- changes

    def apply(self, change: Change) -> None:
        """Takes over what one record says."""
        match change:
            case SchemaVersion():
                self._put(change)
            case SchemaGone(subject, version):
                self._remove(subject, version)
            case SubjectDeleted(subject, version):
                for each in self.versions(subject):
                    if each.version <= version:
                        self._subjects[subject][each.version] = replace(each, deleted=True)
            case SubjectCleared(subject):
                for each in self.versions(subject, deleted=True):
                    self._remove(subject, each.version)
            case ConfigSet(subject, config):
                if config is None:
                    self.configs.pop(subject, None)
                else:
                    self.configs[subject] = {name: value for name, value in config.items() if name != "subject"}
            case ModeSet(subject, mode):
                if mode is None:
                    self.modes.pop(subject, None)
                else:
                    self.modes[subject] = mode
            case HighestIds(numbers):
                for context, number in numbers.items():
                    self._highest[context] = max(self._highest.get(context, 0), number)
            case NothingKept(why):
                if why:
                    self._complain(why)
            case _:
                assert_never(change)

    def _put(self, new: SchemaVersion) -> None:
        context, content = context_of(new.subject), content_of(new)
        place = (new.subject, new.version)
        others = [each for each in self.with_id(context, new.number) if (each.subject, each.version) != place]
        if any(content_of(each) != content for each in others):
            self._complain(f"id {new.number} of {new.subject} version {new.version} belongs to another schema")
            return
        self._remove(*place)
        self._subjects.setdefault(new.subject, {})[new.version] = new
        self._by_id.setdefault((context, new.number), {})[place] = None
        self._ids.setdefault((context, content), new.number)
        self._highest[context] = max(self._highest.get(context, 0), new.number)
        for each in new.references:
            self._referrers.setdefault((qualified(context, each.subject), each.version), {})[place] = None

    def _remove(self, subject: str, version: int) -> None:
        old = self._subjects.get(subject, {}).pop(version, None)
        if old is None:
            return
        if not self._subjects[subject]:
            del self._subjects[subject]
        context, place = context_of(subject), (subject, version)
        places = self._by_id[context, old.number]
        del places[place]
        if not places:
            del self._by_id[context, old.number]
            if self._ids.get((context, content_of(old))) == old.number:
                del self._ids[context, content_of(old)]
        for each in old.references:
            self._forget_referrer((qualified(context, each.subject), each.version), place)

    def _forget_referrer(self, key: tuple[str, int], place: tuple[str, int]) -> None:
        places = self._referrers.get(key)
        if places is not None:
            places.pop(place, None)
            if not places:
                del self._referrers[key]

    def _complain(self, why: str) -> None:
        self.passed_over += 1
        if len(self.complaints) < MOST_COMPLAINTS:
            self.complaints.append(why)
