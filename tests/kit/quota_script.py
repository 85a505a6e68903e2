"""Requests about clients' quotas, right and wrong, and what stands in ZooKeeper after each: asked of any broker.

Runs against kavka and Apache Kafka 3.9 in ZooKeeper mode alike. Every answer is a plain value, without order where the
protocol promises none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.messages import alter_client_quotas_request, describe_client_quotas_request
from tests.kit.broker_client import BrokerClient, Closed

EXACT, DEFAULT, ANY = 0, 1, 2
PRODUCE, CONSUME, PERCENT = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"

Parts = Sequence[tuple[str, str | None]]
Ops = Sequence[tuple[str, float | None]]
Nodes = Callable[[], dict[str, Any]]
"""Paths below /config/users, /config/clients and /config/ips, with what stands there; None for no data."""

ALTERATIONS: tuple[tuple[str, Sequence[tuple[Parts, Ops]]], ...] = (
    ("nothing", ()),
    ("a user", [([("user", "u")], [(PRODUCE, 1024.0), (PERCENT, 50.0)])]),
    ("more of the user", [([("user", "u")], [(CONSUME, 2048.0)])]),
    ("a user with signs", [([("user", "CN=al ice*+~/ü")], [(PRODUCE, 1.0)])]),
    ("user and client id", [([("user", "u"), ("client-id", "c 1")], [(CONSUME, 5.0)])]),
    ("client id and user, in this order", [([("client-id", "c2"), ("user", "v")], [(PRODUCE, 6.0)])]),
    ("user and default client id", [([("user", "u"), ("client-id", None)], [(PERCENT, 12.5)])]),
    ("default user", [([("user", None)], [(PRODUCE, 7.0)])]),
    ("default user and client id", [([("user", None), ("client-id", "c")], [(MUTATIONS, 0.5)])]),
    ("default user and default client id", [([("user", None), ("client-id", None)], [(MUTATIONS, 1e7)])]),
    ("client id", [([("client-id", "c")], [(PRODUCE, 9007199254740993.0)])]),
    ("default client id", [([("client-id", None)], [(PRODUCE, 10.0)])]),
    ("a user named as the default", [([("user", "<default>")], [(PRODUCE, 3.0)])]),
    ("an address", [([("ip", "10.0.0.7")], [(CONNECTIONS, 100.0)])]),
    ("default address", [([("ip", None)], [(CONNECTIONS, 20.0)])]),
    ("an address of version 6", [([("ip", "::1")], [(CONNECTIONS, 20.0)])]),
    ("localhost", [([("ip", "localhost")], [(CONNECTIONS, 0.0)])]),
    ("no address", [([("ip", "no.such.host.invalid")], [(CONNECTIONS, 20.0)])]),
    ("negative connections", [([("ip", "10.0.0.8")], [(CONNECTIONS, -1.0)])]),
    ("too many connections", [([("ip", "10.0.0.8")], [(CONNECTIONS, 3e9)])]),
    ("negative bytes", [([("user", "neg")], [(PRODUCE, -1.0)])]),
    ("zero bytes", [([("user", "neg")], [(CONSUME, 0.0)])]),
    ("negative percentage", [([("user", "neg")], [(PERCENT, -0.5)])]),
    ("half a byte", [([("user", "u")], [(PRODUCE, 0.5)])]),
    ("nearly a whole number", [([("user", "near")], [(PRODUCE, 99.9999999)])]),
    ("infinitely many bytes", [([("user", "inf")], [(PRODUCE, float("inf"))])]),
    ("infinite percentage", [([("user", "inf")], [(PERCENT, float("inf"))])]),
    ("small percentage", [([("user", "small")], [(PERCENT, 1.5e-5)])]),
    ("unknown key", [([("user", "u")], [("no_such_rate", 1.0)])]),
    ("a key of addresses", [([("user", "u")], [(CONNECTIONS, 1.0)])]),
    ("a key of users for an address", [([("ip", "10.0.0.7")], [(PRODUCE, 1.0)])]),
    ("a credential as a number", [([("user", "u")], [("SCRAM-SHA-256", 1.0)])]),
    ("a credential of a client id", [([("client-id", "c")], [("SCRAM-SHA-256", 1.0)])]),
    ("empty key", [([("user", "u")], [("", 1.0)])]),
    ("good and bad keys", [([("user", "mixed")], [(PRODUCE, 1.0), ("bad", 1.0)])]),
    ("no operations", [([("user", "noops")], [])]),
    ("a key twice", [([("user", "twice")], [(PRODUCE, 1.0), (PRODUCE, 2.0)])]),
    ("set and removed", [([("user", "gone")], [(PRODUCE, 1.0), (PRODUCE, None)])]),
    ("unknown key removed", [([("user", "u")], [("no_such_rate", None)])]),
    ("no entity", [([], [(PRODUCE, 1.0)])]),
    ("unknown entity", [([("planet", "mars")], [(PRODUCE, 1.0)])]),
    ("unknown default entity", [([("planet", None)], [(PRODUCE, 1.0)])]),
    ("unknown entity beside a user", [([("user", "u"), ("planet", "mars")], [(PRODUCE, 1.0)])]),
    ("empty user", [([("user", "")], [(PRODUCE, 1.0)])]),
    ("empty client id", [([("client-id", "")], [(PRODUCE, 1.0)])]),
    ("empty address", [([("ip", "")], [(CONNECTIONS, 1.0)])]),
    ("empty type", [([("", "u")], [(PRODUCE, 1.0)])]),
    ("address and user", [([("ip", "10.0.0.7"), ("user", "u")], [(CONNECTIONS, 1.0)])]),
    ("address and client id", [([("ip", "10.0.0.7"), ("client-id", "c")], [(CONNECTIONS, 1.0)])]),
    ("a type twice", [([("user", "first"), ("user", "second")], [(PRODUCE, 1.0)])]),
    ("two entities", [([("user", "u1")], [(PRODUCE, 1.0)]), ([("user", "u2")], [(PRODUCE, 2.0)])]),
    ("one good, one bad", [([("user", "u3")], [(PRODUCE, 1.0)]), ([("planet", "x")], [(PRODUCE, 2.0)])]),
    ("an entity twice", [([("user", "u4")], [(PRODUCE, 1.0)]), ([("user", "u4")], [(CONSUME, 2.0)])]),
    ("good, then bad, of one entity", [([("user", "u5")], [(PRODUCE, 1.0)]), ([("user", "u5")], [("bad", 2.0)])]),
)
REFUSED_BY_KAVKA: tuple[tuple[str, Sequence[tuple[Parts, Ops]], int], ...] = (
    ("not a number of bytes", [([("user", "nan")], [(PRODUCE, float("nan"))])], 0),
    ("not a number of percents", [([("user", "nan")], [(PERCENT, float("nan"))])], 0),
    ("not a number of connections", [([("ip", "10.0.0.9")], [(CONNECTIONS, float("nan"))])], 0),
    ("a user named as a directory", [([("user", "."), ("client-id", "c")], [(PRODUCE, 1.0)])], -1),
    ("a client id named as a directory", [([("client-id", "..")], [(PRODUCE, 1.0)])], -1),
)
"""With the error code of Kafka: it stores what is no number, and has an internal error for names that no znode may
have. kavka answers INVALID_REQUEST. Only looked at."""
REMOVALS: tuple[tuple[str, Sequence[tuple[Parts, Ops]]], ...] = (
    ("one of two limits", [([("user", "u")], [(PRODUCE, None)])]),
    ("the last of a user with client ids", [([("user", "u")], [(PERCENT, None), (CONSUME, None)])]),
    ("the last of a client id beside another", [([("user", "u"), ("client-id", "c 1")], [(CONSUME, None)])]),
    ("the last client id of a user", [([("user", "u"), ("client-id", None)], [(PERCENT, None)])]),
    ("what is not set", [([("user", "nobody")], [(PRODUCE, None)])]),
    ("what is not set, of a user and a client id", [([("user", "nobody"), ("client-id", "x")], [(PRODUCE, None)])]),
    ("of a client id", [([("client-id", "c")], [(PRODUCE, None)])]),
    ("of an address", [([("ip", "10.0.0.7")], [(CONNECTIONS, None)])]),
    ("of a default", [([("client-id", None)], [(PRODUCE, None)])]),
)
FILTERS: tuple[tuple[str, Sequence[tuple[str, int, str | None]], bool], ...] = (
    ("all", (), False),
    ("all, strictly", (), True),
    *(
        (f"{name}{', strictly' if strict else ''}", parts, strict)
        for strict in (False, True)
        for name, parts in (
            ("a user", (("user", EXACT, "u"),)),
            ("default user", (("user", DEFAULT, None),)),
            ("any user", (("user", ANY, None),)),
            ("a client id", (("client-id", EXACT, "c"),)),
            ("default client id", (("client-id", DEFAULT, None),)),
            ("any client id", (("client-id", ANY, None),)),
            ("a user and a client id", (("user", EXACT, "u"), ("client-id", EXACT, "c 1"))),
            ("a user and any client id", (("user", EXACT, "u"), ("client-id", ANY, None))),
            ("any user and default client id", (("user", ANY, None), ("client-id", DEFAULT, None))),
            ("any of both", (("user", ANY, None), ("client-id", ANY, None))),
            ("an address", (("ip", EXACT, "10.0.0.7"),)),
            ("default address", (("ip", DEFAULT, None),)),
            ("any address", (("ip", ANY, None),)),
        )
    ),
    ("a user twice", (("user", EXACT, "u"), ("user", ANY, None)), False),
    ("a user and an address", (("user", EXACT, "u"), ("ip", ANY, None)), False),
    ("empty type", (("", ANY, None),), False),
    ("unknown type", (("planet", ANY, None),), False),
    ("unknown match", (("user", 7, "u"),), False),
    ("a null name", (("user", EXACT, None),), False),
    ("the default with a name", (("user", DEFAULT, "u"),), False),
    ("any with a name", (("user", ANY, "u"),), False),
    ("an empty name", (("user", EXACT, ""),), False),
)


def alter(
    client: BrokerClient, entries: Iterable[tuple[Parts, Ops]], *, version: int = 1, validate_only: bool = False
) -> Any:
    acq = alter_client_quotas_request
    request = m.AlterClientQuotasRequest(
        entries=[
            acq.EntryData(
                entity=[acq.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
                ops=[
                    acq.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in ops
                ],
            )
            for parts, ops in entries
        ],
        validate_only=validate_only,
    )
    try:
        answer = client.ask(request, version)
    except Closed:
        return "closed"
    return sorted(
        (
            [(part.entity_type, part.entity_name or "-") for part in entry.entity],
            entry.error_code,
            entry.error_message or "",
        )
        for entry in answer.entries
    )


def describe(
    client: BrokerClient, parts: Sequence[tuple[str, int, str | None]], *, strict: bool, version: int = 1
) -> Any:
    components = [
        describe_client_quotas_request.ComponentData(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in parts
    ]
    answer = client.ask(m.DescribeClientQuotasRequest(components=components, strict=strict), version)
    if answer.entries is None:
        return (answer.error_code, answer.error_message or "", None)
    found = sorted(
        (
            [(part.entity_type, part.entity_name or "-") for part in entry.entity],
            sorted((value.key, repr(value.value)) for value in entry.values),
        )
        for entry in answer.entries
    )
    return (answer.error_code, answer.error_message or "", found)


def run(port: int, nodes: Nodes) -> dict[str, Any]:
    """Every step by name, with the answer and, where that may change, what stands in ZooKeeper afterwards."""
    results: dict[str, Any] = {}
    with BrokerClient(port) as client:
        for validate_only in (True, False):
            for name, entries in ALTERATIONS:
                step = f"{'look at' if validate_only else 'set'} {name}"
                results[step] = alter(client, entries, validate_only=validate_only)
                results[f"{step}: znodes"] = nodes()
        for name, entries, _code in REFUSED_BY_KAVKA:
            results[f"look at {name}"] = alter(client, entries, validate_only=True)
        for name, parts, strict in FILTERS:
            results[f"describe {name}"] = describe(client, parts, strict=strict)
        results["describe, version 0"] = describe(client, (), strict=False, version=0)
        for name, entries in REMOVALS:
            results[f"remove {name}"] = alter(client, entries, version=0)
            results[f"remove {name}: znodes"] = nodes()
        results["describe what is left"] = describe(client, (), strict=False)
    return results
