"""The pages of clients: who reads and who writes a topic, one of its partitions, or what a broker leads.

Decides about which partitions a page is. What Kafka's protocol does not tell, the page says plainly. Must not know how
clients are found (sources/clients.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from kavka.console.console import absent
from kavka.console.look.view import cut, links
from kavka.console.sources.clients import WriterReader, Writers, readers
from kavka.errors import ConnectionFailed, KavkaError
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console

PAGE_SIZE: Final = 100
LONGEST_NUMBER: Final = 9


class _Pages:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._writers: dict[str, WriterReader] = {}
        """By cluster."""

    async def of_topic(self, request: Request) -> Response:
        watch, name = self._console.cluster(request), request.path_params["topic"]
        found = watch.snapshot.topics.get(name)
        if found is None:
            raise absent(watch, f"There is no topic {name!r} in {watch.name}, or the console has not read it yet.")
        said = request.query_params.get("partition", "")
        chosen = int(said) if said.isdecimal() and len(said) <= LONGEST_NUMBER else None
        partitions = [
            TopicPartition(name, each.partition)
            for each in found.partitions
            if chosen is None or each.partition == chosen
        ]
        if chosen is not None and not partitions:
            raise absent(watch, f"{name} has no partition {chosen}.")
        return await self._show(request, watch, partitions, section="topics", topic=name, partition=chosen)

    async def of_broker(self, request: Request) -> Response:
        watch, broker = self._console.cluster(request), int(request.path_params["broker"])
        found = watch.snapshot.brokers.get(broker)
        if found is None:
            raise absent(watch, f"There is no broker {broker} in {watch.name}, and no replica is assigned to one.")
        partitions = [
            TopicPartition(each.topic, each.partition) for each in watch.snapshot.partitions() if each.leader == broker
        ]
        return await self._show(request, watch, partitions, section="brokers", broker=broker)

    async def _show(
        self, request: Request, watch: ClusterWatch, partitions: list[TopicPartition], *, section: str, **of: object
    ) -> Response:
        reader = self._writers.setdefault(watch.name, WriterReader())
        found, why = Writers(()), ""
        try:
            found = await reader.read(watch.cluster, partitions, self._console.guard.now_ms())
        except ConnectionFailed as lost:
            why = str(lost)
        except TimeoutError:
            why = "the brokers did not answer in time"
        except KavkaError as problem:
            why = str(problem)
        members = readers(watch.snapshot.groups.values(), frozenset(partitions), with_away=section == "topics")
        known = {"topic": "", "partition": None, "broker": None, **of}
        return self._console.show(
            request,
            "clients.html",
            section=section,
            readers=cut(members, request, size=PAGE_SIZE),
            writers=found,
            shown=found.found[:PAGE_SIZE],
            why=why,
            partitions=len(partitions),
            link=links(request),
            **known,
        )


def routes(console: Console) -> list[Route]:
    pages = _Pages(console)
    return [
        Route("/c/{cluster}/topics/{topic}/clients", pages.of_topic),
        Route("/c/{cluster}/brokers/{broker:int}/clients", pages.of_broker),
    ]
