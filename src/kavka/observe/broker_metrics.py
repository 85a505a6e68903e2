"""MetricsScraper: what brokers show at their metrics addresses, in Prometheus' text, under Kafka's names.

Decides where a broker's address is (its own setting kavka.metrics.port, else the cluster's template), what of the text
is kept, and what a share of time is between two readings. Must not know what is good or bad about a number.

    kafka_network_requestmetrics_{requestqueue,local,remote,throttle,responsequeue,responsesend,total}timems_{sum,count}{request}
    kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent...
    kafka_network_socketserver_networkprocessoravgidlepercent
    kafka_network_requestchannel_requestqueuesize
    kafka_server_socket_server_metrics_certificate_expiry_ms{listener}

Source: Kafka's documentation on monitoring; Prometheus' exposition format 0.0.4; the JMX exporter's lower case names.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kavka.observe.readings import ByBroker
from kavka.observe.snapshot import BrokerMetrics, RequestTimes

METRICS_PORT: Final = "kavka.metrics.port"
PATIENCE_S: Final = 3.0
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
MAX_SAMPLES: Final = 50_000
MAX_APIS: Final = 100
MAX_VALUE: Final = 1e18
"""What is not below it is no measurement. Exporters write NaN for what they have not measured yet."""
_TIMES: Final = {
    "queue": "kafka_network_requestmetrics_requestqueuetimems",
    "local": "kafka_network_requestmetrics_localtimems",
    "remote": "kafka_network_requestmetrics_remotetimems",
    "throttle": "kafka_network_requestmetrics_throttletimems",
    "response": "kafka_network_requestmetrics_responsequeuetimems",
    "send": "kafka_network_requestmetrics_responsesendtimems",
    "total": "kafka_network_requestmetrics_totaltimems",
}
_HANDLER_IDLE: Final = (
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate",
)
_NETWORK_IDLE: Final = ("kafka_network_socketserver_networkprocessoravgidlepercent",)
_CERTIFICATE: Final = "kafka_server_socket_server_metrics_certificate_expiry_ms"
_QUEUE_SIZE: Final = "kafka_network_requestchannel_requestqueuesize"
_SAMPLE: Final = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?$")
_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float


class ScrapeFailed(Exception):
    """The address does not answer with metrics."""


def parse_samples(text: str) -> Iterator[Sample]:
    """The samples of a text; lines that are none are passed over, values that are no measurements, and what comes after
    MAX_SAMPLES."""
    found = 0
    for line in text.splitlines():
        if line.startswith("#") or found >= MAX_SAMPLES:
            continue
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if not math.isfinite(value) or abs(value) >= MAX_VALUE:
            continue
        found += 1
        labels = {} if match[2] is None else {name: _unescaped(text) for name, text in _LABEL.findall(match[2])}
        yield Sample(match[1].lower(), labels, value)


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\") if "\\" in text else text


class _Before(NamedTuple):
    at_s: float
    counts: Mapping[str, float]


class MetricsScraper:
    """Reads the metrics of one cluster's brokers. `template`: http://{host}:PORT/PATH, with {host} and {broker}."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._before: dict[int, _Before] = {}

    def address_of(self, broker: int, host: str, configs: Mapping[str, str]) -> str | None:
        """Where the broker shows them; None where nobody says."""
        port = configs.get(METRICS_PORT, "")
        if port.isdecimal() and len(port) <= 5 and int(port) > 0:
            return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
        if self._template:
            return self._template.replace("{host}", host).replace("{broker}", str(broker))
        return None

    async def read(self, brokers: Mapping[int, tuple[str, Mapping[str, str]]]) -> ByBroker[BrokerMetrics]:
        """The metrics of these brokers (host and settings by id); those without an address are left out."""
        result: ByBroker[BrokerMetrics] = ByBroker()

        async def read(broker: int, address: str) -> None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    text = await http_get(address)
            except (OSError, TimeoutError, ScrapeFailed) as problem:
                result.silent[broker] = f"{address}: {str(problem) or 'no answer in time'}"
            else:
                result.found[broker] = self._summary(broker, text)

        addresses = {broker: self.address_of(broker, *place) for broker, place in brokers.items()}
        await asyncio.gather(*(read(broker, address) for broker, address in addresses.items() if address))
        self._before = {broker: before for broker, before in self._before.items() if broker in brokers}
        return result

    def _summary(self, broker: int, text: str) -> BrokerMetrics:
        now_s = asyncio.get_running_loop().time()
        values: dict[str, float] = {}
        of_api: dict[str, dict[str, float]] = {}
        idle: list[float] = []
        certificates: dict[str, float] = {}
        for sample in parse_samples(text):
            api = sample.labels.get("request")
            if api is not None and len(of_api) < MAX_APIS:
                suffix = ":p99" if sample.labels.get("quantile") == "0.99" else ""
                if "quantile" not in sample.labels or suffix:
                    of_api.setdefault(api, {})[sample.name + suffix] = sample.value
            elif not sample.labels:
                values[sample.name] = sample.value
            elif sample.name in _NETWORK_IDLE:
                idle.append(sample.value)
            elif sample.name == _CERTIFICATE:
                certificates[sample.labels.get("listener", "")] = sample.value
        before = self._before.get(broker)
        counts = {api: times.get(f"{_TIMES['total']}_count", 0.0) for api, times in of_api.items()}
        self._before[broker] = _Before(now_s, counts)
        times = [
            shown
            for api, found in sorted(of_api.items())
            if (shown := _request_times(api, found, before, now_s)) is not None
        ]
        return BrokerMetrics(
            tuple(times),
            _percent(next((values[name] for name in _HANDLER_IDLE if name in values), None)),
            _percent(next((values[name] for name in _NETWORK_IDLE if name in values), None))
            if not idle
            else _percent(sum(idle) / len(idle)),
            values.get(_QUEUE_SIZE),
            values,
            certificates,
        )


def _request_times(api: str, found: Mapping[str, float], before: _Before | None, now_s: float) -> RequestTimes | None:
    count = found.get(f"{_TIMES['total']}_count", 0.0)
    if count < 1:
        return None

    def mean(kind: str) -> float:
        # By the number of requests: ResponseSend counts only those that were not sent at once.
        if f"{_TIMES[kind]}_sum" in found:
            return found[f"{_TIMES[kind]}_sum"] / count
        return found.get(f"{_TIMES[kind]}_mean", 0.0)  # The JMX exporter shows Kafka's histograms by their attributes.

    rate = None
    if before is not None and now_s > before.at_s and api in before.counts:
        rate = max(count - before.counts[api], 0.0) / (now_s - before.at_s)
    p99 = found.get(f"{_TIMES['total']}:p99", found.get(f"{_TIMES['total']}_99thpercentile"))
    return RequestTimes(
        api,
        int(count),
        rate,
        mean("queue"),
        mean("local"),
        mean("remote"),
        mean("response"),
        mean("send"),
        mean("total"),
        p99,
        mean("throttle"),
    )


def _percent(value: float | None) -> float | None:
    """Kafka shows idle time as a share of 1."""
    return None if value is None else 100 * value if value <= 1 else value


async def http_get(address: str) -> str:
    """The text of a plain http address. Raises OSError, ScrapeFailed."""
    match = re.fullmatch(r"http://(\[[^\]]+\]|[^/:]+)(?::(\d+))?(/.*)?", address)
    if match is None:
        raise ScrapeFailed(f"{address!r} is no http://host:port/path")
    host, port, path = match[1], int(match[2] or 80), match[3] or "/"
    reader, writer = await asyncio.open_connection(host.strip("[]"), port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: text/plain\r\n\r\n".encode())
        answer = bytearray()
        while len(answer) <= MAX_ANSWER_BYTES:
            part = await reader.read(65_536)
            if not part:
                break
            answer += part
    finally:
        writer.close()
    head, found, body = bytes(answer).partition(b"\r\n\r\n")
    if len(answer) > MAX_ANSWER_BYTES:
        raise ScrapeFailed(f"more than {MAX_ANSWER_BYTES:,} bytes")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if not found or len(status) < 2 or status[1] != b"200":
        raise ScrapeFailed(f"answers {head[:100].decode('latin-1')!r}")
    return body.decode("utf-8", "replace")
