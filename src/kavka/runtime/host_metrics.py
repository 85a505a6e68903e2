"""HostMetrics: one port that shows the metrics of all brokers of a host, and those of the host itself.

Decides how the texts of several brokers become one: each sample gets the label `on_broker`, and the samples of one
metric stand together, as Prometheus wants them. Must not know what is measured. A broker that does not answer is left
out; `kavka_host_broker_serving` says that it is away.

Source: Prometheus' exposition format 0.0.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kavka.config.host_layout import LOOPBACK
from kavka.metrics import Registry
from kavka.runtime.http.metrics_server import MetricsServer

PATIENCE_S: Final = 5.0
"""How long a broker may take to show its own."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""Of one broker: a sample for each of a million partitions."""
LABEL: Final = "on_broker"
REQUEST: Final = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class HostMetrics(MetricsServer):
    """`ports` are those of the brokers' own metrics, by broker id, on the loopback; `status` is the host's."""

    def __init__(self, ports: Mapping[int, int], status: Callable[[], Iterable[Mapping[str, object]]]) -> None:
        super().__init__(Registry())
        self._ports = dict(ports)
        self._status = status

    async def text(self) -> str:
        """The metrics of all that answer, and the host's own."""
        shown = await asyncio.gather(*(_metrics_of(port) for port in self._ports.values()))
        answered = {broker: text for broker, text in zip(self._ports, shown, strict=True) if text is not None}
        return await asyncio.to_thread(merged, answered) + own_metrics(self._status())


def merged(texts: Mapping[int, str]) -> str:
    """One text of those of several brokers, by broker id."""
    families: dict[str, list[str]] = {}
    for broker, text in texts.items():
        label = f'{LABEL}="{broker}"'
        samples = families.setdefault("", [])
        for line in text.splitlines():
            if line.startswith("#"):
                samples = families.setdefault(line, [])
            elif line:
                samples.append(_labelled(line, label))
    lines = [line for head, samples in families.items() for line in ([head] if head else []) + samples]
    return "".join(f"{line}\n" for line in lines)


def own_metrics(status: Iterable[Mapping[str, object]]) -> str:
    """The host's own, from what it says of its brokers."""
    brokers = list(status)
    lines = ["# TYPE kavka_host_broker_serving gauge"]
    lines += [
        f'kavka_host_broker_serving{{{LABEL}="{each["broker"]}"}} {int(each["state"] == "serving")}' for each in brokers
    ]
    lines.append("# TYPE kavka_host_broker_restarts_total counter")
    lines += [f'kavka_host_broker_restarts_total{{{LABEL}="{each["broker"]}"}} {each["restarts"]}' for each in brokers]
    return "".join(f"{line}\n" for line in lines)


def _labelled(sample: str, label: str) -> str:
    """The sample with one more label, in front of those that it has."""
    name_ends = sample.find("{")
    if name_ends >= 0:
        return f"{sample[: name_ends + 1]}{label},{sample[name_ends + 1 :]}"
    name, space, value = sample.partition(" ")
    return f"{name}{{{label}}}{space}{value}"


async def _metrics_of(port: int) -> str | None:
    """What a broker shows; None where it does not answer, or answers something else."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(REQUEST)
                pieces, size = [], 0
                while piece := await reader.read(1 << 16):
                    pieces.append(piece)
                    size += len(piece)
                    if size > MAX_BYTES:
                        return None
            finally:
                writer.close()
    except (TimeoutError, OSError):
        return None
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    return body.decode("utf-8", "replace") if head.startswith(b"HTTP/1.1 200 ") else None
