"""`kavka groups` for share groups, with the same verbs as for others; the same against Apache Kafka 4.3."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.kit.command_line import run_alone
from tests.kit.process_cluster import eventually
from tests.kit.share_group import ShareGroup
from tests.kit.share_member import ACCEPT, RENEW, ShareMember

LOCK_MS = 60_000
PEERS = {"kavka": "kavka_broker", "apache 4": "apache_kafka_kraft"}


class Place(ShareGroup):
    """Its members accept 0 to 2 and 5 to 7. `tells`: the broker is kavka's, and knows which records are in flight.

    `reader`, where there is one, is heard of after each command, and its locks begin anew: it holds records through a
    dozen commands, which on a busy machine take longer than a lock of 30 s, or than the 45 s of silence that end a
    membership, as they are by default. Both are LOCK_MS here, the most that brokers allow by default.
    """

    def __init__(self, bootstrap: str, *, tells: bool) -> None:
        super().__init__(int(bootstrap.rpartition(":")[2]))
        self.bootstrap = bootstrap
        self.tells = tells
        self.topic = self.group = self.name
        self.reader: ShareMember | None = None

    def run(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[bytes]:
        result = run_alone(*words, KAVKA_BOOTSTRAP=self.bootstrap)
        assert result.returncode == status, result.stderr.decode()
        if self.reader is not None:
            assert self.reader.beat().error_code == 0
            held = ((3, 4, [RENEW]), (8, 9, [RENEW]))
            assert self.reader.acknowledge(self.topic_id, *held, is_renew_ack=True) == 0
        return result

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").stdout)

    def offsets(self) -> tuple[int | None, int | None]:
        """(start offset, lag) of partition 0."""
        (found,) = self.json("groups", "describe", self.group)
        place = found["offsets"][0]
        return place["start"], place["lag"]


@pytest.fixture(params=[name if name == "kavka" else pytest.param(name, marks=pytest.mark.kafka) for name in PEERS])
def place(request: pytest.FixtureRequest) -> Place:
    bootstrap = str(request.getfixturevalue(PEERS[request.param]).bootstrap)
    return Place(bootstrap, tells=request.param == "kavka")


def test_a_share_group_from_its_first_member_to_its_end(place: Place) -> None:
    patient = [f"{name}={LOCK_MS}" for name in ("share.record.lock.duration.ms", "share.session.timeout.ms")]
    place.run("configs", "set", "--group", place.group, *patient)
    with ShareMember(place.port, place.group, "reader") as member:
        member.join_assigned(place.topic)
        assert eventually("records come", lambda: member.fetch(place.topic_id)) == [(0, 9, 1)]
        assert member.acknowledge(place.topic_id, (0, 2, [ACCEPT]), (5, 7, [ACCEPT])) == 0
        place.reader = member
        listed = next(one for one in place.json("groups", "list", "--type", "share") if one["group_id"] == place.group)
        assert (listed["kind"], listed["state"]) == ("share", "Stable")
        (described,) = place.json("groups", "describe", place.group)
        assert (described["type"], described["assignor"]) == ("share", "simple")
        assert [each["member"] for each in described["members"]] == ["reader"]
        (row,) = described["offsets"]
        assert (row["end"], row["lag"], row["members"]) == (10, 4, ["reader"])
        shown = place.run("groups", "describe", place.group).stdout.decode()
        assert "reader" in shown
        assert place.group in place.run("groups", "describe", place.group, "--members").stdout.decode()
        if place.tells:
            _check_records_in_flight(place)
        else:
            refused = place.run("groups", "describe", place.group, "--in-flight", status=1)
            assert b"Apache Kafka has no API for that" in refused.stderr
        reset = ("groups", "reset-offsets", place.group, "-t", place.topic)
        refused = place.run(*reset, "--to-earliest", status=1).stderr
        assert b"set while it has no members" in refused
        assert b"stop its consumers first" in refused
        assert b"NON_EMPTY_GROUP" in place.run("groups", "delete", place.group, "--yes", status=1).stderr
        forget = place.run("groups", "delete-offsets", place.group, "-t", place.topic, "--yes", status=1)
        assert b"stop its consumers first" in forget.stderr
        place.reader = None
        member.leave()
    if place.tells:
        _check_what_the_last_member_left(place)
    assert b"Nothing was changed" in place.run(*reset, "--to-latest").stderr
    assert place.offsets()[1] == 4
    place.run(*reset, "--to-latest", "--execute")
    assert place.offsets() == (10, 0)
    place.run("groups", "reset-offsets", place.group, "--all-topics", "--shift-by", "-3", "--execute")
    assert place.offsets() == (7, 3)
    part = place.run("groups", "delete-offsets", place.group, "-t", f"{place.topic}:0", "--yes", status=2)
    assert b"forgets whole topics" in part.stderr
    place.run("groups", "delete-offsets", place.group, "-t", place.topic, "--yes")
    assert place.json("groups", "describe", place.group)[0]["offsets"] == []
    place.run("groups", "delete", place.group, "--yes")
    assert b"there is no group" in place.run("groups", "describe", place.group, status=1).stderr


def _check_records_in_flight(place: Place) -> None:
    """The member has accepted 0 to 2 and 5 to 7."""
    (described,) = place.json("groups", "describe", place.group, "--in-flight")
    (records,) = described["in_flight"]
    assert (records["start"], records["end"], records["in_flight"], records["run_count"]) == (3, 10, 4, 3)
    runs = [(run["first"], run["last"], run["state"], run["deliveries"], run["member_id"]) for run in records["runs"]]
    assert runs == [
        (3, 4, "acquired", 1, "reader"),
        (5, 7, "acknowledged", 1, None),
        (8, 9, "acquired", 1, "reader"),
    ]
    assert all(0 < run["lock_left_ms"] <= LOCK_MS for run in records["runs"] if run["member_id"])
    for offset, said in ((0, "has passed it"), (3, "member reader has it now, delivered 1 time"), (6, "accepted it")):
        way = place.run("trace", f"{place.topic}-0@{offset}").stdout.decode()
        assert f"Share groups, as they stand now:\n  group {place.group}" in way
        assert said in way
    shown = place.run("groups", "describe", place.group, "--in-flight").stdout.decode()
    assert "3 to 4" in shown
    assert "(reader)" in shown


def _check_what_the_last_member_left(place: Place) -> None:
    """Nobody holds records: what is stored is told, and from the one broker's ring why the record came back."""

    def told() -> bool:
        said = place.run("groups", "describe", place.group, "--in-flight").stderr.decode()
        return "its leader holds no records" in said and "first record not done 3, 4 records not done" in said

    def why() -> str:
        way = place.run("trace", f"{place.topic}-0@3").stdout.decode()
        return next((line for line in way.splitlines() if "the member's share session ended" in line), "")

    assert eventually("the command tells what is stored", told, timeout_s=60)
    assert f"group {place.group} gets 4 of records 3 to 9 again" in eventually(
        "the session's end is told", why, timeout_s=60
    )


def test_offsets_of_a_group_that_is_not_there_make_one_of_the_kind_that_is_asked_for(place: Place) -> None:
    def reset(group: str, *words: str, status: int = 0) -> str:
        topic = ("-t", place.topic, "--to-offset", "4")
        return place.run("groups", "reset-offsets", group, *topic, *words, status=status).stderr.decode()

    def kind(group: str) -> str:
        return str(place.json("groups", "describe", group)[0]["type"])

    share, classic = f"{place.name}-share", f"{place.name}-classic"
    assert f"There is no group {share} yet.\nNothing was changed" in reset(share, "--share")
    assert f"There was no group {share}: a share group was made." in reset(share, "--share", "--execute")
    assert "There was no group" not in reset(share, "--execute")
    assert kind(share) == "share"
    said = reset(classic, "--execute")
    assert f"There was no group {classic}: a classic group was made. Share consumers cannot join" in said
    assert "is a classic group" in reset(classic, "--share", "--execute", status=1)
    missing = place.run("groups", "reset-offsets", "nobody", "--all-topics", "--to-earliest", status=1).stderr
    assert b"there is no group nobody" in missing


def test_only_share_groups_have_records_in_flight(kavka_broker: Any) -> None:
    place = Place(str(kavka_broker.bootstrap), tells=True)
    place.run("produce", place.topic)
    place.run("consume", place.topic, "-g", "plain-readers", "-e", "-q")
    refused = place.run("groups", "describe", "plain-readers", "--in-flight", status=1)
    assert b"is not a share group" in refused.stderr


def test_settings_of_a_group_that_is_not_there_yet(place: Place) -> None:
    of = ("--group", f"{place.group}-new")
    assert b"Everything is at its default" in place.run("configs", "describe", *of).stderr
    place.run("configs", "set", *of, "share.auto.offset.reset=earliest", "share.session.timeout.ms=50000")
    place.run("configs", "set", *of, "share.auto.offset.reset=latest", "--dry-run")

    def is_set() -> bool:
        """Whether the broker that answers has heard of the change."""
        entries = {each["name"]: each for each in place.json("configs", "describe", *of)}
        return {name: (each["value"], each["source"]) for name, each in entries.items()} == {
            "share.auto.offset.reset": ("earliest", "GROUP"),
            "share.session.timeout.ms": ("50000", "GROUP"),
        }

    eventually("the settings are there", is_set)
    place.run("configs", "unset", *of, "share.session.timeout.ms")

    def shown() -> str:
        names = ("share.auto.offset.reset", "share.session.timeout.ms")
        return place.run("configs", "describe", *of, *names).stdout.decode()

    eventually("one is at its default again", lambda: "share.session.timeout.ms\t45000\tdefault\t" in shown())
    assert "share.auto.offset.reset\tearliest\tgroup\t" in shown()
    misspelt = place.run("configs", "set", *of, "share.auto.ofset.reset=latest", status=1).stderr
    assert b"no setting share.auto.ofset.reset of groups\n  Next: did you mean share.auto.offset.reset?" in misspelt
    misspelt = place.run("configs", "unset", *of, "share.auto.ofset.reset", status=2).stderr
    assert b"Next: did you mean share.auto.offset.reset?" in misspelt
