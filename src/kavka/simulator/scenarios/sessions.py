"""Scenarios of sessions (S56 to S60, S68): logins that end, clocks that are set, users, quotas and tokens that change.

The clusters are secured (`clients.logins`): TLS and SASL on both listeners, an authorizer, and sessions of a few
seconds. Rules R27 to R29 are checked on the way, and R23 to R26.

Source: docs/design/known-bugs.md.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from kavka.client.cluster import Cluster
from kavka.client.delegation_token_admin import ShownToken, TokenAdmin
from kavka.client.quota_admin import QuotaAdmin
from kavka.client.security import SaslMechanism, SaslSettings
from kavka.client.user_admin import UserAdmin
from kavka.errors import KavkaError
from kavka.model import BrokerId
from kavka.security.delegation_tokens import Token, Wish
from kavka.security.principals import Principal
from kavka.security.quota_limits import Change, Entity
from kavka.security.scram_credentials import ScramMechanism
from kavka.security.secret import Secret
from kavka.simulator.clients.logins import ITERATIONS, password_of
from kavka.simulator.scenarios.play import ZOOKEEPER, A, B, C, D, Play, Writer
from kavka.simulator.scenarios.registry import scenario
from kavka.zookeeper.znode_paths import TOKEN_CHANGES_PATH, TOKENS_PATH

T = TypeVar("T")
SESSION_S = 8
SETTINGS = {
    "connections.max.reauth.ms": str(SESSION_S * 1_000),
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "delegation.token.expiry.check.interval.ms": "1000",
}
SETTLED_S = 17.0
"""After so long a rule knows what brokers must know (`rules.stored_access`)."""
HOUR_S = 3_600
OPERATOR = Principal("User", "admin")
MECHANISMS = [ScramMechanism.SHA_256]


class _Tokens(Protocol):
    """The tokens of one broker."""

    async def create(self, wish: Wish) -> tuple[Token, bytes]: ...


def _ask(play: Play, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Of an administrator."""
    return play.world.run_in_client("admin", work)


def _token(play: Play, owner: str, seconds: float, *renewers: Principal) -> ShownToken:
    principal = Principal("User", owner)
    return _ask(play, lambda cluster: TokenAdmin(cluster).create(principal, renewers, round(seconds * 1_000)))


def _with(token: ShownToken) -> SaslSettings:
    """How one logs in with it."""
    return _by_token(token.token_id, token.password)


def _by_token(token_id: str, password: str) -> SaslSettings:
    mechanism = SaslMechanism.SCRAM_SHA_256
    return SaslSettings(mechanism=mechanism, username=token_id, password=password, is_by_token=True)


def _is_answered(play: Play, broker_id: BrokerId = A) -> bool:
    """Whether a request of the present client is answered, over its present connection, or a new one."""
    task = play.begin_fetch(0, to=broker_id, wait_ms=0)
    play.until(task.done, "an answer, or none")
    return task.result().error is not None


@scenario("S56: a token's time is over in the middle of a transaction")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS, secured=True)
    lasts_s = 6.0
    writer = Writer(play, "app", timeout_ms=12_000, sasl=_with(_token(play, "transactor", lasts_s)))
    play.require(writer.init() is None, "the token lets its producer in")
    play.require(writer.begin() is None, "a transaction begins")
    play.require(writer.write(b"first") is None, "and has a record")
    play.run_for(lasts_s)
    play.require(writer.commit() is not None, "a commit without a session")
    reader = play.reader(committed=True)
    play.require(reader.read() == [], "what is not committed is not read")
    # Nobody ends it but time.
    play.until(lambda: play.last_stable_offset(A) == play.log_end(A) > 1, "the transaction is aborted")
    other = Writer(play, "app", timeout_ms=12_000, sasl=_with(_token(play, "transactor", 60.0)))
    play.require(other.init() is None, "a new token lets it in")
    play.require(other.begin() is None, "it begins anew")
    play.require(other.write(b"second") is None, "it writes")
    play.require(other.commit() is None, "it commits")
    play.require([value for _, value in reader.read()] == [b"second"], "one transaction is there")
    play.finish()


@scenario("S57: clocks are set while sessions last")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS, secured=True)
    # Of a session with a password a clock knows nothing.
    play.log_in("producer", once=True)
    play.write_ok()
    play.jump(A, HOUR_S)
    play.require(_is_answered(play), "a session ended with a clock that was set")
    play.write_ok()
    play.jump(A, -2 * HOUR_S)
    play.run_for(SESSION_S)
    play.require(not _is_answered(play), "a session goes on")
    play.jump(A, HOUR_S)
    # A session with a token ends when it was to end at its beginning.
    lasts_s = 5.0
    token = _token(play, "producer", lasts_s)
    play.run_for(0.5)
    play.log_in("producer", sasl=_with(token), once=True)
    play.require(_is_answered(play), "the token lets nobody in")
    play.jump(A, -HOUR_S)
    play.run_for(lasts_s)
    play.require(not _is_answered(play), "a session outlives its token")
    play.jump(A, HOUR_S)
    # Logins go by the clock of who is asked.
    longer = _token(play, "producer", 30.0)
    play.run_for(0.5)
    for set_by_s, is_good in ((HOUR_S, False), (-HOUR_S, True)):
        play.jump(A, set_by_s)
        play.log_in("producer", sasl=_with(longer), once=True)
        play.require(_is_answered(play, B), "B, whose clock is right, lets nobody in")
        play.require(_is_answered(play) is is_good, f"at A, whose clock was set by {set_by_s} s")
        play.jump(A, -set_by_s)
    # Clients that log in again in time notice nothing.
    play.log_in("producer")
    for _ in range(2 * SESSION_S):
        play.run_for(1.0)
        play.write_ok()
    play.finish()


@scenario("S58: a user is deleted while it has connections")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS, secured=True)
    play.run_for(SETTLED_S)
    play.log_in("producer", once=True)
    play.write_ok()
    _ask(play, lambda cluster: UserAdmin(cluster).remove("producer", MECHANISMS))
    play.run_for(1.5)
    # Who is in stays until its session is over, as in Apache Kafka.
    play.write_ok()
    play.run_for(SESSION_S)
    play.require(not _is_answered(play), "a deleted user goes on")
    for broker_id in (A, B, C, D):
        play.require(not _is_answered(play, broker_id), f"broker {broker_id} lets a deleted user in")
    play.log_in("consumer")
    play.require(_is_answered(play), "others are not concerned")
    password = Secret(password_of("producer"))
    _ask(play, lambda cluster: UserAdmin(cluster).set("producer", password, MECHANISMS, ITERATIONS))
    play.run_for(1.5)
    play.log_in("producer")
    play.write_ok()
    # Who logs in again, and is gone, ends with that login.
    _ask(play, lambda cluster: UserAdmin(cluster).remove("producer", MECHANISMS))
    play.run_for(0.9 * SESSION_S)
    play.require(not _is_answered(play), "a deleted user renews its session")
    play.finish()


@scenario("S59: a quota falls to nothing while its producer waits")
def _(seed: int) -> None:
    play = Play(seed, settings={**SETTINGS, "connections.max.reauth.ms": "0"}, secured=True)
    rate = 500

    def limit(value: float | None) -> None:
        change = Change("producer_byte_rate", value)
        _ask(play, lambda cluster: QuotaAdmin(cluster).alter(Entity("producer"), [change]))
        play.run_for(1.0)

    def waits(value: bytes) -> float:
        """For how long a record of the producer is on its way, in seconds."""
        began_ms = play.world.scheduler.now_ms
        task = play.begin_write(value=value, timeout_ms=60_000)
        play.until(task.done, "it is heard again", within_s=60)
        play.require(task.result().is_acknowledged, f"{task.result()}")
        return (play.world.scheduler.now_ms - began_ms) / 1_000

    limit(rate)
    play.log_in("producer")
    # What is too much is written all the same, and then there is silence: six seconds, by what was measured.
    play.require(waits(bytes(16 * rate)) < 1.0, "the first answer is late")
    limit(0)
    play.require(
        4.0 < waits(b"after the first") < 6.0, "it waits for as long as it was told, whatever is set meanwhile"
    )
    # Nothing is allowed any more: it waits until nothing counts that it sent, and no longer.
    play.require(10.0 < waits(b"after the second") < 12.0, "a wait for nothing at all")
    play.log_in("consumer")
    play.write_ok()
    limit(None)
    play.log_in("producer")
    play.require(waits(b"without a limit") < 1.0, "a new connection waits")
    play.finish()


@scenario("S60: the controller moves while it makes a token")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS, secured=True)
    lasts_s = 25.0
    made: list[tuple[Token, bytes] | KavkaError] = []

    async def make(store: _Tokens) -> None:
        principal = Principal("User", "producer")
        wish = Wish(principal, principal, (), round(lasts_s * 1_000))
        try:
            made.append(await store.create(wish))
        except KavkaError as failure:
            made.append(failure)

    play.cut(B, ZOOKEEPER)
    first = play.world.brokers[D]
    assert first.broker is not None
    assert first.broker.tokens is not None
    assert first.loop is not None
    task = first.loop.create_task(make(first.broker.tokens.store))
    if seed % 2 == 0:  # ZooKeeper's answer comes late: for a moment it does not know whether there is a token.
        play.cut(ZOOKEEPER, D, both=False)
        play.run_for(1.0)
        play.heal(ZOOKEEPER, D, both=False)
    play.until(task.done, "it has made a token")
    (token,) = made
    play.require(not isinstance(token, KavkaError), f"it has made none: {token!r}")
    assert not isinstance(token, KavkaError)
    play.kill(D)
    play.until(lambda: play.controller not in (D, -1), "another controller")
    play.run_for(3.5)
    play.delete_below(TOKEN_CHANGES_PATH)  # As they are after a while, before B has read them.
    play.heal(B, ZOOKEEPER)
    play.run_for(10.0)
    play.require(len(play.world.observer.paths_below(TOKENS_PATH)) == 1, "there is one token")
    sasl = _by_token(token[0].token_id, b64encode(token[1]).decode())
    for broker_id in (A, B, C):
        play.log_in("producer", sasl=sasl, once=True)
        play.require(_is_answered(play, broker_id), f"broker {broker_id} does not know the token")
    # The controller of that time removes it.
    play.until(lambda: not play.world.observer.paths_below(TOKENS_PATH), "it is removed after its end")
    play.run_for(1.0)
    for broker_id in (A, B, C):
        play.log_in("producer", sasl=sasl)
        play.require(not _is_answered(play, broker_id), f"broker {broker_id} lets in who has an old token")
    play.world.brokers[D].start()
    play.finish()


@scenario("S68: an operator renews and ends tokens while their holders log in again")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS, secured=True)
    play.run_for(SETTLED_S)
    kept, lapses = (_token(play, "producer", 60.0, OPERATOR) for _ in range(2))
    period_s = 4.0

    def until(token: ShownToken, seconds: float) -> None:
        """From now on it is good for so long."""
        _ask(play, lambda cluster: TokenAdmin(cluster).renew(token, round(seconds * 1_000)))

    for token in (kept, lapses):
        until(token, period_s)
    # A holder whose token is renewed in time notices nothing, with whichever broker.
    for number in range(6):
        play.run_for(1.5)
        play.log_in("producer", sasl=_with(kept), once=True)
        for broker_id in (A, B, C, D):
            play.require(_is_answered(play, broker_id), f"renewal {number}: broker {broker_id} locks a good client out")
        until(kept, period_s if number < 5 else 10 * period_s)
    # One that was renewed no more is out, everywhere.
    play.log_in("producer", sasl=_with(lapses), once=True)
    for broker_id in (A, B, C, D):
        play.require(not _is_answered(play, broker_id), f"broker {broker_id} lets in who has a token that ended")
    # One that had ended cannot be renewed; the operator makes another.
    play.require(_refuses(play, lapses), "a token is renewed after its end")
    shortened = _token(play, "producer", 60.0, OPERATOR)
    play.run_for(1.5)
    play.log_in("producer", sasl=_with(shortened))
    play.require(_is_answered(play), "a new token lets nobody in")
    _ask(play, lambda cluster: TokenAdmin(cluster).expire(shortened, 500))
    play.run_for(2.0)
    # Who is in stays until its session is over; who comes is not let in.
    play.log_in("producer", sasl=_with(shortened), once=True)
    for broker_id in (A, B, C, D):
        play.require(not _is_answered(play, broker_id), f"broker {broker_id} goes by the end that a token had before")
    _ask(play, lambda cluster: TokenAdmin(cluster).expire(kept, None))
    play.run_for(1.5)
    play.log_in("producer", sasl=_with(kept), once=True)
    for broker_id in (A, B, C, D):
        play.require(not _is_answered(play, broker_id), f"broker {broker_id} lets in who has a token that was ended")
    play.log_in("producer")
    play.write_ok()
    play.finish()


def _refuses(play: Play, token: ShownToken) -> bool:
    try:
        _ask(play, lambda cluster: TokenAdmin(cluster).renew(token, 60_000))
    except KavkaError:
        return True
    return False
