"""What each request to a registry means: versions, ids, levels, modes, deletion, and two registries on one topic."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from kavka.schema_registry import registry as registries
from kavka.schema_registry.records import Reference, SchemaVersion, encode
from kavka.schema_registry.refusal import RegistryRefusal, level_not_configured, store_failed
from kavka.schema_registry.registry import Level, Mode, NewSchema, Registry, version_number
from tests.kit.schemas_log import SharedLog

Answer = TypeVar("Answer")


def record(*fields: str, name: str = "R") -> str:
    return f'{{"type":"record","name":"{name}","fields":[{",".join(fields)}]}}'


A, B, B_DEFAULT = '{"name":"a","type":"int"}', '{"name":"b","type":"int"}', '{"name":"b","type":"int","default":1}'
V1, V2_DEFAULT, V2 = record(A), record(A, B_DEFAULT), record(A, B)


def avro(text: str, *references: Reference, number: int | None = None) -> NewSchema:
    return NewSchema("AVRO", text, references, number=number)


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(work)


def registry(shared: SharedLog | None = None) -> Registry:
    return Registry((shared or SharedLog()).of_one())


def refused(work: Coroutine[Any, Any, object]) -> RegistryRefusal:
    with pytest.raises(RegistryRefusal) as caught:
        run(work)
    return caught.value


def test_the_same_schema_has_one_version_and_one_id() -> None:
    found = registry()

    async def work() -> None:
        first = await found.register("s", avro(V1))
        spaced = await found.register("s", avro(V1.replace(",", " , ")))
        elsewhere = await found.register("t", avro(V1))
        assert (first.version, first.number) == (spaced.version, spaced.number) == (1, 1)
        assert (elsewhere.subject, elsewhere.version, elsewhere.number) == ("t", 1, 1)
        second = await found.register("s", avro(V2_DEFAULT))
        assert (second.version, second.number) == (2, 2)

    run(work())


@pytest.mark.parametrize(
    ("level", "old", "new", "fits"),
    [  # The table of Confluent's documentation: what each level lets through.
        (Level.BACKWARD, V1, V2_DEFAULT, True),
        (Level.BACKWARD, V1, V2, False),
        (Level.BACKWARD, V2, V1, True),
        (Level.FORWARD, V1, V2, True),
        (Level.FORWARD, V2, V1, False),
        (Level.FORWARD, V2_DEFAULT, V1, True),
        (Level.FULL, V1, V2_DEFAULT, True),
        (Level.FULL, V2_DEFAULT, V1, True),
        (Level.FULL, V1, V2, False),
        (Level.FULL, V2, V1, False),
        (Level.NONE, V1, '"string"', True),
    ],
)
def test_what_each_level_lets_through(level: Level, old: str, new: str, fits: bool) -> None:
    found = registry()

    async def work() -> None:
        await found.set_config("", {"compatibilityLevel": level.value})
        await found.register("s", avro(old))
        verdict = await found.verdict("s", avro(new))
        assert verdict.fits == fits
        assert fits or f"{{compatibility: '{level.value}'}}" in verdict.messages
        if fits:
            await found.register("s", avro(new))
        else:
            with pytest.raises(RegistryRefusal) as caught:
                await found.register("s", avro(new))
            assert (caught.value.status, caught.value.code) == (409, 409)

    run(work())


@pytest.mark.parametrize(
    ("level", "fits"),
    [(Level.BACKWARD, True), (Level.BACKWARD_TRANSITIVE, False), (Level.FULL_TRANSITIVE, False)],
)
def test_transitive_levels_compare_with_all_versions(level: Level, fits: bool) -> None:
    """The last version has the field with a default, the first had none: version 3 makes it mandatory."""
    found = registry()

    async def work() -> None:
        await found.register("s", avro(V1))
        await found.register("s", avro(V2_DEFAULT))
        await found.set_config("s", {"compatibilityLevel": level.value})
        assert (await found.verdict("s", avro(V2))).fits == fits

    run(work())


def test_forward_transitive_compares_with_all_versions() -> None:
    found = registry()

    async def work() -> None:
        await found.set_config("s", {"compatibilityLevel": "NONE"})
        await found.register("s", avro(V2))
        await found.register("s", avro(V2_DEFAULT))
        await found.set_config("s", {"compatibilityLevel": "FORWARD"})
        assert (await found.verdict("s", avro(V1))).fits
        await found.set_config("s", {"compatibilityLevel": "FORWARD_TRANSITIVE"})
        assert not (await found.verdict("s", avro(V1))).fits

    run(work())


def test_a_schema_of_another_type_never_follows() -> None:
    found = registry()

    async def work() -> None:
        await found.register("s", avro(V1))
        assert not (await found.verdict("s", avro('"string"'))).fits

    run(work())


def test_deleting_softly_and_for_good() -> None:
    found = registry()

    async def work() -> None:
        await found.register("s", avro(V1))
        await found.register("s", avro(V2_DEFAULT))
        with pytest.raises(RegistryRefusal, match="not deleted first") as caught:
            await found.delete_version("s", "1", permanent=True)
        assert caught.value.code == 40407
        assert await found.delete_version("s", "1", permanent=False) == 1
        with pytest.raises(RegistryRefusal, match="was soft deleted") as caught:
            await found.delete_version("s", "1", permanent=False)
        assert caught.value.code == 40406
        assert found.with_id(1)[0].text == V1  # What was written with it stays readable.
        assert [each.version for each in found.state.versions("s")] == [2]
        again = await found.register("s", avro(V1))
        assert (again.version, again.number) == (3, 1)
        assert await found.delete_version("s", "1", permanent=True) == 1
        assert await found.delete_subject("s", permanent=False) == [2, 3]
        with pytest.raises(RegistryRefusal) as caught:
            await found.delete_subject("s", permanent=False)
        assert caught.value.code == 40404
        assert await found.delete_subject("s", permanent=True) == [2, 3]
        with pytest.raises(RegistryRefusal) as caught:
            await found.delete_subject("s", permanent=True)
        assert caught.value.code == 40401
        with pytest.raises(RegistryRefusal, match="Schema 1 not found"):
            found.with_id(1)

    run(work())


def test_a_subject_that_is_current_is_not_deleted_for_good() -> None:
    found = registry()
    run(found.register("s", avro(V1)))
    assert refused(found.delete_subject("s", permanent=True)).code == 40405


def test_references_are_found_kept_and_guarded() -> None:
    found = registry()
    order = '{"type":"record","name":"Order","fields":[{"name":"item","type":"R"}]}'
    reference = Reference("R", "item", 1)

    async def work() -> None:
        with pytest.raises(RegistryRefusal, match="no schema reference found") as caught:
            await found.register("order", avro(order, reference))
        assert caught.value.code == 42201
        await found.register("item", avro(V1))
        placed = await found.register("order", avro(order, reference))
        assert placed.references == (reference,)
        assert (await found.find("order", avro(order, reference))).number == placed.number
        with pytest.raises(RegistryRefusal, match="references exist") as caught:
            await found.delete_version("item", "1", permanent=False)
        assert caught.value.code == 42206
        with pytest.raises(RegistryRefusal, match="references exist"):
            await found.delete_subject("item", permanent=False)
        await found.delete_subject("order", permanent=False)
        assert await found.delete_version("item", "1", permanent=False) == 1

    run(work())


def test_modes_forbid_what_they_should() -> None:
    found = registry()

    async def work() -> None:
        await found.register("s", avro(V1))
        await found.set_mode("s", Mode.READONLY, force=False)
        for refused_work in (
            found.register("s", avro(V2_DEFAULT)),
            found.delete_version("s", "1", permanent=False),
            found.delete_subject("s", permanent=False),
            found.set_config("s", {"compatibilityLevel": "NONE"}),
        ):
            with pytest.raises(RegistryRefusal, match="read-only") as caught:
                await refused_work
            assert caught.value.code == 42205
        await found.register("t", avro(V1))
        await found.set_mode("", Mode.READONLY_OVERRIDE, force=False)
        await found.set_mode("t", Mode.READWRITE, force=False)
        with pytest.raises(RegistryRefusal, match="read-only"):
            await found.register("t", avro(V2_DEFAULT))
        assert await found.remove_mode("") == "READONLY_OVERRIDE"
        await found.register("t", avro(V2_DEFAULT))

    run(work())


def test_import_takes_schemas_with_their_ids() -> None:
    found = registry()

    async def work() -> None:
        with pytest.raises(RegistryRefusal, match="not in import mode"):
            await found.register("s", avro(V1, number=77))
        await found.set_mode("s", Mode.IMPORT, force=False)
        placed = await found.register("s", avro(V1, number=77))
        assert placed.number == 77
        assert (await found.register("s", avro(V1, number=77))).version in (1, 2)
        with pytest.raises(RegistryRefusal, match="is not permitted"):
            await found.register("s", avro(V2, number=77))
        with pytest.raises(RegistryRefusal, match="with its id"):
            await found.register("s", avro(V2))
        await found.set_mode("s", Mode.READWRITE, force=False)
        assert (await found.register("t", avro(V2))).number == 78
        with pytest.raises(RegistryRefusal, match="Cannot import"):
            await found.set_mode("t", Mode.IMPORT, force=False)
        await found.set_mode("t", Mode.IMPORT, force=True)

    run(work())


def test_two_registries_on_one_topic_never_give_one_id_twice() -> None:
    """Between each decision of the one and its write, the other writes, too."""
    shared = SharedLog()
    one, other = registry(shared), registry(shared)

    async def work() -> None:
        await asyncio.gather(
            *(one.register(f"one-{i}", avro(record(A, name=f"One{i}"))) for i in range(10)),
            *(other.register(f"other-{i}", avro(record(A, name=f"Other{i}"))) for i in range(10)),
        )
        await one.fresh(lambda: one.require_subject("other-9"))

    run(work())
    run(other._log.catch_up())
    for each in (one, other):
        ids = [version.number for version in each.state]
        assert sorted(ids) == list(range(1, 21))
        assert each.state.passed_over == 0


def test_what_is_decided_when_another_wrote_is_decided_again() -> None:
    shared = SharedLog()
    one, other = registry(shared), registry(shared)
    run(one.register("s", avro(V1)))

    async def work() -> None:
        done = False

        def between() -> None:
            nonlocal done
            if not done and shared.owner is one._log:
                done = True
                shared.between = lambda: None
                # The other takes over and writes the version that the first is about to write.
                shared.owner = other._log  # type: ignore[assignment]  # a MemoryLog
                shared.records.append(
                    (
                        b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}',
                        b'{"subject":"s","version":2,"id":2,"schema":"\\"int\\"","deleted":false}',
                    )
                )

        shared.between = between
        await one.set_config("s", {"compatibilityLevel": "NONE"})
        done = False
        shared.between = between
        placed = await one.register("s", avro(V2_DEFAULT))
        assert (placed.version, placed.number) == (3, 3)

    run(work())
    assert one.state.passed_over == 0


def test_what_another_registry_wrote_is_found() -> None:
    shared = SharedLog()
    one, other = registry(shared), registry(shared)
    run(one.register("s", avro(V1)))
    assert run(other.fresh(lambda: other.with_id(1)))[0].subject == "s"
    assert run(other.find("s", avro(V1))).version == 1


@pytest.mark.parametrize(
    "text", ["0", "-2", "1.5", "x", "", "99999999999999999999999", "0" * 19 + "1" + "9" * 5_000, "２"]
)
def test_what_is_no_version_says_so(text: str) -> None:
    with pytest.raises(RegistryRefusal) as caught:
        version_number(text)
    assert caught.value.code == 42202


@pytest.mark.parametrize("subject", ["", " ", "a\nb", "__GLOBAL", "x" * 2_000, ":.ctx:"])
def test_what_is_no_subject_says_so(subject: str) -> None:
    assert refused(registry().register(subject, avro(V1))).code == 42208


def test_no_more_schemas_are_kept_ready_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "MOST_PARSED_TEXT", 10_000)
    one = registry()
    for number in range(20):
        assert run(one.verdict("s", avro(f'{{"type":"int","doc":"{number:02}{"x" * 1_000}"}}'))).fits
    assert 8_000 < sum(each.size for each in one._parsed) <= 10_000


@pytest.mark.parametrize("text", ["", "   ", "{", '{"type":"record"}'])
def test_what_is_no_schema_says_so(text: str) -> None:
    assert refused(registry().register("s", avro(text))).code == 42201


def test_references_in_a_circle_are_refused() -> None:
    """No registry writes them, and a topic may hold anything."""
    shared = SharedLog()
    for version, other in ((1, 2), (2, 1)):
        found = SchemaVersion(
            "s", version, version, "AVRO", record(A, name=f"R{version}"), (Reference("n", "s", other),)
        )
        shared.records.append(encode(found))
    one = registry(shared)
    run(one.fresh(lambda: one.require_subject("s")))
    problem = refused(one.register("t", avro(V1, Reference("n", "s", 1))))
    assert (problem.code, "in a circle" in problem.message) == (42201, True)
    assert not run(one.verdict("s", avro(V1))).fits


@pytest.mark.parametrize("whole", [True, False])
def test_an_id_is_not_given_again_once_its_schema_is_deleted_and_the_topic_is_compacted(whole: bool) -> None:
    """A registry that started then gave it to another schema, and records that name it were read as something else."""
    shared = SharedLog()
    found = registry(shared)

    async def work() -> None:
        await found.register("s", avro(V1))
        await found.register(":.a:s", avro(V1))
        await found.register("t", avro(V2))
        if whole:
            await found.delete_subject("t", permanent=False)
            await found.delete_subject("t", permanent=True)
        else:
            await found.delete_version("t", "1", permanent=False)
            await found.delete_version("t", "1", permanent=True)
        shared.compact()
        later = registry(shared)
        assert (await later.register("u", avro('"string"'))).number == 3
        assert (await later.register(":.a:u", avro('"string"'))).number == 2

    run(work())


def test_while_brokers_are_away_nobody_says_that_a_schema_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another registry may have registered it: a reader that is told so counts good records as bad."""
    found = registry()
    run(found.register("s", avro(V1)))

    async def away() -> None:
        raise store_failed("no broker answers")

    monkeypatch.setattr(found._log, "catch_up", away)

    async def ask(question: Any) -> object:
        return await found.fresh(question)

    assert refused(ask(lambda: found.with_id(7))).code == 50001
    assert refused(ask(lambda: found.version("s", "2"))).code == 50001
    assert refused(ask(lambda: found.require_subject("t"))).code == 50001

    def look() -> None:
        raise level_not_configured("s")

    assert refused(ask(look)).code == 40408
