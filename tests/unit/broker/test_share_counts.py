"""What a broker counts of share groups, for its metrics."""

from __future__ import annotations

from kavka.broker.share.counts import MOST_GROUPS, ShareCounts
from kavka.broker.share.sessions import ShareSessions
from kavka.metrics import Histogram, Registry, render_prometheus
from kavka.share.decide.share_partition import Acknowledgement, AcknowledgeType

ACCEPT, RELEASE, GAP = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.GAP


def test_records_count_whether_they_share_a_type_or_have_one_each() -> None:
    counts = ShareCounts()
    counts.on_acknowledged([Acknowledgement(0, 9, [ACCEPT]), Acknowledgement(10, 12, [ACCEPT, RELEASE, GAP])])
    assert (counts.acknowledged[ACCEPT], counts.acknowledged[RELEASE]) == (11, 1)


def test_a_groups_times_end_with_its_last_session_and_are_bounded() -> None:
    counts = ShareCounts()
    counts.on_fetched("workers", gave=1, asked=4, took_ms=7)
    assert (counts.by_group["workers"].fetch_ratio.sum, counts.by_group["workers"].acquire_ms.sum) == (25, 7)
    counts.forget("workers")
    for number in range(MOST_GROUPS + 1):
        counts.on_fetched(f"group-{number}", gave=1, asked=1, took_ms=1)
    assert len(counts.by_group) == MOST_GROUPS


def test_a_session_is_lost_with_its_connection_and_not_by_a_request() -> None:
    sessions = ShareSessions(lambda: 10, lambda: 0.0, lambda _group, _member: None, lambda _group: None)
    first, second = sessions.begin("g", "a", []), sessions.begin("g", "b", [])
    sessions.end(first)
    first.cancel()
    assert sessions.lost == 0
    second.cancel()
    assert (sessions.lost, len(sessions)) == (1, 0)


def test_histograms_of_many_objects_are_one_summary() -> None:
    registry, seen = Registry(), Histogram()
    seen.record(3)
    registry.summaries("kafka.server", "ShareGroupMetrics", "Took", lambda: [((("group", "g"),), seen)])
    lines = render_prometheus(registry).splitlines()
    assert lines[0] == "# TYPE kafka_server_sharegroupmetrics_took summary"
    assert 'kafka_server_sharegroupmetrics_took{group="g",quantile="0.5"} 3' in lines
    assert 'kafka_server_sharegroupmetrics_took_count{group="g"} 1' in lines
