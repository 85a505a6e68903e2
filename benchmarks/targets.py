"""Targets: what kavka aims at, as the ratio kavka / Apache Kafka measured in one run.

Each is set for a figure of a row (rows.py). A ratio of 0.25 for seconds means a quarter of Kafka's time.
"""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """The median ratio has to be at most `ratio` (lower_is_better) or at least `ratio`."""

    ratio: float
    lower_is_better: bool

    def is_reached_by(self, ratio: float) -> bool:
        return ratio <= self.ratio if self.lower_is_better else ratio >= self.ratio

    def __str__(self) -> str:
        return f"{'<=' if self.lower_is_better else '>='} {self.ratio:.3g}"


def at_most(ratio: float) -> Target:
    return Target(ratio, lower_is_better=True)


def at_least(ratio: float) -> Target:
    return Target(ratio, lower_is_better=False)


TARGETS: dict[tuple[str, str], Target] = {
    ("startup", "first_answer_s"): at_most(1 / 10),
    ("idle", "resident_mb"): at_most(1 / 8),
    ("after_load", "resident_mb"): at_most(1 / 10),
    ("produce_100b_acks_1", "records_per_s"): at_least(2),
    ("produce_100b_acks_1", "broker_cpu_s_per_million"): at_most(1 / 4),
    ("produce_1k_acks_1", "megabytes_per_s"): at_least(1.3),
    ("produce_1k_acks_1", "broker_cpu_s_per_million"): at_most(0.7),
    ("produce_1k_acks_all_java", "megabytes_per_s"): at_least(1.5),
    ("produce_1k_acks_all_java", "broker_cpu_s_per_million"): at_most(1 / 2),
    ("consume_1k", "megabytes_per_s"): at_least(1.3),
    ("consume_1k", "broker_cpu_s_per_million"): at_most(1 / 2),
    ("latency_acks_1", "p50_us"): at_most(0.6),
    ("latency_acks_1", "p99_us"): at_most(0.5),
    ("latency_acks_1", "broker_cpu_s_per_million"): at_most(1 / 3),
    ("small_requests", "records_per_s"): at_least(3),
    ("small_requests", "broker_cpu_s_per_million"): at_most(1 / 4),
    ("tls_produce_1k", "megabytes_per_s"): at_least(1.5),
    ("tls_produce_1k", "broker_user_s_per_million"): at_most(0.7),
    ("tls_consume_1k", "megabytes_per_s"): at_least(1.5),
    ("tls_consume_1k", "broker_cpu_s_per_million"): at_most(0.6),
    ("tls_small_requests", "records_per_s"): at_least(1.4),
    ("tls_small_requests", "broker_cpu_s_per_million"): at_most(0.6),
    ("partitions_1000", "answered_s"): at_most(1 / 4),
    ("partitions_1000", "every_log_answers_s"): at_most(1 / 4),
    ("partitions_1000", "kb_per_partition"): at_most(1 / 4),
    ("share_consume_1k", "megabytes_per_s"): at_least(1.3),
    ("share_consume_1k", "broker_cpu_s_per_million"): at_most(1 / 2),
    ("share_accept_each", "records_per_s"): at_least(1.5),
    ("share_accept_each", "broker_cpu_s_per_million"): at_most(1 / 2),
    ("share_latency", "p50_us"): at_most(0.6),
    ("share_latency", "p99_us"): at_most(0.5),
    ("share_first_record", "median_ms"): at_most(1 / 4),
    ("share_idle", "kb_per_member"): at_most(1 / 4),
    ("share_idle", "heartbeats_per_s"): at_least(1),
    ("cluster_share_failover", "first_redelivery_s"): at_most(1 / 10),
    ("cluster_startup", "all_answer_s"): at_most(1 / 10),
    ("cluster_idle", "resident_mb"): at_most(1 / 8),
    ("cluster_in_one_process", "all_answer_s"): at_most(1 / 10),
    ("cluster_in_one_process", "resident_mb"): at_most(1 / 8),
    ("cluster_failover", "new_leaders_take_records_s"): at_most(1 / 10),
    ("cluster_failover_controller", "new_leaders_take_records_s"): at_most(1 / 10),
    ("cluster_produce_1k", "megabytes_per_s"): at_least(1.5),
    ("cluster_produce_1k", "brokers_cpu_s_per_million"): at_most(0.6),
    ("cluster_produce_1k_java", "megabytes_per_s"): at_least(2),
    ("cluster_produce_1k_java", "brokers_cpu_s_per_million"): at_most(1 / 2),
    ("cluster_latency", "p50_ms"): at_most(1 / 3),
    ("cluster_latency", "p99_ms"): at_most(1 / 3),
    ("cluster_failover", "all_acknowledge_s"): at_most(1 / 10),
    ("cluster_failover_controller", "all_acknowledge_s"): at_most(1 / 10),
    ("cluster_failover", "full_isr_after_restart_s"): at_most(1 / 4),
    ("cluster_failover_controller", "full_isr_after_restart_s"): at_most(1 / 4),
    ("cluster_partitions_1000", "every_log_answers_s"): at_most(1 / 4),
    ("cluster_partitions_1000", "kb_per_replica"): at_most(1 / 4),
}
