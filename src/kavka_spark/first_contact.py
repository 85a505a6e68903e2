"""The first contact of a process with a cluster: how long it is tried, and what is said where nobody answers.

Decides which failures waiting cannot mend, and which option each failure points at. It must not know what a query reads
or writes.

Invariants
  I1  A query that begins hears within `first_contact_ms` that no broker answers. A task of a query that runs has
      `kafka.default.api.timeout.ms`: brokers that its query has met are starting again.
  I2  A name that nobody knows, another protocol, or a certificate that is not trusted ends it at once. A task waits for
      names: a query that runs has met its brokers by them.
  I3  Who is refused a login hears so at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kavka.client.cluster import Cluster, NoBrokerAnswers
from kavka.errors import (
    ConnectionFailed,
    ConnectionRefused,
    ErrorCode,
    HostUnknown,
    KavkaError,
    NotKafka,
    NotTrusted,
    RequestError,
)
from kavka_spark.errors import UnreachableError
from kavka_spark.options import ConnectionOptions

_LOGIN = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE)


async def first_contact(cluster: Cluster, options: ConnectionOptions, *, begins: bool) -> None:
    """Finds the cluster's brokers. `begins`: for a query that begins, not for a task of one that runs (I1).

    Raises `UnreachableError`, and `RequestError` for a login that is refused.
    """
    limit_ms = options.first_contact_ms if begins else options.client.api_timeout_ms
    hopeless = (HostUnknown, NotKafka, NotTrusted) if begins else (NotKafka, NotTrusted)
    last: KavkaError = ConnectionFailed(f"no answer from {options.shown}")

    async def attempt() -> None:
        nonlocal last
        try:
            await cluster.refresh([])
        except ConnectionFailed as failure:
            last = failure
            if all(isinstance(each, hopeless) for each in _each(failure)):
                raise _unreachable(options, failure) from failure
            raise
        except RequestError as refused:
            last = refused
            if refused.code in _LOGIN:
                raise RequestError(refused.code, f"{refused.message} (options kafka.sasl...)") from refused
            raise

    try:
        async with asyncio.timeout(limit_ms / 1000):
            await cluster.retry(attempt, what="find the cluster", timeout_ms=limit_ms)
    except (ConnectionFailed, RequestError, TimeoutError) as over:
        if isinstance(over, RequestError) and not over.code.retriable:
            raise
        raise _unreachable(options, last, waited_ms=limit_ms) from last


def _each(failure: KavkaError) -> Sequence[KavkaError]:
    """What happened at each address."""
    return failure.failures if isinstance(failure, NoBrokerAnswers) else (failure,)


def _unreachable(options: ConnectionOptions, failure: KavkaError, *, waited_ms: int = 0) -> UnreachableError:
    why = "; ".join(dict.fromkeys(map(str, _each(failure))))
    waited = f", for {waited_ms / 1000:g} s (kafka.default.api.timeout.ms)" if waited_ms else ""
    return UnreachableError(f"no broker answers: {why}{waited}. {_question(options, _each(failure))}")


def _question(options: ConnectionOptions, failures: Sequence[KavkaError]) -> str:
    """What to look at: by the address that may be nearest to a broker's."""
    if any(isinstance(each, NotTrusted) for each in failures):
        return (
            "Is its authority in option kafka.ssl.truststore.location, and does kafka.bootstrap.servers have a name "
            "that the certificate has?"
        )
    if all(isinstance(each, HostUnknown) for each in failures):
        return "Is option kafka.bootstrap.servers right?"
    if all(isinstance(each, HostUnknown | ConnectionRefused) for each in failures):
        return "Is a broker running there, and is option kafka.bootstrap.servers right?"
    return (
        f"Does the listener there speak {options.protocol} (option kafka.security.protocol)? "
        "Is it a broker's (kafka.bootstrap.servers)?"
    )
