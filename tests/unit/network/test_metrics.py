from __future__ import annotations

import pytest

from kavka.metrics import (
    HISTOGRAM_BUCKETS,
    Counter,
    Histogram,
    MetricName,
    Registry,
    bucket_bounds,
    bucket_of,
    render_prometheus,
)


def test_every_value_lies_within_the_bounds_of_its_bucket_and_buckets_touch() -> None:
    for value in [*range(5000), 10**6, 10**9 + 7, 2**40 - 1, 2**40]:
        low, high = bucket_bounds(bucket_of(value))
        assert low <= value < high
    for bucket in range(HISTOGRAM_BUCKETS - 1):
        assert bucket_bounds(bucket)[1] == bucket_bounds(bucket + 1)[0]


def test_a_value_beyond_the_last_bucket_is_counted_in_it() -> None:
    histogram = Histogram()
    histogram.record(2**80)
    histogram.record(-5)
    assert histogram.count == 2
    assert histogram.buckets[-1] == 1
    assert histogram.buckets[0] == 1
    assert bucket_of(2**80) == HISTOGRAM_BUCKETS - 1


def test_recording_puts_a_value_where_bucket_of_says() -> None:
    for value in [0, 1, 3, 4, 5, 7, 8, 100, 12345, 2**30 + 1]:
        histogram = Histogram()
        histogram.record(value)
        assert histogram.buckets[bucket_of(value)] == 1


def test_percentiles_are_right_to_within_a_quarter() -> None:
    histogram = Histogram()
    for value in range(1, 10_001):
        histogram.record(value)
    for fraction in (0.01, 0.5, 0.75, 0.99, 0.999):
        assert histogram.percentile(fraction) == pytest.approx(fraction * 10_000, rel=0.13)
    assert histogram.mean == pytest.approx(5000.5)
    assert histogram.maximum >= 10_000


def test_percentiles_of_nothing_are_zero_and_of_one_value_are_that_value() -> None:
    histogram = Histogram()
    assert histogram.percentiles((0.5, 0.99)) == [0.0, 0.0]
    assert histogram.maximum == 0.0
    histogram.record(3)
    assert histogram.percentiles((0.0, 0.5, 1.0)) == [3.0, 3.0, 3.0]


def test_a_histogram_shows_its_values_in_its_own_unit() -> None:
    histogram = Histogram(scale=1e-6)
    histogram.record(2_000_000)
    assert histogram.sum == pytest.approx(2.0)
    assert histogram.percentile(0.5) == pytest.approx(2.0, rel=0.13)


def test_adding_histograms_counts_all_and_the_zeros() -> None:
    one, other = Histogram(), Histogram()
    one.record(5)
    other.record(7)
    merged = Histogram().add_all((one, other), zeros=3)
    assert merged.count == 5
    assert merged.total == 12
    assert one.count == 1


def test_the_same_name_and_tags_give_the_same_metric() -> None:
    registry = Registry()
    first = registry.counter("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", topic="a")
    first.value += 2
    again = registry.counter("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", topic="a")
    other = registry.counter("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", topic="b")
    assert again is first
    assert other.value == 0
    histogram = registry.histogram("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")
    assert registry.histogram("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs") is histogram


def test_a_name_of_another_kind_is_refused() -> None:
    registry = Registry()
    registry.counter("g", "t", "n")
    with pytest.raises(ValueError, match="no histogram but a Counter"):
        registry.histogram("g", "t", "n")
    registry.histogram("g", "t", "h")
    with pytest.raises(ValueError, match="no counter but a Histogram"):
        registry.counter("g", "t", "h")


def test_a_derived_metric_is_put_together_when_it_is_read() -> None:
    registry = Registry()
    made: list[int] = []

    def make() -> Counter:
        made.append(1)
        counter = Counter()
        counter.value = len(made)
        return counter

    registry.derive("g", "t", "n", make)
    assert not made
    first, second = registry.get("g", "t", "n"), registry.get("g", "t", "n")
    assert isinstance(first, Counter)
    assert isinstance(second, Counter)
    assert (first.value, second.value) == (1, 2)
    registry.remove("g", "t", "n")
    assert registry.get("g", "t", "n") is None
    registry.remove("g", "t", "n")


def test_a_metric_is_called_as_kafka_calls_its_mbean() -> None:
    name = MetricName("kafka.network", "RequestMetrics", "TotalTimeMs", (("request", "Produce"),))
    assert str(name) == "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce"


def test_prometheus_reads_counters_gauges_and_summaries_with_their_tags() -> None:
    registry = Registry()
    registry.counter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", topic='a"\\b\n').value += 7
    registry.gauge("kafka.server", "ReplicaManager", "PartitionCount", lambda: 3)
    registry.histogram("kafka.network", "RequestMetrics", "TotalTimeMs", request="Fetch").record(2)
    text = render_prometheus(registry)
    lines = text.splitlines()
    assert lines[0] == "# TYPE kafka_network_requestmetrics_totaltimems summary"
    assert 'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 2' in lines
    assert 'kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 1' in lines
    assert "# TYPE kafka_server_brokertopicmetrics_bytesinpersec_total counter" in lines
    assert r'kafka_server_brokertopicmetrics_bytesinpersec_total{topic="a\"\\b\n"} 7' in lines
    assert "kafka_server_replicamanager_partitioncount 3" in lines
    assert text.endswith("\n")


def test_prometheus_names_a_type_once_for_all_its_tags() -> None:
    registry = Registry()
    for topic in ("b", "a"):
        registry.counter("g", "t", "n", topic=topic)
    text = render_prometheus(registry)
    assert text.splitlines() == ["# TYPE g_t_n_total counter", 'g_t_n_total{topic="a"} 0', 'g_t_n_total{topic="b"} 0']
    assert render_prometheus(Registry()) == ""
