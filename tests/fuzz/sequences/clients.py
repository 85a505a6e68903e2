"""Connections that send well-formed requests, and the rules that every answer must keep.

    K1  a connection is closed only after a Produce with acks=0 that failed: Kafka's way to say so
    K2  every request is answered in the time that it allows, and PATIENCE_S
    K3  no answer says UNKNOWN_SERVER_ERROR: an exception that nobody expected
    K4  an answer can be decoded in its request's version, to its last byte
    V1 to V5 and V7 to V9 of relations.py: one more client asks for the same in two ways, and both answers agree

Whether the broker lives on, and what it holds in memory, is asked by whoever started it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kavka.errors import ConnectionFailed, ErrorCode, KavkaError
from kavka.network import Connection, Network
from kavka.protocol.api import ApiKey, RequestHeader, api, decode_response_header, encode_request_header
from kavka.protocol.codec import decode
from kavka.protocol.messages import ApiVersionsRequest, CreateTopicsRequest, MetadataRequest, UpdateFeaturesRequest
from kavka.protocol.messages.create_topics_request import CreatableTopic
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.protocol.messages.update_features_request import FeatureUpdateKey
from kavka.protocol.schema import Struct
from tests.fuzz.sequences.asker import CLIENT_ID, Asker
from tests.fuzz.sequences.knowledge import TOPICS, Knowledge, Member, Session, Subject, Topic, Transaction
from tests.fuzz.sequences.relations import Disagree, Relations
from tests.fuzz.sequences.requests import Asked, Requests

PATIENCE_S: Final = 30.0
"""Longer than any wait that a request here can ask for, on a machine that does other things as well."""
CLIENTS: Final = 32
BETWEEN_ROUNDS_S: Final = 0.5
ROUND_S: Final = 300.0
"""Some eighty requests, amid those of all clients, on a machine that does other things as well."""
REMEMBERED: Final = 60
"""Requests that a finding is told with."""
FINDINGS: Final = 20
PARTITIONS_SAY_SO_RIGHTLY: Final = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""Whose partitions may say so, as Apache Kafka's: of a share-partition whose state is not made yet, or was deleted."""


@dataclass
class Report:
    """What came of a run."""

    asked: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Answers by API and error."""
    findings: list[str] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    """Pairs of answers by relation."""
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    requests: int = 0

    def find(self, what: str) -> None:
        if len(self.findings) < FINDINGS:
            self.findings.append(what)

    @property
    def accepted(self) -> int:
        return sum(count for name, count in self.errors.items() if name.endswith(" NONE"))


class Fuzz:
    """So many clients of one broker, for so many requests."""

    def __init__(
        self, network: Network, address: tuple[str, int], seed: int, *, requests: int, pauses: float = 0.0
    ) -> None:
        """`pauses`: so many requests are followed by one, in which sessions, locks and transactions time out."""
        self._network, self._address, self._pauses = network, address, pauses
        self._rng = random.Random(seed)
        self._related = Relations(Asker(network, address), random.Random(f"{seed} related"))
        self._left = requests
        self._knowledge = Knowledge(self._rng)
        self.report = Report()

    async def run(self) -> Report:
        """Ends when all requests are answered, or with FINDINGS findings."""
        requests = Requests(self._rng, self._knowledge, await self._served())
        await asyncio.gather(self._relate(), *(self._client(requests) for _ in range(CLIENTS)))
        return self.report

    async def _relate(self) -> None:
        """Rounds of relations for as long as there are requests, and one at least."""
        while len(self.report.findings) < FINDINGS:
            try:
                async with asyncio.timeout(ROUND_S):
                    await self._related.round()
            except Disagree as wrong:
                self.report.find(str(wrong))
            except ConnectionFailed as failure:
                self.report.find(f"K1: the connection of relations was closed: {failure}")
                break
            except TimeoutError:
                self.report.find(f"K2: a round of relations took over {ROUND_S} s")
                break
            if self._left <= 0:
                break
            await asyncio.sleep(BETWEEN_ROUNDS_S)
        self._related.close()
        self.report.compared += self._related.count

    async def _served(self) -> dict[int, tuple[int, int]]:
        """What the broker serves, once share groups are switched on and the topics are there."""
        asker = Asker(self._network, self._address)
        ask = asker.ask
        await ask(
            UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="share.version", max_version_level=2)]), 1
        )
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS]
        self._knowledge.learn(ApiKey.CREATE_TOPICS, None, await ask(CreateTopicsRequest(topics=topics), 7), nobody())
        answer = await ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS]), 12)
        self._knowledge.learn(ApiKey.METADATA, None, answer, nobody())
        answer = await ask(ApiVersionsRequest(), 0)
        asker.close()
        # Produce below 3 is advertised for old librdkafka, and refused.
        lowest = {int(ApiKey.PRODUCE): 3}
        return {
            each.api_key: (lowest.get(each.api_key, each.min_version), each.max_version) for each in answer.api_keys
        }

    async def _client(self, requests: Requests) -> None:
        connection: Connection | None = None
        was_unanswered = False
        while self._left > 0 and len(self.report.findings) < FINDINGS:
            self._left -= 1
            asked = requests.draw()
            try:
                connection = connection or await self._network.connect(*self._address)
            except ConnectionFailed as failure:
                self.report.find(f"nobody listens any more: {failure}")
                return
            self.report.asked[asked.key.name] += 1
            self.report.requests += 1
            self.report.latest.append(str(asked))
            is_unanswered = asked.key is ApiKey.PRODUCE and asked.message.acks == 0
            try:
                connection.send_frame([self._header(asked), asked.body])
                if not is_unanswered:
                    async with asyncio.timeout(PATIENCE_S):
                        self._answered(asked, await connection.receive_frame())
            except TimeoutError:
                self.report.find(f"K2: no answer within {PATIENCE_S} s to {asked}")
                connection.close()
                connection = None
            except ConnectionFailed:
                if not (was_unanswered or is_unanswered):
                    self.report.find(f"K1: the connection was closed after {asked}")
                connection = None
            was_unanswered = is_unanswered
            if self._rng.random() < self._pauses:
                await asyncio.sleep(self._rng.expovariate(1.0))

    def _header(self, asked: Asked) -> bytes:
        return encode_request_header(RequestHeader(asked.key, asked.version, 7, CLIENT_ID))

    def _answered(self, asked: Asked, frame: bytes) -> None:
        try:
            _, body = decode_response_header(asked.key, asked.version, frame)
            answer = decode(api(asked.key).response_type, memoryview(frame)[body:], asked.version)
        except (KavkaError, ValueError) as wrong:
            self.report.find(f"K4: {type(wrong).__name__}: {wrong}, answering {asked}")
            return
        codes = list(error_codes(answer))
        for code in set(codes):
            self.report.errors[f"{asked.key.name} {_name_of(code)}"] += 1
        if asked.key in PARTITIONS_SAY_SO_RIGHTLY:
            codes = [answer.error_code]
        if ErrorCode.UNKNOWN_SERVER_ERROR in codes:
            self.report.find(f"K3: UNKNOWN_SERVER_ERROR, answering {asked}")
        self._knowledge.learn(asked.key, asked.message, answer, asked.subject)


def nobody() -> Subject:
    return Subject(Member("", ApiKey.JOIN_GROUP), Transaction(None), Topic(""), Session())


def error_codes(value: Any) -> Iterator[int]:
    """Of an answer and of all that is in it."""
    if isinstance(value, Struct):
        for one in type(value)._fields:
            if one.name.endswith("error_code"):
                yield getattr(value, one.name)
            elif one.kind in ("struct", "array"):
                yield from error_codes(getattr(value, one.name))
    elif isinstance(value, list):
        for each in value:
            yield from error_codes(each)


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
