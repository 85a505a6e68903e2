"""What is read out of brokers' metrics, kavka's own and those of a JMX exporter."""

from __future__ import annotations

import asyncio

import pytest

from kavka.metrics import Registry, render_prometheus
from kavka.observe.broker_metrics import MetricsScraper, ScrapeFailed, http_get, parse_samples
from kavka.observe.readings import ByBroker
from kavka.observe.snapshot import BrokerMetrics

OURS = {"kavka.metrics.port": "9100"}


def test_samples_are_read_with_their_labels_and_odd_lines_are_passed_over() -> None:
    text = '# TYPE a counter\na{b="c \\"d\\" \\\\ \\n",e="f"} 1.5\nA_B 2 1700000000\nnonsense\nx{ 1\nbad value\n'
    assert [tuple(sample) for sample in parse_samples(text)] == [
        ("a", {"b": 'c "d" \\ \n', "e": "f"}, 1.5),
        ("a_b", {}, 2.0),
    ]


def test_what_is_no_measurement_is_passed_over() -> None:
    """JMX exporters write NaN for what nothing has been measured of; a page with such a number failed."""
    text = "a NaN\nb +Inf\nc -Inf\nd 1e300\ne 3\n"
    assert [tuple(sample) for sample in parse_samples(text)] == [("e", {}, 3.0)]
    total = "kafka_network_requestmetrics_totaltimems"
    (reading,) = read([f'{total}_sum{{request="Fetch"}} 1e17\n{total}_count{{request="Fetch"}} 1e-300\n'])
    assert reading.found[1].request_times == ()


def test_a_port_that_is_none_is_no_address() -> None:
    assert MetricsScraper("").address_of(1, "b", {"kavka.metrics.port": "9" * 5_000}) is None


def test_an_address_comes_from_the_brokers_own_setting_else_from_the_template() -> None:
    scraper = MetricsScraper("http://{host}:7071/metrics?id={broker}")
    assert scraper.address_of(2, "b", OURS) == "http://b:9100/metrics"
    assert scraper.address_of(2, "::1", OURS) == "http://[::1]:9100/metrics"
    assert scraper.address_of(2, "b", {"kavka.metrics.port": "0"}) == "http://b:7071/metrics?id=2"
    assert MetricsScraper("").address_of(2, "b", {}) is None


def read(answers: list[str]) -> list[ByBroker[BrokerMetrics]]:
    """What each answer of a broker is read as, one after another."""

    async def run() -> list[ByBroker[BrokerMetrics]]:
        left = list(answers)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + left.pop(0).encode())
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        scraper = MetricsScraper(f"http://{{host}}:{port}/metrics")
        found = []
        for _ in answers:
            found.append(await scraper.read({1: ("127.0.0.1", {})}))
            await asyncio.sleep(0.05)
        server.close()
        return found

    return asyncio.run(run())


def test_the_time_of_an_api_is_split_and_its_rate_takes_two_readings() -> None:
    registry = Registry()
    parts = {"RequestQueueTimeMs": 1, "LocalTimeMs": 2, "RemoteTimeMs": 3, "ResponseQueueTimeMs": 0, "TotalTimeMs": 6}
    for name, value in parts.items():
        histogram = registry.histogram("kafka.network", "RequestMetrics", name, request="Produce")
        for _ in range(10):
            histogram.record(value)
    registry.gauge("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", lambda: 0.25)
    registry.gauge("kafka.network", "RequestChannel", "RequestQueueSize", lambda: 17)
    first = render_prometheus(registry)
    for name, value in parts.items():
        registry.histogram("kafka.network", "RequestMetrics", name, request="Produce").record(value)
    before, after = (each.found[1] for each in read([first, render_prometheus(registry)]))
    (times,) = before.request_times
    assert (times.api, times.count, times.per_second) == ("Produce", 10, None)
    assert (times.queue_ms, times.local_ms, times.remote_ms, times.total_ms) == (1, 2, 3, 6)
    assert before.handler_idle_percent == 25
    assert before.request_queue_size == 17
    rate = after.request_times[0].per_second
    assert rate is not None
    assert 0 < rate <= 20


def test_a_stage_that_few_requests_went_through_counts_over_all_so_that_stages_add_up_to_the_whole() -> None:
    times, of = "kafka_network_requestmetrics_", '{request="Produce"}'
    text = (
        f"{times}totaltimems_count{of} 100\n{times}totaltimems_sum{of} 300\n"
        f"{times}localtimems_count{of} 100\n{times}localtimems_sum{of} 200\n"
        f"{times}responsesendtimems_count{of} 2\n{times}responsesendtimems_sum{of} 50\n"
        f"{times}throttletimems_count{of} 1\n{times}throttletimems_sum{of} 50\n"
    )
    (found,) = read([text])[0].found[1].request_times
    assert (found.local_ms, found.send_ms, found.throttle_ms, found.total_ms) == (2.0, 0.5, 0.5, 3.0)


def test_a_jmx_exporters_attributes_are_read_too() -> None:
    text = (
        'kafka_network_requestmetrics_totaltimems_count{request="Fetch",} 4\n'
        'kafka_network_requestmetrics_totaltimems_mean{request="Fetch",} 7.5\n'
        'kafka_network_requestmetrics_totaltimems_99thpercentile{request="Fetch",} 30\n'
        'kafka_network_requestmetrics_localtimems_mean{request="Fetch",} 2.5\n'
    )
    (times,) = read([text])[0].found[1].request_times
    assert (times.total_ms, times.local_ms, times.total_p99_ms) == (7.5, 2.5, 30)


def test_a_broker_whose_metrics_cannot_be_read_is_silent_with_the_reason() -> None:
    async def run() -> ByBroker[BrokerMetrics]:
        return await MetricsScraper("").read({1: ("127.0.0.1", {"kavka.metrics.port": "1"}), 2: ("127.0.0.1", {})})

    found = asyncio.run(run())
    assert list(found.silent) == [1]
    assert "127.0.0.1:1" in found.silent[1]


def test_only_plain_http_is_asked() -> None:
    with pytest.raises(ScrapeFailed):
        asyncio.run(http_get("file:///etc/passwd"))


def test_how_long_each_listeners_certificate_is_valid_is_read_as_brokers_show_it() -> None:
    registry = Registry()
    for listener, left_ms in (("SSL", 5_000.0), ("SASL_SSL", -1.0)):
        registry.gauge(
            "kafka.server",
            "socket-server-metrics",
            "certificate-expiry-ms",
            lambda left_ms=left_ms: left_ms,  # type: ignore[misc]
            listener=listener,
        )
    (found,) = (each.found[1] for each in read([render_prometheus(registry)]))
    assert found.certificates_left_ms == {"SSL": 5_000.0, "SASL_SSL": -1.0}
