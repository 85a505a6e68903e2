"""UpSecure: what `kavka up --secure --brokers 3` makes, in one process and with no setting of ours, to be besieged.

Decides how it is started and found out: clients take the files that it writes, and the address of the brokers' own
listener is what each broker says of its settings. Must not know what is sent there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]  # exported

from kavka.config.properties import parse_properties
from kavka.runtime.tls.secured_listeners import BROKERS
from tests.kit.command_line import PROGRAM
from tests.kit.kavka_process import HOST
from tests.kit.ports import free_port
from tests.kit.process_cluster import Server, eventually
from tests.soak.besiegers import Target

COUNT: Final = 3


class Leadership(NamedTuple):
    """Who leads a partition, and who is in sync."""

    leader: int
    isr: tuple[int, ...]


class UpSecure:
    """As a context manager it runs. `brokers`: the one process in which all of them are."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._data = directory / "data"
        port = free_port(following=range(1, COUNT))
        self.clients = [port + number for number in range(COUNT)]
        self.bootstrap = ",".join(f"{HOST}:{each}" for each in self.clients)
        command = [
            str(PROGRAM),
            "up",
            "--secure",
            "--brokers",
            str(COUNT),
            "--port",
            str(port),
            "--data",
            str(self._data),
        ]
        command += ["--no-console", "--log-level", "info"]
        self.brokers = {0: Server("up-secure", command, host=HOST, port=port, directory=directory)}

    @property
    def client(self) -> dict[str, str]:
        """What a client of librdkafka's sets: the file that was written for one."""
        return dict(parse_properties((self._data / "security" / "admin.librdkafka.conf").read_text()))

    def kind_of(self, _: int) -> str:
        return "kavka"

    def state(self, topic: str, partition: int) -> Leadership:
        found = self._admin().list_topics(topic, timeout=30).topics[topic].partitions[partition]
        return Leadership(found.leader, tuple(sorted(found.isrs)))

    def target(self) -> Target:
        """Raises KafkaException."""
        client = self.client
        own = [self._own_port(number) for number in range(1, COUNT + 1)]
        user, password = client["sasl.username"], client["sasl.password"]
        return Target(self.clients, own, [], client["ssl.ca.location"], str(self._directory), user, password)

    def _own_port(self, broker_id: int) -> int:
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        admin = self._admin()  # With its last reference it ends, and what it was asked.
        (answer,) = admin.describe_configs([resource]).values()
        settings: Mapping[str, Any] = answer.result(30)
        listeners = settings["listeners"].value.split(",")
        (own,) = (each for each in listeners if each.partition("://")[0] == BROKERS)
        return int(own.rpartition(":")[2])

    def _admin(self) -> AdminClient:
        return AdminClient({**self.client, "bootstrap.servers": self.bootstrap, "log_level": 0})

    def __enter__(self) -> UpSecure:
        self.brokers[0].start()
        eventually("a client gets in", lambda: len(self._admin().list_topics(timeout=5).brokers) == COUNT, timeout_s=90)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.brokers[0].stop(timeout_s=60)
