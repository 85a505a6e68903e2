"""Scenarios of transactions (S44 to S49): all or nothing, once, and no open end.

Source: docs/design/known-bugs.md; KIP-98, KIP-447, KIP-890.
"""

from __future__ import annotations

from kavka.client.producer import Producer
from kavka.client.transactions import GroupMetadata, ProducerFenced
from kavka.simulator.scenarios.play import PARTITION, TRANSACTIONS, A, B, C, Play, Writer
from kavka.simulator.scenarios.registry import scenario

SETTINGS = {"transaction.state.log.num.partitions": "1", "transaction.state.log.replication.factor": "3"}
READERS = "readers"
REBALANCE_DELAY_S = 3.0
"""group.initial.rebalance.delay.ms: how long an empty group waits for more members."""


def _writer(play: Play, name: str = "payments") -> Writer:
    writer = Writer(play, name)
    failure = writer.init()
    play.require(failure is None, f"{failure!r}")
    return writer


def _write(play: Play, writer: Writer, *values: bytes) -> None:
    play.require(writer.begin() is None, "a transaction begins")
    for value in values:
        failure = writer.write(value)
        play.require(failure is None, f"{value!r}: {failure!r}")


async def _send_one(producer: Producer) -> None:
    await (await producer.send(PARTITION.topic, b"one", partition=PARTITION.partition))


def _is_settled(play: Play) -> None:
    """No transaction is open: what is committed can be read to its end."""
    leader = play.leader
    play.until(lambda: play.last_stable_offset(leader) == play.log_end(leader), "no transaction is open")


@scenario("S44: a record of an aborted transaction arrives late")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    writer = _writer(play)
    _write(play, writer, b"one")
    stamp = play.stamp_at(0)
    play.require(writer.abort() is None, "aborted")
    _is_settled(play)
    late = play.begin_write(
        stamp=stamp._replace(base_sequence=stamp.base_sequence + 1), value=b"two", transactional_id="payments"
    )
    answer = play.answer_of(late)
    play.require(not answer.is_acknowledged, "a record was taken into a transaction that is over")
    play.run_for(1.0)
    _is_settled(play)
    _write(play, writer, b"three")
    play.require(writer.commit() is None, "committed")
    found = [value for _, value in play.reader(committed=True).read()]
    play.require(found == [b"three"], f"{found}")
    play.finish()


@scenario("S44: the coordinator's record of a partition is lost after it was read")
def _(seed: int) -> None:
    settings = {**SETTINGS, "kavka.eligible.leader.replicas.enable": "true"}
    play = Play(seed, settings=settings, topic={"min.insync.replicas": "1"})
    writer = _writer(play)
    play.hand_over(A, B, C, which=TRANSACTIONS)
    play.run_for(0.5)
    play.kill(C)
    play.until(lambda: sorted(play.state(TRANSACTIONS).isr) == [A, B], "C is out")
    end = play.log_end(A, TRANSACTIONS)
    play.until(lambda: play.log_end(B, TRANSACTIONS) == end, "B has all that is there")
    play.hold_requests(B, A)
    play.require(writer.begin() is None, "a transaction begins")
    sending = writer.begin_to(_send_one)
    play.until(lambda: play.log_end(A, TRANSACTIONS) > end, "the partition is added, and only A knows")
    play.pause(B)
    play.until(lambda: list(play.state(TRANSACTIONS).isr) == [A], "B is out")
    play.run_for(4.0)
    epoch = play.state(TRANSACTIONS).leader_epoch
    play.lose_session(A)
    play.until(lambda: play.leads(A, TRANSACTIONS) and play.state(TRANSACTIONS).leader_epoch > epoch, "A leads again")
    play.run_for(12.0)
    play.require(play.log_end(A) == 0, "a record was taken into a transaction that is not committed to have begun")
    play.kill(A)
    play.release(B, A)
    play.resume(B)
    play.until(lambda: play.leads(B, TRANSACTIONS), "B leads, who was never told")
    play.start(A, C)
    failure = writer.wait(sending)
    play.require(failure is None, f"{failure!r}")
    play.require(writer.abort() is None, "aborted")
    _is_settled(play)
    play.finish()


@scenario("S46: the coordinator dies after it decided the outcome and before it told anybody")
def _(seed: int) -> None:
    for commits in (True, False):
        play = Play(seed, settings=SETTINGS)
        writer = _writer(play)
        if play.state(TRANSACTIONS).leader != B:
            others = [each for each in play.state(TRANSACTIONS).isr if each != B]
            play.hand_over(B, *others, which=TRANSACTIONS)
            play.run_for(0.5)
        _write(play, writer, b"one", b"two")
        play.cut(B, A, both=False)
        end = writer.begin_to_end(commit=commits)
        play.run_for(0.5)
        play.require(play.last_stable_offset(A) == 0, "A was not told")
        play.kill(B)
        play.heal(B, A)
        failure = writer.wait(end)
        play.require(failure is None, f"{failure!r}")
        _is_settled(play)
        found = [value for _, value in play.reader(committed=True).read()]
        play.require(found == ([b"one", b"two"] if commits else []), f"{found}")
        play.start(B)
        play.finish()


@scenario("S46: the leader of the records changes before the markers come")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    writer = _writer(play)
    _write(play, writer, b"one", b"two")
    play.until(lambda: play.high_watermark(B) == 2, "B knows that they are committed")
    if play.state(TRANSACTIONS).leader != C:
        play.hand_over(C, A, B, which=TRANSACTIONS)
        play.run_for(0.5)
    play.cut(C, A, both=False)
    end = writer.begin_to_end(commit=True)
    play.run_for(0.5)
    play.require(play.last_stable_offset(A) == 0, "A was not told")
    play.kill(A)
    play.heal(C, A)
    play.until(lambda: play.leads(B), "B leads")
    failure = writer.wait(end)
    play.require(failure is None, f"{failure!r}")
    _is_settled(play)
    found = [value for _, value in play.reader(committed=True).read()]
    play.require(found == [b"one", b"two"], f"{found}")
    play.start(A)
    play.finish()


@scenario("S48: a producer whose twin took over can neither write nor end a transaction")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    former = _writer(play)
    _write(play, former, b"of the former one")
    twin = _writer(play)
    _is_settled(play)
    failure = former.write(b"late")
    play.require(failure is not None, "a former self writes")
    play.require(former.commit() is not None, "a former self commits")
    failure = former.abort()
    play.require(isinstance(failure, ProducerFenced), f"a former self aborts: {failure!r}")
    _write(play, twin, b"of the twin")
    play.require(twin.commit() is None, "the twin commits")
    found = [value for _, value in play.reader(committed=True).read()]
    play.require(found == [b"of the twin"], f"{found}")
    play.finish()


@scenario("S48: a twin takes over between two transactions")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    former = _writer(play)
    twin = _writer(play)
    _write(play, twin, b"of the twin")
    play.require(former.begin() is None, "a former self does not know yet")
    play.require(former.write(b"of the former one") is not None, "a former self writes")
    play.require(twin.commit() is None, "the twin commits")
    play.require(isinstance(former.abort(), ProducerFenced), "a former self goes on")
    found = [value for _, value in play.reader(committed=True).read()]
    play.require(found == [b"of the twin"], f"{found}")
    play.finish()


@scenario("S49: offsets of a member that was removed from its group are refused, in a transaction too")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    play.write_ok(2)
    former = play.reader(group=READERS, committed=True)
    play.require(len(former.read()) == 2, "the former member has the partition")
    writer = _writer(play)
    _write(play, writer, b"made by the former")
    former.pause()
    successor = play.reader(group=READERS, committed=True)
    play.require(len(successor.read()) == 2, "the successor reads what nothing was committed of")
    former.resume()
    play.until(lambda: not former.is_member, "the former one hears that it is no member any more")
    failure = writer.send_offsets(2, former.group_metadata)
    play.require(failure is not None, "a former member commits what its successor has been given")
    play.require(writer.abort() is None, "aborted")
    _write(play, writer, b"made by the successor")
    failure = writer.send_offsets(2, successor.group_metadata)
    play.require(failure is None, f"a member's offsets are taken: {failure!r}")
    play.require(writer.commit() is None, "committed")
    _is_settled(play)
    made = [value for _, value in play.reader(committed=True).read()][2:]
    play.require(made == [b"made by the successor"], f"{made}")
    play.until(lambda: play.committed(READERS) == 2, "the group is behind what was made")
    play.finish()


@scenario("S49: a consumer that takes over waits until open transactions on the group's offsets end")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    play.write_ok(2)
    writer = _writer(play)
    _write(play, writer, b"made")
    play.require(writer.send_offsets(2, GroupMetadata(READERS)) is None, "offsets are part of the transaction")
    successor = play.reader(group=READERS, committed=True)
    reading = successor.begin_read()
    play.run_for(REBALANCE_DELAY_S + 3.0)
    play.require(not reading.done(), "the successor begins before it is known where")
    play.require(writer.commit() is None, "committed")
    # Its first poll may have waited for the offsets for longer than it waits for records.
    found = [value for _, value in [*successor.wait(reading), *successor.read()]]
    play.require(found == [b"made"], f"the successor begins behind what the group has done: {found}")
    play.finish()
