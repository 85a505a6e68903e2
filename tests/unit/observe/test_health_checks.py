"""The health checks: what fails, on which object, why, and what becomes of the score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kavka.client.share_group_admin import RecordRun, ShareRecords
from kavka.model import TopicPartition
from kavka.observe.health.checks import all_checks, check_health
from kavka.observe.health.findings import Thresholds
from kavka.observe.health.report import CRITICAL_CAP, WARNING_CAP, CheckResult, HealthReport, Outcome, Severity
from kavka.observe.snapshot import (
    BrokerMetrics,
    BrokerView,
    ClusterSnapshot,
    ClusterState,
    ControllerView,
    GivenUp,
    GroupOffset,
    GroupView,
    LogDirectoryView,
    MemberView,
    Part,
    QuorumView,
    Reading,
    TransactionView,
    ZooKeeperView,
)
from tests.unit.observe import snapshots as make

NOW_MS = make.NOW_MS


def look(snapshot: ClusterSnapshot, limits: Thresholds | None = None) -> HealthReport:
    return check_health(snapshot, NOW_MS, limits)


def result_of(report: HealthReport, name: str) -> CheckResult:
    (found,) = [each for each in report.results if each.check.name == name]
    return found


def failed_names(report: HealthReport) -> set[str]:
    return {each.check.name for each in report.failed}


def test_a_cluster_where_all_is_well_has_a_hundred_and_no_failed_check() -> None:
    report = look(
        make.snapshot(topics=[make.topic(make.partition(0), make.partition(1, leader=2, replicas=(2, 3, 1)))])
    )
    assert report.score == 100
    assert not report.failed


def test_every_check_gives_one_result_whatever_is_known() -> None:
    names = [check.name for check in all_checks()]
    assert len(set(names)) == len(names)
    for snapshot in (
        make.snapshot(),
        ClusterSnapshot("never", "asked:1"),
        make.snapshot(readings=dict.fromkeys(Part, Reading())),
    ):
        assert sorted(each.check.name for each in look(snapshot).results) == sorted(names)


def test_the_documents_table_is_that_of_the_checks() -> None:
    text = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = [
        line for line in text.splitlines() if line.startswith("| `") and line.endswith((" critical |", " warning |"))
    ]
    assert rows == [
        f"| `{each.name}` | {each.title}: {each.threshold} | {each.weight} | {each.severity.value} |"
        for each in all_checks()
    ]


def test_a_cluster_that_was_never_asked_has_no_score() -> None:
    assert look(ClusterSnapshot("never", "asked:1")).score is None


def test_a_cluster_that_does_not_answer_has_none_of_its_points_and_says_why() -> None:
    report = look(make.snapshot(state=ClusterState.UNREACHABLE, why="refused the connection"))
    assert report.score == 0
    assert failed_names(report) == {"reachable"}
    assert "refused the connection" in str(report.failed[0].findings[0].why)
    assert "5 s" in str(report.failed[0].findings[0].why)


def test_one_replica_takes_writes_whatever_min_insync_replicas_says() -> None:
    snapshot = make.snapshot(topics=[make.topic(make.partition(replicas=(1,), least=2))])
    assert result_of(look(snapshot), "below-min-isr").outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("name", "snapshot", "object_name", "words"),
    [
        ("controller", make.snapshot(controller_id=-1), "test", "no live broker"),
        (
            "offline-partitions",
            make.snapshot(topics=[make.topic(make.partition(3, leader=-1, in_sync=(2,)))]),
            "orders-3",
            "in-sync replicas 2 are not alive",
        ),
        (
            "below-min-isr",
            make.snapshot(topics=[make.topic(make.partition(in_sync=(1,)))]),
            "orders-0",
            "1 in sync (1), 2 needed",
        ),
        (
            "last-replica",
            make.snapshot(topics=[make.topic(make.partition(in_sync=(1,), least=1))]),
            "orders-0",
            "only broker 1 of 1, 2, 3",
        ),
        (
            "log-directories",
            make.snapshot(
                brokers=[make.broker(directories=(LogDirectoryView("/d", "KAFKA_STORAGE_ERROR", 0, 0, 0, 0),))]
            ),
            "1",
            "/d: KAFKA_STORAGE_ERROR",
        ),
    ],
)
def test_what_endangers_records_or_writes_is_critical(
    name: str, snapshot: ClusterSnapshot, object_name: str, words: str
) -> None:
    report = look(snapshot)
    found = result_of(report, name)
    assert found.outcome is Outcome.FAILED
    assert found.check.severity is Severity.CRITICAL
    assert [finding.name for finding in found.findings] == [object_name]
    assert words in str(found.findings[0].why)
    assert found.check.advice
    assert report.score is not None
    assert report.score <= CRITICAL_CAP


def test_a_controller_that_changes_again_and_again_is_told_with_the_number() -> None:
    often = make.snapshot(controllers=ControllerView(4, NOW_MS - 600_000))
    found = result_of(look(often), "controller-changes")
    assert found.outcome is Outcome.FAILED
    assert str(found.findings[0].why) == "4 controllers were elected within the last hour"
    assert found.check.advice
    assert "controller-changes" not in failed_names(look(often, Thresholds(controller_elections_per_hour=4)))


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (ControllerView(0, NOW_MS - 30_000), Outcome.UNKNOWN),
        (ControllerView(0, NOW_MS - 61_000), Outcome.PASSED),
        (ControllerView(1, NOW_MS - 30_000, is_recorded=True), Outcome.PASSED),
        (ControllerView(9, NOW_MS - 30_000), Outcome.FAILED),
    ],
)
def test_that_the_controller_stays_is_known_after_a_while_or_where_elections_are_recorded(
    seen: ControllerView, outcome: Outcome
) -> None:
    assert result_of(look(make.snapshot(controllers=seen)), "controller-changes").outcome is outcome


def test_a_controller_of_a_quorum_need_not_be_a_broker() -> None:
    apart = make.snapshot(controller_id=100, quorum=QuorumView(100, 7, (100, 101, 102)))
    found = result_of(look(apart), "controller")
    assert found.outcome is Outcome.PASSED
    assert str(found.evidence) == "node 100 leads 3 controllers"
    without = make.snapshot(controller_id=-1, quorum=QuorumView(-1, 7, (100, 101, 102)))
    assert "controller" in failed_names(look(without))


def test_a_quorum_that_does_not_answer_for_long_is_no_controller() -> None:
    def silent(ms: int) -> ClusterSnapshot:
        readings = {Part.CONTROLLER: Reading(NOW_MS - ms, 1, "no answer")}
        return make.snapshot(controller_id=100, quorum=QuorumView(100, 7, (100,)), readings=readings)

    assert "controller" not in failed_names(look(silent(5_000)))
    found = result_of(look(silent(20_000)), "controller")
    assert str(found.findings[0].why) == "the controller quorum does not answer: no answer"


def test_a_partition_is_under_replicated_only_after_the_time_that_a_restart_takes() -> None:
    limits = Thresholds(under_replicated_ms=60_000)

    def behind(ms: int) -> ClusterSnapshot:
        late = make.partition(in_sync=(1, 2), behind_since_ms=NOW_MS - ms, log_ends={1: 500, 3: 100})
        return make.snapshot(topics=[make.topic(late)])

    assert result_of(look(behind(59_000), limits), "under-replicated").outcome is Outcome.PASSED
    found = result_of(look(behind(61_000), limits), "under-replicated")
    assert found.outcome is Outcome.FAILED
    assert str(found.findings[0].why) == "out of sync for 61 s: 3 (3: 400 records behind)"


def test_a_partition_that_is_being_reassigned_is_not_called_under_replicated() -> None:
    import dataclasses

    moving = dataclasses.replace(make.partition(in_sync=(1, 2), behind_since_ms=0), adding=(3,))
    assert "under-replicated" not in failed_names(look(make.snapshot(topics=[make.topic(moving)])))


def test_leaders_count_as_elsewhere_only_where_the_preferred_replica_could_lead() -> None:
    elsewhere = [make.partition(number, leader=2) for number in range(4)]
    preferred = [make.broker(1, preferred=4), make.broker(2), make.broker(3)]
    report = look(make.snapshot(brokers=preferred, topics=[make.topic(*elsewhere)]))
    assert "4 of 4" in str(result_of(report, "leader-imbalance").findings[0].why)
    away = [make.partition(number, leader=2, in_sync=(2, 3)) for number in range(4)]
    assert "leader-imbalance" not in failed_names(look(make.snapshot(brokers=preferred, topics=[make.topic(*away)])))


def test_a_disk_that_is_nearly_full_is_named_with_its_bytes() -> None:
    nearly = LogDirectoryView("/d", "", 1_000, 100, 1, 900)
    found = result_of(look(make.snapshot(brokers=[make.broker(directories=(nearly,))])), "disk-space")
    assert str(found.findings[0].why) == "/d: 10.0 % free, 100 of 1,000 bytes"


def test_disks_whose_size_nobody_tells_are_unknown_not_fine() -> None:
    silent = LogDirectoryView("/d", "", None, None, 1, 900)
    found = result_of(look(make.snapshot(brokers=[make.broker(directories=(silent,))])), "disk-space")
    assert found.outcome is Outcome.UNKNOWN
    assert "before Kafka 3.3" in str(found.evidence)


def test_what_was_not_read_is_unknown_with_the_reason_and_neither_helps_nor_hurts() -> None:
    report = look(make.snapshot(readings={Part.GROUPS: Reading(0, 0, "broker 2 did not answer")}))
    found = result_of(report, "stuck-groups")
    assert found.outcome is Outcome.UNKNOWN
    assert str(found.evidence) == "broker 2 did not answer"
    assert report.score == 100


def group(**changes: object) -> GroupView:
    known: dict[str, object] = {
        "members": (MemberView("m", None, "c", "/h", (), None),),
        "offsets": (GroupOffset(TopicPartition("orders", 0), 5, 12),),
    }
    return GroupView("g", "classic", "Stable", "consumer", "range", 1, **{**known, **changes})  # type: ignore[arg-type]  # fields by name


def test_a_group_that_stands_still_with_members_and_lag_is_stuck_after_a_while() -> None:
    early = group(stuck_since_ms=NOW_MS - 60_000)
    assert "stuck-groups" not in failed_names(look(make.snapshot(groups=[early])))
    late = group(stuck_since_ms=NOW_MS - 180_000)
    found = result_of(look(make.snapshot(groups=[late])), "stuck-groups")
    assert str(found.findings[0].why) == "members: 1, lag: 7, nothing committed for 3 min"


def share(still_since_ms: int | None, *runs: RecordRun) -> GroupView:
    place = TopicPartition("orders", 0)
    offset = GroupOffset(place, 5, 12, not_done=7, still_since_ms=still_since_ms)
    records = {place: ShareRecords(5, 12, 7, len(runs), runs)} if runs else None
    return replace(group(offsets=(offset,)), kind="share", protocol_type="share", records=records)


def test_a_share_group_that_stands_still_at_a_record_says_who_has_it() -> None:
    held = RecordRun(5, 5, "acquired", 3, "worker-1", 9_000, None)
    early = look(make.snapshot(groups=[share(NOW_MS - 299_000, held)]))
    assert "share-groups-still" not in failed_names(early)
    assert "share-groups-still" not in failed_names(look(make.snapshot(groups=[share(None, held)])))
    found = result_of(look(make.snapshot(groups=[share(NOW_MS - 360_000, held)])), "share-groups-still")
    assert str(found.findings[0].why) == (
        "orders-0 at 5 is not done for 6 min: member worker-1 holds it, deliveries: 3, lag 7"
    )
    free = RecordRun(5, 5, "available", 2, None, None, None)
    found = result_of(look(make.snapshot(groups=[share(NOW_MS - 360_000, free)])), "share-groups-still")
    assert "nobody holds it, deliveries: 2" in str(found.findings[0].why)
    found = result_of(look(make.snapshot(groups=[share(NOW_MS - 360_000)])), "share-groups-still")
    assert "nobody has it" in str(found.findings[0].why)


def test_records_that_a_share_group_gave_up_fail_and_so_do_dead_letters_that_were_refused() -> None:
    known = {Part.DECISIONS: Reading(NOW_MS, 0, "")}
    place = TopicPartition("orders", 3)
    at_limit = replace(make.snapshot(readings=known), given_up=(GivenUp("workers", place, 1_200, 17, 0, ""),))
    found = result_of(look(at_limit), "share-records-given-up")
    assert (found.findings[0].kind, found.findings[0].name) == ("group", "workers")
    assert str(found.findings[0].why) == "records of orders-3 within the last hour: 1,200, the last at offset 17"
    assert "dead-letters" not in failed_names(look(at_limit))
    refused = replace(at_limit, given_up=(GivenUp("workers", place, 0, -1, 2, "no topic dlq.x"),))
    found = result_of(look(refused), "dead-letters")
    assert str(found.findings[0].why) == "records of orders-3 within the last hour: 2, because of: no topic dlq.x"
    assert "share-records-given-up" not in failed_names(look(refused))


def test_without_why_records_nobody_knows_what_a_share_group_gave_up() -> None:
    report = look(make.snapshot(readings={Part.DECISIONS: Reading(0, 0, "there is no topic of them")}))
    for name in ("share-records-given-up", "dead-letters"):
        found = result_of(report, name)
        assert (found.outcome, str(found.evidence)) == (Outcome.UNKNOWN, "there is no topic of them")


def test_a_group_that_rebalances_all_the_time_fails() -> None:
    assert "rebalances" in failed_names(look(make.snapshot(groups=[group(rebalances=13)])))
    assert "rebalances" not in failed_names(look(make.snapshot(groups=[group(rebalances=12)])))


def test_a_hanging_transaction_names_its_producer_and_partitions() -> None:
    hanging = TransactionView("", 7, "hangs", -1, partitions=(TopicPartition("orders", 3),), hangs=True)
    found = result_of(look(make.snapshot(transactions=(hanging,))), "hanging-transactions")
    assert found.findings[0].name == "producer 7"
    assert "orders-3" in str(found.findings[0].why)


def server(address: str, mode: str, **values: str) -> ZooKeeperView:
    return ZooKeeperView(address, mode, values, make.READ)


def test_two_leaders_of_an_ensemble_are_a_split_brain() -> None:
    report = look(
        make.snapshot(zookeeper=(server("a:1", "leader"), server("b:1", "leader"), server("c:1", "follower")))
    )
    assert "servers that say they lead: 2" in str(result_of(report, "zookeeper-leader").findings[0].why)
    fine = look(make.snapshot(zookeeper=(server("a:1", "leader"), server("b:1", "follower"))))
    assert "zookeeper-leader" not in failed_names(fine)


def test_zookeepers_queue_watches_and_connections_have_limits() -> None:
    full = server(
        "a:1", "standalone", zk_outstanding_requests="51", zk_watch_count="100001", zk_num_alive_connections="1001"
    )
    names = failed_names(look(make.snapshot(zookeeper=(full,))))
    assert names == {"zookeeper-outstanding", "zookeeper-watches", "zookeeper-connections"}


def busy(**metrics: float) -> BrokerView:
    import dataclasses

    return dataclasses.replace(make.broker(), metrics=BrokerMetrics(**metrics), metrics_reading=make.READ)  # type: ignore[arg-type]  # fields by name


def test_a_broker_that_does_not_keep_up_is_told_by_its_metrics() -> None:
    full = make.snapshot(brokers=[busy(request_queue_size=450.0, handler_idle_percent=5.0, network_idle_percent=8.0)])
    assert {"request-queue", "request-handlers", "network-processors"} <= failed_names(look(full))
    idle = make.snapshot(brokers=[busy(request_queue_size=0.0, handler_idle_percent=95.0, network_idle_percent=90.0)])
    assert not failed_names(look(idle))


def test_a_failed_check_always_costs_points_and_a_warning_alone_is_not_critical() -> None:
    one_of_many = [make.partition(number) for number in range(999)] + [make.partition(999, leader=-1, in_sync=())]
    report = look(make.snapshot(topics=[make.topic(*one_of_many)]))
    assert report.score is not None
    assert report.score <= CRITICAL_CAP
    warned = look(make.snapshot(topics=[make.topic(make.partition(replicas=(1,), least=1))]))
    assert failed_names(warned) == {"single-replica"}
    assert warned.score == WARNING_CAP
    assert not warned.is_critical


def test_settings_that_lose_records_or_refuse_writes_at_a_restart_are_named() -> None:
    unclean = make.topic(make.partition(), configs={"unclean.leader.election.enable": "true"})
    assert "unclean-elections" in failed_names(look(make.snapshot(topics=[unclean])))
    tight = make.topic(make.partition(least=3))
    assert "min.insync.replicas is 3, of 3" in str(
        result_of(look(make.snapshot(topics=[tight])), "min-isr-settings").findings[0].why
    )


def test_a_result_names_a_bounded_number_of_objects_and_counts_all() -> None:
    many = [make.partition(number, leader=-1, in_sync=()) for number in range(500)]
    found = result_of(look(make.snapshot(topics=[make.topic(*many)])), "offline-partitions")
    assert found.failed == 500
    assert len(found.findings) == 100


@pytest.mark.parametrize(
    ("configs", "outcome"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, Outcome.PASSED),
        ({"listeners": "PLAINTEXT://:9092"}, Outcome.FAILED),
        ({"listeners": "PLAINTEXT://127.0.0.1:1", "advertised.listeners": "PLAINTEXT://kafka:1"}, Outcome.FAILED),
        ({"listeners": "X://:1", "listener.security.protocol.map": "X:SASL_SSL"}, Outcome.PASSED),
        ({"listeners": "X://:1", "listener.security.protocol.map": "X:SASL_PLAINTEXT"}, Outcome.FAILED),
        ({"listeners": "nonsense"}, Outcome.UNKNOWN),
        ({}, Outcome.UNKNOWN),
    ],
)
def test_a_broker_that_listens_in_clear_for_others_fails(configs: dict[str, str], outcome: Outcome) -> None:
    broker = replace(make.broker(1), configs=configs, configs_reading=make.READ)
    found = result_of(look(make.snapshot(brokers=[broker])), "open-listeners")
    assert found.outcome is outcome
    if outcome is Outcome.FAILED:
        assert found.findings[0].name == "1"


@pytest.mark.parametrize(
    ("listeners", "mechanisms", "outcome"),
    [
        ("SASL_PLAINTEXT://:1", "SCRAM-SHA-512,PLAIN", Outcome.FAILED),
        ("SASL_PLAINTEXT://:1", "SCRAM-SHA-512", Outcome.PASSED),
        ("SASL_PLAINTEXT://127.0.0.1:1", "PLAIN", Outcome.PASSED),
        ("SASL_SSL://:1", "PLAIN", Outcome.PASSED),
        ("PLAINTEXT://:1", "PLAIN", Outcome.PASSED),
        ("nonsense", "PLAIN", Outcome.UNKNOWN),
    ],
)
def test_a_broker_that_takes_passwords_in_clear_fails(listeners: str, mechanisms: str, outcome: Outcome) -> None:
    configs = {"listeners": listeners, "sasl.enabled.mechanisms": mechanisms}
    broker = replace(make.broker(1), configs=configs, configs_reading=make.READ)
    assert result_of(look(make.snapshot(brokers=[broker])), "open-passwords").outcome is outcome


def test_the_mechanisms_of_the_listener_itself_count() -> None:
    own = {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-256", "sasl.enabled.mechanisms": "PLAIN"}
    configs = {"listeners": "SASL_PLAINTEXT://:1", **own}
    broker = replace(make.broker(1), configs=configs, configs_reading=make.READ)
    assert result_of(look(make.snapshot(brokers=[broker])), "open-passwords").outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("days", "failed"),
    [
        (31.0, set()),
        (30.0, set()),
        (29.9, {"certificates-end-soon"}),
        (7.0, {"certificates-end-soon"}),
        (6.9, {"certificates-end"}),
        (-3.0, {"certificates-end"}),
    ],
)
def test_a_certificate_warns_a_month_before_its_end_and_is_critical_a_week_before(
    days: float, failed: set[str]
) -> None:
    metrics = BrokerMetrics(certificates_left_ms={"GOOD": 1e11, "OTHER": days * 86_400_000})
    broker = replace(make.broker(), metrics=metrics, metrics_reading=make.READ)
    report = look(make.snapshot(brokers=[broker]))
    assert {name for name in failed_names(report) if name.startswith("certificates")} == failed
    for name in failed:
        found = result_of(report, name)
        assert found.failed == 1
        assert "OTHER" in str(found.findings[0].why)
        assert found.check.severity is (Severity.CRITICAL if name == "certificates-end" else Severity.WARNING)


def test_without_metrics_nobody_knows_of_certificates_and_lists() -> None:
    report = look(make.snapshot(brokers=[make.broker()]))
    for name in ("certificates-end", "certificates-end-soon", "acls-stale"):
        assert result_of(report, name).outcome is Outcome.UNKNOWN


def test_lists_that_could_not_be_read_again_for_a_minute_fail() -> None:
    def stale(value_ms: float) -> HealthReport:
        metrics = BrokerMetrics(values={"kafka_security_aclauthorizer_aclsstalems": value_ms})
        return look(make.snapshot(brokers=[replace(make.broker(), metrics=metrics, metrics_reading=make.READ)]))

    assert result_of(stale(60_000.0), "acls-stale").outcome is Outcome.PASSED
    assert result_of(stale(60_001.0), "acls-stale").outcome is Outcome.FAILED
