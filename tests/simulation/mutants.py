"""The bugs that are put back, one by one, to see that the simulator finds them; `mutation` tells how.

By theme, as the scenarios are: the four TLA+ variants that are not safe, divergence, the ISR, the controller, disks,
producers; `access_mutants` has those of access. Each says whose bug it was.
"""

from __future__ import annotations

from tests.simulation.access_mutants import ACCESS_MUTANTS
from tests.simulation.mutation import Change, Mutant, put_back

__all__ = ["MUTANTS", "Change", "Mutant", "put_back"]

CONTROLLER = "kavka.controller"
DECIDE = "kavka.controller.decide"
WORK = "kavka.controller.work"
REPLICA = "kavka.replication.decide.replica:RemoteReplica"
PARTITION = "kavka.replication.decide.partition:Partition"
DIVERGENCE = "kavka.replication.decide.divergence"
FETCH_STATE = "kavka.replication.decide.fetch_state:FetchState"
FOLLOWED = "kavka.replication.decide.followed_partitions:FollowedPartitions"
FOLLOWER_FETCHES = "kavka.replication.follower_fetches:FollowerFetches"
LOG = "kavka.log.unified_log:UnifiedLog"
STATE_CHANGES = "kavka.broker.metadata.state_changes:StateChanges"

NO_FENCE = Change(
    f"{PARTITION}.follower", "if current_leader_epoch >= 0 and current_leader_epoch != known:", "if False:"
)
NO_DIVERGENCE = Change(f"{DIVERGENCE}:diverging_epoch", "if last_fetched_epoch < 0:", "if True:")
ONCE_ONLY = Change(f"{FETCH_STATE}.on_records", "self.last_fetched_epoch = last_epoch", "self.last_fetched_epoch = -1")

MUTANTS = [
    # The four TLA+ variants that are not safe.
    Mutant(
        "truncate to high watermark",
        "KafkaTruncateToHighWatermark.tla, KAFKA-1211: a new follower cuts its log at its own high watermark",
        (Change(f"{FETCH_STATE}.begin", "if log.latest_epoch >= 0:", "if False:"),),
        ("S1:",),
    ),
    Mutant(
        "KIP-101 only",
        "Kip101.tla, KAFKA-6361: an answer tells where an epoch ends, but not which epoch that is",
        (
            Change(f"{DIVERGENCE}:diverging_epoch", "end.leader_epoch < last_fetched_epoch or ", ""),
            Change(f"{DIVERGENCE}:end_offset_for_epoch", "EpochEndOffset(epoch,", "EpochEndOffset(leader_epoch,"),
        ),
        ("KIP-279",),
    ),
    Mutant(
        "KIP-279 only",
        "Kip279.tla: fetches are not fenced, and logs are compared once, when a follower begins",
        (NO_FENCE, ONCE_ONLY),
        ("KIP-320", "S8"),
    ),
    Mutant(
        "KIP-320 first try",
        "Kip320FirstTry.tla: the epoch of the last record is compared, the fetcher's leader epoch is not",
        (NO_FENCE,),
        ("KIP-320",),
    ),
    # Divergence and truncation.
    Mutant("no divergence check", "logs are never compared", (NO_DIVERGENCE,), ("article 004", "S2", "S3")),
    Mutant(
        "nothing to cut, nothing to do",
        "KAFKA-10706: a truncation that removes no record leaves epochs that the leader does not have",
        (
            Change(
                f"{LOG}.truncate_to",
                "if self._epochs.truncate_from_end(min(",
                "if offset < self.log_end_offset and self._epochs.truncate_from_end(min(",
            ),
        ),
        ("S5:",),
    ),
    Mutant(
        "late answers count",
        "KAFKA-7786: a refusal of an ended epoch stops fetching in the present one",
        (Change(f"{FOLLOWED}.take", "or asked.leader_epoch != state.leader_epoch", ""),),
        ("S7",),
    ),
    Mutant(
        "readers do not learn where logs diverge",
        "KIP-320: the last epoch that a reader read is not compared with the leader's log",
        (
            Change(
                "kavka.replication.replica_manager:ReplicaManager.read_partition",
                "divergence.diverging_epoch(log, spec.last_fetched_epoch, spec.fetch_offset)",
                "None",
            ),
        ),
        ("S9",),
    ),
    Mutant(
        "readers do not send the epoch that they read",
        "found by S9: kavka's consumer read on in a log with other records at offsets that it had read",
        (
            Change(
                "kavka.client.consumer:Consumer._request",
                "last_fetched_epoch=state.last_epoch if tells else NO_EPOCH,",
                "",
            ),
        ),
        ("S9",),
    ),
    Mutant(
        "starts again, and calls nothing committed",
        "KAFKA-9491: a full truncation moves the log's start and not its high watermark",
        (Change(f"{LOG}.truncate_fully_and_start_at", "self.high_watermark = offset", "pass"),),
        ("S11",),
    ),
    Mutant(
        "who answers does not matter",
        "KAFKA-7414: the log is truncated where an earlier leader's log ends",
        (
            Change(
                f"{FOLLOWED}._still_asks",
                "return self._states.get(state.topic_partition) is state and",
                "return True or",
            ),
        ),
        ("S12",),
    ),
    Mutant(
        "an epoch begins with its first record",
        "KAFKA-7415: a leader that writes nothing leaves no trace of its epoch",
        (
            Change(
                f"{PARTITION}.become_leader",
                "self.log.assign_epoch_start_offset(state.leader_epoch, start)",
                "pass",
            ),
        ),
        ("S4",),
    ),
    Mutant(
        "high watermark taken before truncation",
        "KAFKA-14704: what a diverging answer says is committed is taken over before the log is cut",
        (
            Change(
                f"{FOLLOWED}._take_partition",
                "if diverging is not None and diverging.epoch >= 0:",
                "if diverging is not None and diverging.epoch >= 0:\n"
                "        state.partition.set_follower_high_watermark(data.high_watermark)",
            ),
        ),
        ("S10",),
    ),
    Mutant(
        "the same leader, nothing new",
        "KAFKA-7164: a follower that missed epochs of the leader that it follows goes on where it was",
        (Change(f"{FOLLOWED}.follow", "and known.leader_epoch == leader_epoch", ""),),
        ("S6", "S7"),
    ),
    # The ISR and the high watermark.
    Mutant(
        "any answer counts",
        "KAFKA-12686: the answer to an old proposal replaces what the controller announced since",
        (
            Change(f"{PARTITION}._take_answer", "if self._in_flight is not proposal:", "if False:"),
            Change(f"{PARTITION}._take_answer", "and proposal.leader_epoch == self.state.leader_epoch", ""),
            Change(
                f"{PARTITION}._adopt",
                "if stored.leader_epoch < known.leader_epoch or stored.partition_epoch < known.partition_epoch:",
                "if False:",
            ),
        ),
        ("S17",),
    ),
    Mutant(
        "a broker that leaves joins again",
        "KIP-841: nobody checks whether a broker is shutting down",
        (
            Change(f"{DECIDE}.isr_proposals:_ineligible", "if broker_id in context.shutting_down:", "if False:"),
            # Its leaders know, too, and do not even propose it.
            Change(
                "kavka.broker.metadata.metadata_cache:MetadataCache.status",
                "_LEAVING if broker.is_shutting_down else _ALIVE",
                "_ALIVE",
            ),
        ),
        ("S20",),
    ),
    Mutant(
        "silent, so behind",
        "KAFKA-7152: a follower that lacks nothing leaves the ISR because it sends no fetch",
        (
            Change(
                "kavka.replication.decide.lag_policy:TimeLagPolicy.is_in_sync",
                "replica.log_end_offset == leader_end_offset or",
                "",
            ),
            # The timer does not even look at such a partition: that goes, too.
            Change(
                "kavka.replication.replica_manager:ReplicaManager._is_settled",
                "replica is not None and replica.log_end_offset == end_offset for replica in replicas",
                "False for _ in (None,)",
            ),
        ),
        ("S22",),
    ),
    Mutant(
        "caught up only where nothing is new",
        "KAFKA-4485: under load, a follower that reaches the log end of its last fetch is never caught up",
        (Change(f"{REPLICA}.on_fetch", "elif fetch_offset >= self.last_fetch_leader_end_offset >= 0:", "elif False:"),),
        ("S22",),
    ),
    Mutant(
        "joins below the epoch's start",
        "KAFKA-7128: a follower at a new leader's high watermark may join, even if it lacks committed records",
        (Change(f"{PARTITION}._propose_expand", " or end_offset < self.leader_epoch_start_offset", ""),),
        ("S13",),
    ),
    Mutant(
        "committed ISR only",
        "AsyncIsr.tla: the high watermark is that of the committed ISR while a larger one may be stored",
        (
            Change(f"{PARTITION}._move", "maximal = isr.maximal_isr", "maximal = isr.isr"),
            Change(f"{PARTITION}._maybe_advance_high_watermark", "self._check_members(least)", "pass"),
            Change(f"{PARTITION}._waits_to_join", "return self", "return False and self"),
        ),
        ("S14",),
    ),
    Mutant(
        "shrunk before it is stored",
        "KIP-497: a member that was proposed to leave does not hold the high watermark any more",
        (
            Change(
                f"{PARTITION}._move",
                "maximal = isr.maximal_isr",
                "maximal = tuple(b for b in isr.maximal_isr if b not in getattr(isr, 'leaving', ()))",
            ),
            Change(f"{PARTITION}._maybe_advance_high_watermark", "self._check_members(least)", "pass"),
            Change(f"{PARTITION}._waits_to_join", "return self", "return False and self"),
        ),
        ("S15",),
    ),
    Mutant(
        "own log end is the high watermark",
        "everything in the leader's log counts as committed",
        (
            Change(
                f"{PARTITION}._maybe_advance_high_watermark",
                "if replica.log_end_offset < least and (",
                "if False and (",
            ),
            Change(f"{PARTITION}._maybe_advance_high_watermark", "self._check_members(least)", "pass"),
        ),
        ("S23", "S24", "S15", "article 004"),
    ),
    Mutant(
        "min.insync.replicas is ignored",
        "Jepsen 2013: a leader alone in its ISR takes acks=all",
        (Change(f"{PARTITION}.append_as_leader", "if required_acks == ACKS_ALL and", "if False and"),),
        ("S24", "article 001, case A"),
    ),
    Mutant(
        "nobody is asked again",
        "KAFKA-2729: an ISR change whose answer was lost is never sent again",
        (
            Change(
                f"{PARTITION}.propose_shrink",
                "if not isinstance(isr, CommittedIsr):",
                "if not isinstance(isr, CommittedIsr):\n        return None\n    if not isinstance(isr, CommittedIsr):",
            ),
            Change(f"{PARTITION}._adopt", "self._move(CommittedIsr(stored.isr))", "pass"),
        ),
        ("S16", "S14", "S15"),
    ),
    Mutant(
        "a former self counts",
        "KIP-903: a broker that fetched before its restart counts as in sync",
        (
            NO_FENCE,
            Change(f"{PARTITION}._check_broker_epoch", "if status is not None and", "if False and"),
            Change(
                "kavka.replication.decide.replica:RemoteReplica.is_eligible",
                "return NO_BROKER_EPOCH in",
                "return True or NO_BROKER_EPOCH in",
            ),
            Change(
                f"{DECIDE}.isr_proposals:_ineligible",
                "if epoch not in (NO_BROKER_EPOCH, registered):",
                "if False:",
            ),
        ),
        ("S18",),
    ),
    Mutant(
        "committed by too few",
        "KIP-966: the high watermark moves while fewer are in sync than min.insync.replicas",
        (
            Change(
                f"{PARTITION}._maybe_advance_high_watermark",
                "if len(self.state.isr) < self.min_insync_replicas and self.is_under_min_isr:",
                "if False:",
            ),
        ),
        ("S21",),
    ),
    # Reading and writing.
    Mutant(
        "reads what is not committed",
        "a consumer is given all that the leader has",
        (Change(f"{PARTITION}.read", "else log.high_watermark", "else log.log_end_offset"),),
        seeds=3,
    ),
    Mutant(
        "acknowledged at once",
        "acks=all is answered when the leader has it",
        (
            Change(
                "kavka.replication.replica_manager:ReplicaManager.when_committed",
                "answer = operation.try_complete(None)",
                "answer = outcome",
            ),
        ),
        ("S23", "S15"),
    ),
    # The controller.
    Mutant(
        "anybody may lead",
        "an election without a live member of the ISR takes any replica",
        (Change(f"{DECIDE}.election:elect_offline", "if not unclean_allowed:", "if False:"),),
        ("article 001, case B", "S24"),
    ),
    Mutant(
        "the last member is taken out",
        "brokers that die at once leave the ISR one by one (ReplicaStateMachine.scala)",
        (
            Change(
                f"{DECIDE}.election:without_offline",
                "return remaining or tuple(isr)",
                "return remaining or tuple(isr)[-1:]",
            ),
        ),
        ("article 001, case C",),
    ),
    Mutant(
        "a bounce is not seen",
        "KIP-380: a broker that is back before the controller looks counts as never gone",
        (
            Change(f"{WORK}.broker_changes:BrokerChanges.take_in", "before[key].epoch != live.epoch]", "False]"),
            Change(f"{WORK}.leaders:Leaders.react_on_former_lives", "if not concerned:", "if True:"),
        ),
        ("S26",),
    ),
    Mutant(
        "a bounce is not seen by the next controller",
        "found by the simulator, seed 6: a leader that lost power while it was the controller leads on",
        (Change(f"{WORK}.leaders:Leaders.react_on_former_lives", "if not concerned:", "if True:"),),
        ("S26: a leader that was the controller",),
    ),
    Mutant(
        "a failed order is lost",
        "dev@kafka 2016: after a time-out the next order is sent instead",
        (
            Change(
                f"{CONTROLLER}.orders.channels:RemoteChannel._converse",
                "except (ConnectionFailed, ProtocolViolation):",
                "except (ConnectionFailed, ProtocolViolation):\n                    self._queue.popleft()",
            ),
        ),
        ("S31", "S33"),
    ),
    Mutant(
        "unguarded writes",
        "KAFKA-6082: a controller's writes do not check that its epoch is the current one",
        (Change(f"{CONTROLLER}.term.controller_term:ControllerTerm.write", "self.context.epoch_version", "-1"),),
        ("S25",),
    ),
    Mutant(
        "an old order to delete is obeyed",
        "KIP-570: StopReplica does not carry its leader epoch",
        (
            Change(
                f"{STATE_CHANGES}._stop",
                "if hosted is not None and 0 <= stop.leader_epoch < hosted.leader_epoch:",
                "if False:",
            ),
        ),
        ("S27",),
    ),
    Mutant(
        "an old order to follow is obeyed",
        "KIP-320: a leader epoch that was seen is followed by a lower one",
        (
            Change(f"{STATE_CHANGES}._host", "if order.state.leader_epoch < hosted.leader_epoch:", "if False:"),
            Change(f"{PARTITION}._is_stale", "return (", "return False and ("),
        ),
        ("S27",),
    ),
    Mutant(
        "a former coordinator keeps its groups",
        "KAFKA-9307: a partition of offsets is not unloaded, and so not read again",
        (
            Change(f"{STATE_CHANGES}._follow", "coordinator.unload(index, order.state.leader_epoch)", "pass"),
            Change(
                "kavka.coordinator.shared.active_shards:ActiveShards.load",
                "self.unload(partition)",
                "if known is not None: return _nothing_to_load()",
            ),
        ),
        ("S29",),
    ),
    Mutant(
        "clients get an old epoch",
        "KAFKA-9212: UpdateMetadata has the leader epoch from before the change",
        (
            Change(
                f"{CONTROLLER}.orders.control_requests:_Batch.metadata_states",
                "leader_epoch=order.state.leader_epoch",
                "leader_epoch=max(0, order.state.leader_epoch - 1)",
            ),
        ),
        ("S30",),
    ),
    Mutant(
        "only replicas are informed",
        "KAFKA-1483: UpdateMetadata goes to the brokers that have something to do, and not to all",
        (
            Change(
                f"{CONTROLLER}.active_controller:control_requests",
                "if topics or change.is_complete:",
                "if (topics or change.is_complete) and per_broker.get(broker_id):",
            ),
        ),
        ("S30",),
    ),
    Mutant(
        "watches are not set again",
        "KAFKA-5473: what changed while the connection was away is not seen when it is back",
        (Change("kavka.zookeeper.decide.client_watches:ClientWatches.restoring", "return requests", "return []"),),
        ("S32",),
    ),
    Mutant(
        "preferred, in sync or not",
        "KAFKA-9866: a preferred election takes a replica that is not in sync",
        (Change(f"{DECIDE}.requested_election:elect_preferred", "and preferred in isr:", ":"),),
        ("S34",),
    ),
    Mutant(
        "settings change nothing",
        "KAFKA-6526: unclean elections that are allowed while nobody leads wait for another controller",
        (Change(f"{CONTROLLER}.controller:Controller.topic_config_changed", "if self.is_active and", "if False and"),),
        ("S35",),
    ),
    Mutant(
        "any registration under the own id is the own one",
        "KAFKA-1387: a second broker with an id that is taken takes it",
        (
            Change(
                "kavka.broker.membership.registrar:register", "if stat.ephemeral_owner in former_sessions:", "if True:"
            ),
        ),
        ("S36",),
    ),
    Mutant(
        "a topic is gone before its replicas",
        "a deletion does not wait for the replica whose broker is away",
        (Change(f"{WORK}.topic_deletion:TopicDeletions._complete", "if any(", "if False and any("),),
        ("S36",),
    ),
    Mutant(
        "a lost session stays lost",
        "KAFKA-1029's family: a broker whose session ended goes on without being registered",
        (Change("kavka.broker.membership.registrar:Registrar._rejoin", "await self._register()", "pass"),),
        ("S28",),
    ),
    Mutant(
        "a new controller announces only its own changes",
        "S33: nobody announces what its predecessor stored and did not announce",
        (
            Change(
                f"{CONTROLLER}.active_controller:ActiveController.begin",
                "ClusterChange(partitions=tuple(orders), brokers_changed=True, is_complete=True)",
                "ClusterChange(brokers_changed=True)",
            ),
        ),
        ("S33",),
    ),
    # Logs and disks.
    Mutant(
        "recovery trusts what it reads",
        "S37: after a crash the CRC of a batch is not looked at",
        (Change("kavka.log.log_loader:_LogLoader._recover_segment", "if not batch.crc_is_right():", "if False:"),),
        ("S37",),
    ),
    Mutant(
        "segments behind a hole count",
        "S37: recovery cuts the damaged segment, and leaves those behind it",
        (
            Change(
                "kavka.log.log_loader:_LogLoader._recover",
                "if self._recover_segment(segments[number], following):",
                "if self._recover_segment(segments[number], following) and False:",
            ),
        ),
        ("S37",),
    ),
    Mutant(
        "the mark of a clean stop stays",
        "KAFKA-15375: a start that is interrupted leaves the mark, and the next one does not recover",
        (Change("kavka.log.home_loader:HomeLoader._take_mark", "self._filesystem.remove(mark)", "pass"),),
        ("S38",),
    ),
    Mutant(
        "the mark that was trusted comes back",
        "like KAFKA-15375: the removal of the mark is not durable when the first record is written",
        (
            Change(
                "kavka.log.home_loader:HomeLoader._take_mark",
                "self._filesystem.sync_directory(path)",
                "pass",
            ),
        ),
        ("S38: a power cut after",),
    ),
    Mutant(
        "a clean stop leaves its last flush to the operating system",
        "the mark of a clean stop covers records, epochs and truncations that a power cut may still take",
        (Change(f"{LOG}.close", "self.flush(now_ms)", "pass"),),
        ("S38: a power cut after",),
    ),
    Mutant(
        "producer snapshots are not synced",
        "after a clean stop and a power cut nobody reads the records again, and no producer is known",
        (Change(f"{LOG}.write_all", "self._durability.files.append(snapshot)", "pass"),),
        ("S38: a power cut after",),
    ),
    Mutant(
        "topic ids are not synced",
        "a power cut leaves records without their topic's id, and a new topic with the name takes them for its own",
        (
            Change(
                f"{LOG}.write_topic_id",
                "self.metadata.is_unsynced = self._durability.directory_changed = True",
                "pass",
            ),
        ),
        ("S38: a power cut just",),
    ),
    Mutant(
        "an append goes on after an error",
        "KAFKA-10778: a log whose write failed accepts the next one",
        (
            Change(f"{LOG}.append_as_leader", "if self.failure is not None:", "if False:"),
            Change(
                "kavka.replication.replica_manager:ReplicaManager.append", "self._on_storage_error(failure)", "pass"
            ),
        ),
        ("S39",),
    ),
    Mutant(
        "one bad record ends the fetcher",
        "KAFKA-4384: one partition's damage ends a fetcher, and all its partitions stop",
        (Change(f"{FOLLOWED}._take_partition", "self._on_bad_records(state, str(refused), now_ms)", "raise"),),
        ("S40",),
    ),
    Mutant(
        "a follower does not check what it gets",
        "KAFKA-9617: a damaged batch is copied from the leader",
        (Change("kavka.log.unified_log:validate_replicated", "if not batch.crc_is_right():", "if False:"),),
        ("S40",),
    ),
    Mutant(
        "lag by the wall clock",
        "like KAFKA-8803: setting a clock puts followers out of the ISR",
        (
            Change(
                f"{STATE_CHANGES}.__init__",
                "self._wall_ms = ports.wall_ms",
                "self._wall_ms = replicas.wall_ms = ports.wall_ms",
            ),
            Change(
                "kavka.replication.replica_manager:ReplicaManager.now_ms",
                "int(self.loop.time() * 1000 + self._clock_offset_ms)",
                "self.wall_ms()",
            ),
        ),
        ("S41: clocks are set",),
    ),
    Mutant(
        "two clocks in one partition",
        "an append measures lags on the wall clock: set back, it makes a leader wait for a follower that is gone",
        (
            Change(
                "kavka.replication.replica_manager:ReplicaManager.append",
                "now_ms=self.now_ms(), wall_ms=wall_ms",
                "now_ms=wall_ms, wall_ms=wall_ms",
            ),
        ),
        ("S41: the clock of a leader",),
    ),
    # Producers.
    Mutant(
        "followers know no producers",
        "Redpanda 21.10.1: a follower that becomes the leader does not count the batches that it appended before",
        (
            Change(
                f"{LOG}._append_run",
                "self._note_producer(header, markers.get(header.base_offset), header.base_offset, segment)",
                "pass",
            ),
        ),
        ("S42",),
    ),
    Mutant(
        "producers remember truncated batches",
        "KAFKA-12153: a truncation leaves the producers' state as it was",
        (Change(f"{LOG}.truncate_to", "self._rebuild_producers(now_ms)", "pass"),),
        ("S43",),
    ),
    Mutant(
        "no snapshot, no producers",
        "KAFKA-7298: a start without a snapshot does not read the producers from the records",
        (Change("kavka.log.log_loader:_LogLoader._replay", "if header.producer_id >= 0:", "if False:"),),
        ("S43",),
    ),
    Mutant(
        "any producer epoch will do",
        "KIP-360: a producer's former self can still write",
        (Change("kavka.log.decide.producer_state:_check_epoch", "if producer_epoch < known_epoch:", "if False:"),),
        ("S43",),
    ),
    # Transactions.
    Mutant(
        "a decided end is forgotten",
        "like KAFKA-9777: the next coordinator does not send the outcome that was decided",
        (
            Change(
                "kavka.coordinator.transactions.coordinator:TransactionCoordinator._on_loaded",
                "self._finish_soon(active, transaction)",
                "pass",
            ),
        ),
        ("S46",),
    ),
    Mutant(
        "a late record begins a transaction",
        "KIP-890: nobody checks whether the record's transaction is open, and it never ends",
        (
            Change(
                "kavka.broker.transactions.verification:TransactionVerification.verify_or_add",
                "if not add and not self._is_enabled():",
                "if True:",
            ),
            Change("kavka.log.decide.producer_state:_check_epoch", "if producer_epoch < known_epoch:", "if False:"),
        ),
        ("S44",),
    ),
    Mutant(
        "twins have one epoch",
        "KIP-98: a producer that takes over a transactional id gets the epoch of the one before",
        (
            Change(
                "kavka.coordinator.transactions.decide.state:Transaction.with_next_epoch",
                "epoch, last_epoch = self.producer_epoch + 1,",
                "epoch, last_epoch = self.producer_epoch,",
            ),
        ),
        ("S48",),
    ),
    Mutant(
        "any generation will do",
        "KIP-447: a group's coordinator does not check that the sender of a transaction's offsets is still a member",
        (
            Change(
                "kavka.coordinator.groups.classic.decide.group:ClassicGroup.check_transactional_commit",
                "self.require_current(",
                "(lambda *_: None)(",
            ),
        ),
        ("S49",),
    ),
    Mutant(
        "a removed member is nobody",
        "a removed consumer names neither member nor generation, and is accepted like an old producer",
        (
            Change(
                "kavka.client.consumer:Consumer.group_metadata",
                "self._member.identity",
                "(self._member.member_id, self._member.generation)",
            ),
        ),
        ("S49",),
    ),
    Mutant(
        "unstable offsets are returned",
        "KIP-447: a member starts where the group was before a transaction that is ending",
        (Change("kavka.broker.api.groups.offset_fetch:handle", "if message.require_stable else", "if False else"),),
        ("S49",),
    ),
    # What fetches leave out.
    Mutant(
        "an append wakes no idle partition",
        "the first record of a partition that was idle is fetched by nobody",
        (Change(f"{FOLLOWER_FETCHES}.on_append", "self.wake(partition)", "pass"),),
        ("S67",),
    ),
    Mutant(
        "a high watermark wakes no idle partition",
        "a follower that has everything never hears that it is committed",
        (Change(f"{FOLLOWER_FETCHES}.on_high_watermark_advanced", "self.wake(partition)", "pass"),),
        ("S67",),
    ),
    Mutant(
        "a log start wakes no idle partition",
        "followers keep what their leader deleted until there is a new record",
        (
            Change(
                "kavka.replication.replica_manager:ReplicaManager.on_log_start_moved",
                "self.followers.wake(partition)",
                "pass",
            ),
        ),
        ("S67",),
    ),
    Mutant(
        "whatever was told, a partition is idle",
        "an answer that waited is older than the high watermark, and the partition is left out all the same",
        (Change(f"{FOLLOWER_FETCHES}.rest", "and outcome.high_watermark == log.high_watermark", ""),),
        ("S67",),
    ),
    Mutant(
        "own retention is not told",
        "found by reading: a leader did not hear of records that a follower's own retention deleted",
        (
            Change(
                "kavka.replication.fetcher_manager:FetcherManager.on_log_start_moved",
                "if fetcher is not None:",
                "if False:",
            ),
        ),
        ("S66",),
    ),
    *ACCESS_MUTANTS,
]
