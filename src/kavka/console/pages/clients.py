"""The pages of clients: who reads and who writes a topic, one of its partitions, or what a broker leads.

Decides about which partitions a page is, and which brokers are asked for their connections. What brokers do not report,
the page says plainly. Must not know how clients are found (sources/clients.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.routing import Route

from kavka.console.console import absent
from kavka.console.look.view import cut, links
from kavka.console.sources.clients import WriterReader, Writers, read_connections, readers
from kavka.console.sources.connections import joined_readers, producers, without_idempotence
from kavka.errors import KavkaError
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console

PAGE_SIZE: Final = 100
LONGEST_NUMBER: Final = 9


class _Asked(NamedTuple):
    """What a page is about: its partitions, the topics (any, where none is named) and brokers whose connections are
    asked for, and a name for all that."""

    partitions: tuple[TopicPartition, ...]
    topics: tuple[str, ...]
    brokers: tuple[int, ...]
    name: str


async def _writers(reader: WriterReader, watch: ClusterWatch, asked: _Asked, now_ms: int) -> tuple[Writers, str]:
    """The producers that leaders remember, and why they are not known."""
    try:
        return await reader.read(watch.cluster, asked.partitions, now_ms), ""
    except TimeoutError:
        return Writers(()), "the brokers did not answer in time"
    except KavkaError as problem:
        return Writers(()), str(problem)


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
        replicas = {broker for each in found.partitions for broker in each.replicas}
        brokers = [each.broker_id for each in watch.snapshot.alive_brokers if each.broker_id in replicas]
        asked = _Asked(tuple(partitions), (name,), tuple(brokers), f"{name}/{'' if chosen is None else chosen}")
        return await self._show(request, watch, asked, section="topics", topic=name, partition=chosen)

    async def of_broker(self, request: Request) -> Response:
        watch, broker = self._console.cluster(request), int(request.path_params["broker"])
        found = watch.snapshot.brokers.get(broker)
        if found is None:
            raise absent(watch, f"There is no broker {broker} in {watch.name}, and no replica is assigned to one.")
        partitions = [
            TopicPartition(each.topic, each.partition) for each in watch.snapshot.partitions() if each.leader == broker
        ]
        asked = _Asked(tuple(partitions), (), (broker,), str(broker))
        return await self._show(request, watch, asked, section="brokers", broker=broker)

    async def _show(
        self, request: Request, watch: ClusterWatch, asked: _Asked, *, section: str, **of: object
    ) -> Response:
        reader = self._writers.setdefault(watch.name, WriterReader())
        now_ms, wanted = self._console.guard.now_ms(), frozenset(asked.partitions)
        connected, (found, why) = await asyncio.gather(
            read_connections(watch.cluster, asked.topics, asked.brokers), _writers(reader, watch, asked, now_ms)
        )
        members = readers(watch.snapshot.groups.values(), wanted, with_away=section == "topics")
        named, alone = joined_readers(members, connected.found, wanted)
        of_producers = producers(connected.found, wanted)
        shown = [each._replace(who=of_producers.get(each.producer_id, ())) for each in found.found[:PAGE_SIZE]]
        unnamed = reader.with_rates(without_idempotence(connected.found, wanted), asked.name, now_ms)
        known = {"topic": "", "partition": None, "broker": None, **of}
        return self._console.show(
            request,
            "clients.html",
            section=section,
            readers=cut((*named, *alone), request, size=PAGE_SIZE),
            writers=found,
            shown=shown,
            unnamed=unnamed[:PAGE_SIZE],
            unnamed_left=max(len(unnamed) - PAGE_SIZE, 0),
            connected=connected,
            why=why,
            link=links(request),
            **known,
        )


def routes(console: Console) -> list[Route]:
    pages = _Pages(console)
    return [
        Route("/c/{cluster}/topics/{topic}/clients", pages.of_topic),
        Route("/c/{cluster}/brokers/{broker:int}/clients", pages.of_broker),
    ]
