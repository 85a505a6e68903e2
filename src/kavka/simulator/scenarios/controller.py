"""Scenarios of the controller and ZooKeeper (S25 to S36): who decides, who is told, and who is too late.

Source: docs/design/known-bugs.md.
"""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.model import NO_LEADER
from kavka.simulator.host.broker import Halt
from kavka.simulator.scenarios.play import OFFSETS, ZOOKEEPER, A, B, C, D, Play
from kavka.simulator.scenarios.registry import LAGGING, scenario


@scenario("S25: a controller that slept while another one was elected changes nothing")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.pause(D)
    play.until(lambda: play.controller not in (-1, D), "another controller")
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.start(C)
    play.expect(leader=A, isr=(A, B, C))
    play.resume(D)
    play.run_for(5.0)
    play.expect(leader=A, isr=(A, B, C))
    play.write_ok()
    play.finish()


@scenario("S25: a controller that was replaced writes nothing, although its session lives")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    # D hears nothing from ZooKeeper, which hears D; of C's death D alone hears.
    play.cut(ZOOKEEPER, D, both=False)
    play.cut(C, ZOOKEEPER)
    for other in (A, B):
        play.cut(other, C)
    play.delete_controller_node()
    play.until(lambda: play.controller in (A, B), "another controller")
    epoch = play.controller_epoch
    play.kill(C)
    play.run_for(1.0)
    play.require(play.state().controller_epoch < epoch, "nobody noticed yet")
    play.require(C in play.stored[1], f"a former controller wrote {play.state()}")
    for other in (A, B):
        play.heal(other, C)
    play.heal(ZOOKEEPER, D)
    play.heal(C, ZOOKEEPER)
    play.expect(leader=A, isr=(A, B))
    play.require(play.state().controller_epoch >= epoch, f"{play.state()}")
    play.start(C)
    play.finish()


@scenario("S26: a broker is gone and back before the controller looks")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.cut(D, ZOOKEEPER)
    play.kill(B)
    play.start_only(B)
    play.run_for(0.8)
    play.heal(D, ZOOKEEPER)
    play.expect(leader=A, isr=(A, B, C))
    play.kill(A)
    play.until(lambda: play.leader in (B, C), "another leader")
    play.read_acknowledged()
    play.finish()


@scenario("S26: the leader is gone and back before the controller looks")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.cut(D, ZOOKEEPER)
    play.power_cut(A)
    play.start_only(A)
    play.run_for(0.8)
    play.heal(D, ZOOKEEPER)
    play.until(lambda: play.leader >= 0 and sorted(play.stored[1]) == [A, B, C], "all in sync")
    play.read_acknowledged()
    play.finish()


@scenario("S26: a leader that was the controller, too, loses power and is back before its session ends")
def _(seed: int) -> None:
    play = Play(seed, controller=A)
    play.write_ok(10)
    before = play.registration(A)
    play.power_cut(A)
    play.start_only(A)
    # Nobody else sees that A was gone: it is registered, and is the controller again, before another one can be.
    play.run_for(2.5)
    for other in (B, C, D):
        play.cut(other, ZOOKEEPER)
    play.until(lambda: play.registration(A) > before, "A is registered")
    play.until(lambda: play.controller == A, "A is the controller again")
    for other in (B, C, D):
        play.heal(other, ZOOKEEPER)
    play.until(lambda: play.leader >= 0 and sorted(play.stored[1]) == [A, B, C], "all in sync")
    play.read_acknowledged()
    play.finish()


@scenario("S27: an old order to delete a replica does not delete the one that came after it")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    # The order to C is on its way while C is taken out and put back.
    play.cut(D, C, both=False)
    play.reassign(A, B)
    play.expect(leader=A, isr=(A, B))
    play.reassign(A, B, C)
    play.run_for(1.0)
    play.heal(D, C)
    play.expect(leader=A, isr=(A, B, C))
    play.run_for(5.0)
    play.require(play.log_end(C) == 5, "the replica is there")
    play.finish()


@scenario("S27: an order to delete a replica is sent twice, and the first one arrives last")
def _(seed: int) -> None:
    play = Play(seed, settings={"controller.socket.timeout.ms": "1000"})
    play.write_ok(5)
    # The order to C, which comes behind the news, waits on its way until D gives it again on another connection.
    epoch = play.epoch
    play.reassign(A, B, wait=False)
    play.until(lambda: play.told(C) == (A, epoch + 1), "C has heard")
    play.hold_requests(D, C)
    play.expect(leader=A, isr=(A, B))
    play.until(lambda: play.partition(C) is None, "C has no replica any more")
    play.reassign(A, B, C)
    play.expect(leader=A, isr=(A, B, C))
    play.release(D, C)
    play.run_for(1.0)
    play.require(play.log_end(C) == 5, "the replica is gone")
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S27: an order to follow is sent twice, and the first one arrives when another broker leads")
def _(seed: int) -> None:
    play = Play(seed, settings={"controller.socket.timeout.ms": "1000", **LAGGING})
    play.write_ok(5)
    play.hold_requests(D, C)
    play.hand_over(B, A, C)
    play.until(lambda: play.known_epoch(C) == play.epoch, "C is told again, on another connection")
    play.hand_over(A, B, C)
    play.until(lambda: play.known_epoch(C) == play.epoch, "C follows A again")
    play.release(D, C)
    play.run_for(0.5)
    play.write_ok()
    play.expect(leader=A, isr=(A, B, C))
    play.require(play.known_epoch(C) == play.epoch, "C is in an epoch that is over")
    play.finish()


@scenario("S28: a broker whose session ended registers again, and is in sync again")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    for broker_id in (B, A, D, C):
        play.lose_session(broker_id)
        play.run_for(0.3)
        play.until(lambda: play.leader >= 0 and len(play.stored[1]) == 3, "all in sync again")
        play.write_ok()
    play.finish()


@scenario("S28: the session of an unreachable broker ends, and its znode comes back with it")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.cut(B, ZOOKEEPER)
    play.expect(leader=A, isr=(A, C))
    play.heal(B, ZOOKEEPER)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S29: the session of a coordinator ends while it takes over its groups")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(9)
    play.commit("readers", 1)
    for offset in range(2, 6):
        former = play.state(OFFSETS).leader
        play.kill(former)
        play.lose_session(play.another_leader(former, OFFSETS))
        play.run_for(0.5)
        play.start(former)
        play.require(play.committed("readers") == offset - 1, "what was committed last")
        play.commit("readers", offset)
    play.finish()


@scenario("S29: a coordinator that leads again has read what was committed meanwhile")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(9)
    play.commit("readers", 1)
    first, second, *others = play.state(OFFSETS).isr
    play.hand_over(second, first, *others, which=OFFSETS)
    play.commit("readers", 2)
    play.hand_over(first, second, *others, which=OFFSETS)
    play.require(play.committed("readers") == 2, "what was committed last")
    play.finish()


@scenario("S30: in the end all brokers name the same leader and epoch")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.hold_requests(D, C)
    play.hold_requests(D, B)
    play.hand_over(B, A, C)
    play.hand_over(A, B, C)
    play.kill(B)
    play.expect(leader=A, isr=(A, C))
    play.release(D, C)
    play.start(B)
    play.expect(leader=A, isr=(A, B, C))
    play.run_for(1.0)
    told = {each: play.told(each) for each in (A, B, C, D)}
    play.require(set(told.values()) == {(A, play.epoch)}, f"stored is {play.state()}, told is {told}")
    play.require(len(play.fetch(0, epoch=play.epoch).values) == 3, "a reader that was told so is served")
    play.finish()


@scenario("S31: an order that did not get through is sent again until it does")
def _(seed: int) -> None:
    play = Play(seed, settings={"controller.socket.timeout.ms": "1000"})
    play.write_ok(3)
    play.cut(D, B, both=False)
    play.kill(A)
    play.until(lambda: play.leader == B, "B is elected")
    play.run_for(2.5)
    play.require(not play.leads(B), "B cannot know yet")
    play.heal(D, B)
    play.until(lambda: play.leads(B), "B leads")
    play.write_ok()
    play.finish()


@scenario("S32: what changed while ZooKeeper was out of reach is seen when it is back")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    # B dies while the controller hears neither it nor ZooKeeper, for so long that it connects anew.
    play.cut(D, ZOOKEEPER)
    play.cut(B, D)
    play.lose_session(B)
    play.power_cut(B)
    play.run_for(2.4)
    play.heal(D, ZOOKEEPER)
    play.expect(leader=A, isr=(A, C))
    play.heal(B, D)
    play.start(B)
    play.expect(leader=A, isr=(A, B, C))
    play.cut(A, ZOOKEEPER)
    play.set_topic(min_insync_replicas="3")
    play.run_for(2.4)
    play.heal(A, ZOOKEEPER)
    play.run_for(3.0)
    play.keep_out(C)
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    play.let_in(C)
    play.finish()


@scenario("S33: the controller dies after it stored a new leader and before it told anybody")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    for other in (B, C):
        play.cut(D, other, both=False)
    play.kill(A)
    play.until(lambda: play.leader == B, "B is stored as the leader")
    play.kill(D)
    play.until(lambda: play.leads(B) or play.leader == C, "the next controller tells")
    play.expect(isr=(B, C))
    play.write_ok()
    play.finish()


@scenario("S34: no preferred election of a leader that is not in sync")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    play.write_ok(3)
    play.cut(A, B)
    play.start(A)
    play.elect_preferred()
    play.run_for(1.0)
    play.require(play.leader == B, f"{play.stored}")
    play.heal(A, B)
    play.expect(leader=B, isr=(A, B, C))
    play.elect_preferred()
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S35: unclean elections are allowed while nobody leads")
def _(seed: int) -> None:
    play = Play(seed, settings={"min.insync.replicas": "1"}, allow_loss=True)
    play.write_ok(3)
    play.keep_out(B)
    play.keep_out(C)
    play.write_ok(5, acks=1)
    play.kill(A)
    play.expect(leader=NO_LEADER, isr=(A,))
    play.let_in(B)
    play.let_in(C)
    play.until(lambda: play.registration(A) < 0, "A is given up for dead")
    controller = play.controller
    play.set_topic(unclean_leader_election_enable="true")
    play.until(lambda: play.leader in (B, C), "somebody leads")
    play.require(play.controller == controller, "no other controller was needed")
    play.write_ok(acks=1)
    play.start(A)
    play.until(lambda: sorted(play.stored[1]) == [A, B, C], "all follow")
    play.require(play.log_end(A) == play.log_end(B) == play.log_end(C) < 10, "A cut off what the others never had")
    play.require(play.committed_truncations(A) == 1, "and it counts that this was committed")
    play.finish()


@scenario("S36: the controller's node is deleted by hand")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.lose_session(D)
    play.until(lambda: play.controller >= 0, "a controller again")
    play.kill(B)
    play.expect(leader=A, isr=(A, C))
    play.write_ok()
    play.finish()


@scenario("S36: a topic is created under the name of one that was deleted while a replica was away")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.delete_topic()
    play.require(play.has_topic, "C still has its replica")
    play.start(C)
    play.until(lambda: not play.has_topic, "the topic is gone")
    play.create_topic()
    play.write_ok(2)
    play.expect(leader=A, isr=(A, B, C))
    play.require(len(play.read()) == 2, "nothing of the former topic")
    play.finish()


@scenario("S36: a topic is deleted while it is moved, and created again")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    # D is to have a replica, and does not hear of it.
    play.cut(A, D)
    play.reassign(A, B, D)
    play.run_for(0.5)
    play.delete_topic()
    play.run_for(0.5)
    play.heal(A, D)
    play.until(lambda: not play.has_topic, "the topic is gone")
    play.until(lambda: all(play.partition(each) is None for each in (A, B, C, D)), "so are its replicas")
    play.create_topic()
    play.write_ok(2)
    play.expect(leader=A, isr=(A, B, C))
    play.require(len(play.read()) == 2, "nothing of the former topic")
    play.run_for(2.0)
    play.require(play.partition(D) is None, "the move is over")
    play.finish()


@scenario("S36: a second broker with an id that is taken gives up, and the first one notices nothing")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    registration, version = play.registration(B), play.version
    halts: list[Halt] = []
    twin = play.start_twin(B, halts)
    play.until(lambda: bool(halts), "the second one gives up", within_s=60)
    play.require(not twin.is_serving, "it serves")
    play.require((play.registration(B), play.version) == (registration, version), "the first one lost something")
    play.write_ok()
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    play.read_acknowledged()
    play.start(A)
    play.finish()
