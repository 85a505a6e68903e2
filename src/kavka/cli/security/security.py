"""`kavka security`: what a cluster shows to whoever calls, and what mends it. Works with Apache Kafka too.

Decides what is shown and with which status it ends: 0 nothing was found, 1 something was, 2 it could not be told. Must
not know what is looked at, nor what is a finding (observe.exposure).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import ClientConfig, Json, ZooKeeper
from kavka.cli.output import FAILED, Failure, counted, show_json, usage
from kavka.cli.session import CLIENT_CONFIG_NEXT, require_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kavka.client.login import ClientLogin
    from kavka.observe.exposure.findings import Finding
    from kavka.observe.exposure.look import Wanted
    from kavka.observe.exposure.sightings import Sightings

app = CommandLine(name="security", help="Find what a cluster leaves open.")

COULD_NOT_TELL: Final = 2
DAY_MS: Final = 86_400_000


@app.callback()
def group() -> None:
    """Holds the group together: it has one command so far."""


@app.command("check")
def check(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The listener to look at.")],
    authorities: Annotated[
        str | None,
        typer.Option("--ca", metavar="FILE", help="Authorities to trust, as PEM; this machine's by default."),
    ] = None,
    client_config: ClientConfig = None,
    zookeeper: ZooKeeper = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Check this metrics address, too.")
    ] = None,
    try_passwords: Annotated[
        bool, typer.Option("--try-passwords", help="Try to log in with well-known passwords.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="Time limit for all of it.")
    ] = 60,
    as_json: Json = False,
) -> None:
    """Show what a listener leaves open, why that matters, and how to fix it.

    It changes nothing on the cluster. Exit status: 0 nothing found, 1 something found, 2 not all could be checked.

    [bold]Examples[/bold]

    kavka security check broker-1:9093 --ca authority.pem

    kavka security check localhost:9092 --zookeeper localhost:2181 --json
    """
    from kavka.client.cluster import parse_bootstrap
    from kavka.errors import ConfigError
    from kavka.observe.exposure.look import Wanted

    require_plain(address)
    try:
        ((host, port),) = parse_bootstrap(address)
    except ValueError as problem:
        usage(f"{address}: {problem}", "name one listener: HOST:PORT")
    wanted = Wanted(
        host=host,
        port=port,
        authorities=authorities,
        login=_login(client_config),
        zookeeper=zookeeper or "",
        metrics=metrics or "",
        tries_passwords=try_passwords,
        timeout_s=timeout,
    )
    try:
        seen, findings = _look(wanted)
    except ConfigError as problem:
        usage(str(problem), "name PEM files that can be read")
    if as_json:
        show_json(_fields(seen, findings))
    else:
        _show(seen, findings)
    if findings:
        raise Failure("", status=FAILED)
    if any(each.is_failure for each in seen.unseen):
        raise Failure("", status=COULD_NOT_TELL)


def _login(file: str | None) -> ClientLogin:
    from kavka.cli.login import read_file
    from kavka.client.login import ClientLogin
    from kavka.errors import ConfigError

    if file is None:
        return ClientLogin()
    try:
        return read_file(file)
    except ConfigError as problem:
        usage(str(problem), CLIENT_CONFIG_NEXT)
    except OSError as problem:
        usage(f"cannot read {problem.filename}: {problem.strerror}", CLIENT_CONFIG_NEXT)


def _look(wanted: Wanted) -> tuple[Sightings, Sequence[Finding]]:
    from kavka.logger import set_level
    from kavka.observe.exposure.findings import judge
    from kavka.observe.exposure.look import look
    from kavka.runtime.loop import run

    set_level("error")  # Sessions with ZooKeeper, for example, say when they begin.
    seen = run(look(wanted))
    return seen, judge(seen)


def _show(seen: Sightings, findings: Sequence[Finding]) -> None:
    failed = [each for each in seen.unseen if each.is_failure]
    print(f"{seen.address}: {_summary(seen)}")
    for finding in findings:
        print(f"\nFOUND {finding.name}: {finding.what}")
        print(f"  Why: {finding.why}.")
        print(f"  Next: {finding.mend}")
    if failed:
        print("\nCould not be told:")
        for each in failed:
            print(f"  {each.question}: {each.why}")
        if any(each.question == "the listener" for each in failed):
            print("  Next: name the address of a listener: `kavka up` prints it, a broker's file has it")
    left = [each for each in seen.unseen if not each.is_failure]
    if left:
        print("\nNot looked at:")
        for each in left:
            print(f"  {each.question}: {each.why}")
    if findings:
        print(f"\n{counted(len(findings), 'finding')}.")
    elif not failed:
        print("\nNothing was found.")


def _summary(seen: Sightings) -> str:
    if any(each.question == "the listener" for each in seen.unseen):
        return "not reached"
    parts = []
    if seen.tls is not None:
        parts.append(", ".join(seen.tls.suites) or "TLS")
        if seen.tls.chain:
            first = seen.tls.chain[0]
            parts.append(f"{first.subject}, {counted((first.not_after_ms - seen.at_ms) // DAY_MS, 'day')} left")
        if seen.tls.client_auth is not None:
            parts.append(f"certificates of clients: {seen.tls.client_auth.value}")
    elif seen.is_tls:
        parts.append("TLS")
    else:
        parts.append("no TLS")
    if seen.mechanisms is not None:
        parts.append(f"SASL: {', '.join(seen.mechanisms)}" if seen.mechanisms else "no SASL")
    return "; ".join(parts)


def _fields(seen: Sightings, findings: Sequence[Finding]) -> dict[str, Any]:
    tls = seen.tls
    return {
        "address": seen.address,
        "findings": [each._asdict() for each in findings],
        "could_not_tell": [{"question": each.question, "why": each.why} for each in seen.unseen if each.is_failure],
        "not_looked_at": [{"question": each.question, "why": each.why} for each in seen.unseen if not each.is_failure],
        "tls": None
        if tls is None
        else {
            "suites": {version: list(names) for version, names in tls.suites.items()},
            "client_auth": None if tls.client_auth is None else tls.client_auth.value,
            "believed": None if tls.distrust is None else not tls.distrust,
            "chain": [
                {
                    "subject": each.subject,
                    "issuer": each.issuer,
                    "names": list(each.names),
                    "days_left": (each.not_after_ms - seen.at_ms) // DAY_MS,
                }
                for each in tls.chain
            ],
        },
        "sasl_mechanisms": None if seen.mechanisms is None else list(seen.mechanisms),
    }
