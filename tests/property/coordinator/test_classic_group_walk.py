"""Random walks of a classic group: joins, syncs, heartbeats and leaves, right and wrong, in any order and at any time.

I2  every join and sync that is held is answered exactly once
G2  the generation only rises, and a request of another generation or of a stranger changes nothing
G5  a rebalance ends within the largest rebalance time-out of its members, whatever they do
I6  when what is due has run out, which may make something else due, the next deadline lies ahead
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import (
    Effects,
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinProtocol,
    JoinRequest,
    Leaver,
    SyncAnswer,
    SyncRequest,
)
from kavka.errors import ErrorCode, RequestError

SESSION_MS, REBALANCE_MS = 10_000, 30_000
CALLS_OF_ONE_MOMENT = 20
"""Each of four members can be late for a join, a sync and a heartbeat, if its time-outs are none at all."""


class Walk:
    """Members remember what they were told; some requests lie about it."""

    def __init__(self, delay_ms: int) -> None:
        self.now_ms = 1_000
        self.group = ClassicGroup("g", GroupLimits(-1, 1_000_000, delay_ms, 4), self.now_ms)
        self.held: dict[int, tuple[str, int]] = {}
        self.answered: set[int] = set()
        self.ids: dict[int, str] = {}
        self.generations: dict[int, int] = {}
        self.leads: set[int] = set()
        self.tokens = 0
        self.generation = 0
        self.writing = False
        self.replaced: list[str] = []

    def carry_out(self, effects: Effects) -> None:
        for token, joined in effects.joins:
            self.answer(token)
            self.on_join(self.held.pop(token, ("", -1))[1], joined)
        for token, synced in effects.syncs:
            self.answer(token)
            place = self.held.pop(token, ("", -1))[1]
            if synced.error is ErrorCode.NONE and place >= 0:
                assert synced.assignment in (b"", f"{self.group.generation}".encode()), "of another generation"
        self.writing = self.writing or effects.write_group
        if effects.replaced:
            self.replaced.append(effects.replaced)
        assert self.group.generation >= self.generation, "the generation fell"
        self.generation = self.group.generation
        waiting = {member.join_token for member in self.group.members.values()} | {
            member.sync_token for member in self.group.members.values()
        }
        assert set(self.held) == waiting - {None}, "a request is held that nobody knows, or forgotten"

    def answer(self, token: int) -> None:
        assert token not in self.answered, "answered twice"
        self.answered.add(token)

    def on_join(self, place: int, joined: JoinAnswer) -> None:
        if joined.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED) and place >= 0:
            self.ids[place] = joined.member_id
            self.generations[place] = joined.generation
            self.leads.discard(place)
            if joined.leader == joined.member_id and joined.error is ErrorCode.NONE:
                self.leads.add(place)
        elif joined.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.ids.pop(place, None)

    def token(self, what: str, place: int) -> int:
        self.tokens += 1
        self.held[self.tokens] = (what, place)
        return self.tokens

    def act(self, action: tuple[Any, ...]) -> None:
        effects = Effects()
        group = self.group
        match action:
            case ("join", place, static, choices, lies, session_ms, rebalance_ms):
                member_id = "stolen" if lies else self.ids.get(place, "")
                request = JoinRequest(
                    member_id,
                    f"i{place}" if static else None,
                    "client",
                    "/127.0.0.1",
                    session_ms,
                    rebalance_ms,
                    "consumer",
                    [JoinProtocol(choice, b"") for choice in choices],
                    require_known_member_id=not static,
                )
                token = self.token("join", place)
                group.join(request, token, f"m{self.tokens}", self.now_ms, effects)
            case ("sync", place, off) if place in self.ids:
                generation = self.generations.get(place, -1) + off
                parts = {member: f"{generation}".encode() for member in group.members} if place in self.leads else {}
                token = self.token("sync", place)
                group.sync(
                    SyncRequest(self.ids[place], None, generation, None, None, parts), token, self.now_ms, effects
                )
            case ("beat", place, off) if place in self.ids:
                try:
                    group.heartbeat(self.ids[place], None, self.generations.get(place, -1) + off, self.now_ms)
                    assert not off or group.state is GroupState.DEAD, "another generation was let in"
                except RequestError:
                    pass
            case ("leave", place) if place in self.ids:
                group.leave([Leaver(self.ids.pop(place))], self.now_ms, effects)
            case ("written", error) if self.writing:
                self.writing = False
                group.on_written(group.generation, error, self.now_ms, effects)
                for member_id in self.replaced:
                    group.on_replacement_written(member_id, error, self.now_ms, effects)
                self.replaced.clear()
            case ("wait", ms):
                self.pass_time(ms)
        self.carry_out(effects)

    def pass_time(self, ms: int) -> None:
        until_ms, moment_ms, calls = self.now_ms + ms, -1, 0
        while True:
            deadline_ms = self.group.next_deadline_ms()
            if deadline_ms is None or deadline_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            effects = Effects()
            self.group.on_time(self.now_ms, effects)
            self.carry_out(effects)
            calls = calls + 1 if self.now_ms == moment_ms else 0
            moment_ms = self.now_ms
            assert calls < CALLS_OF_ONE_MOMENT, "a deadline that is over stays"
        self.now_ms = until_ms


PLACES = st.integers(0, 3)
ACTIONS = st.one_of(
    st.tuples(
        st.just("join"),
        PLACES,
        st.booleans(),
        st.lists(st.sampled_from(["range", "sticky"]), min_size=1, max_size=2, unique=True),
        st.sampled_from([False, False, False, True]),
        st.sampled_from([SESSION_MS, SESSION_MS, 1, 0, -1]),
        st.sampled_from([REBALANCE_MS, REBALANCE_MS, 0, -1]),
    ),
    st.tuples(st.just("sync"), PLACES, st.sampled_from([0, 0, 0, 1, -1])),
    st.tuples(st.just("beat"), PLACES, st.sampled_from([0, 0, 1, -1])),
    st.tuples(st.just("leave"), PLACES),
    st.tuples(st.just("written"), st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])),
    st.tuples(st.just("wait"), st.sampled_from([1_000, 5_000, 12_000])),
)


@settings(max_examples=300)
@given(st.sampled_from([0, 3_000]), st.lists(ACTIONS, min_size=5, max_size=60))
def test_everyone_is_answered_once_and_a_rebalance_ends(delay_ms: int, actions: list[tuple[Any, ...]]) -> None:
    walk = Walk(delay_ms)
    for action in actions:
        walk.act(action)
    # G5: nobody does anything any more.
    walk.act(("written", ErrorCode.NONE))
    walk.pass_time(REBALANCE_MS + SESSION_MS)
    walk.act(("written", ErrorCode.NONE))
    assert not [what for what, _place in walk.held.values() if what == "join"], "a join is held for ever"
    walk.pass_time(REBALANCE_MS + SESSION_MS)
    walk.act(("written", ErrorCode.NONE))
    walk.pass_time(2 * (REBALANCE_MS + SESSION_MS))
    assert walk.group.state is GroupState.EMPTY, walk.group.state
    assert not walk.held


def test_the_answers_of_the_walk_are_of_both_kinds() -> None:
    """The walk would prove little if nobody ever got an assignment."""
    walk = Walk(0)
    walk.act(("join", 0, True, ["range"], False, SESSION_MS, REBALANCE_MS))
    walk.act(("sync", 0, 0))
    seen: list[SyncAnswer] = []
    effects = Effects()
    walk.group.on_written(walk.group.generation, ErrorCode.NONE, walk.now_ms, effects)
    seen.extend(answer for _token, answer in effects.syncs)
    assert [answer.assignment for answer in seen] == [b"1"]
