"""`kavka users`: users and their SCRAM passwords, as Kafka's kafka-configs keeps them. Works with Apache Kafka too.

A password is asked for, or read from a file or the standard input. It is never an argument: everybody on the machine
can read those.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Table, confirm, note, one_of, show, show_json, usage
from kavka.cli.security.user_rights import (
    credentials,
    require_file_name,
    rights,
    shows_certificates,
    write_files,
)
from kavka.cli.session import found_way, with_cluster
from kavka.errors import ErrorCode, RequestError
from kavka.security.acls import Binding, EntryFilter, Filter
from kavka.security.resource_patterns import PatternFilter
from kavka.security.scram_credentials import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
)
from kavka.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kavka.cli.login import Way
    from kavka.client.cluster import Cluster

app = CommandLine(name="users", help="List, add and remove users and their passwords.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name, without User: before it.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512; both by default."),
]
LOGIN_NEXT = "name the administrator's file with --client-config, or leave --files out"
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list")
def list_users(as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """List the users that have a password.

    [bold]Examples[/bold]

    kavka users list
    """

    async def work(session: Cluster) -> dict[str, Mapping[ScramMechanism, int]]:
        from kavka.client.user_admin import UserAdmin

        return await UserAdmin(session).list()

    _show_users(with_cluster(bootstrap, work), as_json=as_json)


def _show_users(found: Mapping[str, Mapping[ScramMechanism, int]], *, as_json: bool) -> None:
    """Each user with a row for each mechanism that there is a password for."""
    if as_json:
        show_json(
            [
                {"user": user, "iterations": {mechanism.value: count for mechanism, count in own.items()}}
                for user, own in found.items()
            ]
        )
        return
    if not found:
        note("There are no users.")
        return
    table = Table(["user", "mechanism", "iterations"], ["iterations"])
    for user, own in found.items():
        for mechanism, count in own.items():
            table.add(user, mechanism.value, str(count))
    show(table)


@app.command("add")
def add(
    name: Name,
    password_file: Annotated[
        str | None,
        typer.Option("--password-file", "--file", metavar="FILE", help="File with the password; - for standard input."),
    ] = None,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations", metavar="COUNT", min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="The cost of guessing."
        ),
    ] = DEFAULT_ITERATIONS,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="WORD:TOPIC", help="A right: read:orders, write:orders-*; repeatable."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="A group to consume with; repeatable.")
    ] = None,
    files: Annotated[
        str | None,
        typer.Option("--files", metavar="DIRECTORY", help="Where the user's files go; . with --allow or --group."),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Add a user, or change a user's password.

    With rights or --files it writes NAME.properties, NAME.librdkafka.conf and NAME.env, with a random password.

    [bold]Examples[/bold]

    kavka users add alice

    kavka users add alice --allow read:orders-* --allow write:invoices --group billing

    kavka users add alice --password-file /run/secrets/alice --mechanism SCRAM-SHA-512
    """
    mechanisms = _mechanisms(mechanism)
    wanted = rights(name, allow or (), group or ())
    plan = _new_login(name, found_way(bootstrap), password_file, files=files, has_rights=bool(wanted))

    async def work(session: Cluster) -> None:
        from kavka.client.acl_admin import AclAdmin
        from kavka.client.user_admin import UserAdmin

        if wanted:
            await AclAdmin(session).add(wanted)
        if plan.password is not None:
            await UserAdmin(session).set(name, plan.password, mechanisms, iterations)

    with_cluster(bootstrap, work)
    written = _written(name, plan, mechanisms)
    told = [] if plan.password is None else [each.value for each in mechanisms]
    if as_json:
        show_json({"user": name, "mechanisms": told, "acls": [str(each) for each in wanted], "files": written})
    note(f"{name} can log in with {' and '.join(told) or 'a certificate'}.")
    for line in [*map(str, wanted), *written]:
        note(f"  {line}")


class NewLogin(NamedTuple):
    """How a user will log in: with a password, or (None) with a certificate. `files`: where these go; None for none."""

    way: Way
    password: Secret | None
    files: Path | None


def _new_login(name: str, way: Way, password_file: str | None, *, files: str | None, has_rights: bool) -> NewLogin:
    """Raises Failure."""
    has_certificate = shows_certificates(way)
    if not has_certificate and way.login.sasl is None:
        if files is not None:
            usage("--files: the files would hold a login, and this listener takes none", LOGIN_NEXT)
        return NewLogin(way, _password(name, password_file), None)
    if files is None and not has_rights:
        return NewLogin(way, _password(name, password_file), None)
    require_file_name(name)
    directory = Path(files or ".")
    if has_certificate:
        return NewLogin(way, None, directory)
    from kavka.runtime.tls.security_directory import new_password

    return NewLogin(way, new_password() if password_file is None else _password(name, password_file), directory)


def _written(name: str, plan: NewLogin, mechanisms: Sequence[ScramMechanism]) -> list[str]:
    """The files, written. Raises Failure."""
    if plan.files is None:
        return []
    best = max(mechanisms, key=lambda each: each.number).value
    try:
        return write_files(credentials(name, plan.way, plan.password, best), plan.files)
    except OSError as problem:
        usage(f"{problem.filename}: {problem.strerror}", "name a directory that can be written, with --files")


@app.command("remove")
def remove(
    name: Name,
    mechanism: Mechanisms = None,
    with_acls: Annotated[bool, typer.Option("--acls", help="Remove the user's access control lists, too.")] = False,
    yes: Yes = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove a user's passwords. Connections that are open stay until their sessions end.

    [bold]Examples[/bold]

    kavka users remove alice --yes
    """
    wanted = None if mechanism is None else _mechanisms(mechanism)
    confirm(f"remove the passwords {'and access control lists ' if with_acls else ''}of {name}", yes=yes)
    own = Filter(PatternFilter(), EntryFilter(f"User:{name}"))

    async def work(session: Cluster) -> tuple[list[ScramMechanism], list[Binding]]:
        from kavka.client.acl_admin import AclAdmin
        from kavka.client.user_admin import UserAdmin

        admin = UserAdmin(session)
        mechanisms = wanted or list((await admin.list([name])).get(name, {}))
        if mechanisms:
            await admin.remove(name, mechanisms)
        try:
            acls = AclAdmin(session)
            return mechanisms, await acls.remove([own]) if with_acls else await acls.find(own)
        except RequestError as refused:
            if refused.code is not ErrorCode.SECURITY_DISABLED:
                raise
            return mechanisms, []  # Without an authorizer there are none.

    removed, acls = with_cluster(bootstrap, work)
    if not removed and not (with_acls and acls):
        usage(f"there is no user {name}", "kavka users list")
    if as_json:
        facts = {"user": name, "mechanisms": [each.value for each in removed]}
        show_json({**facts, "acls_removed" if with_acls else "acls_left": [str(each) for each in acls]})
    if removed:
        note(f"{name} can no longer log in with {' or '.join(each.value for each in removed)}.")
    if acls:
        step = "" if with_acls else f" (kavka acls list --principal User:{name}; --acls removes them)"
        note(f"Access control lists {'removed' if with_acls else 'that stay'}{step}:")
    for each in acls:
        note(f"  {each}")


def _mechanisms(names: list[str] | None) -> list[ScramMechanism]:
    return [MECHANISMS[name] for name in one_of(names or list(MECHANISMS), tuple(MECHANISMS), what="mechanism")]


def _password(name: str, file: str | None) -> Secret:
    if file is None and sys.stdin.isatty():
        return Secret(typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
    if file is None:
        usage("there is no terminal to ask for the password", "--password-file FILE, or - for the standard input")
    if file == "-":
        text = sys.stdin.readline()
    else:
        try:
            with open(file, encoding="utf-8") as opened:
                text = opened.readline()
        except OSError as failure:
            usage(f"the password cannot be read from {file}: {failure.strerror}", "name a file with one line")
    password = text.rstrip("\r\n")
    if not password:
        usage("the password is empty", "give one line with the password")
    return Secret(password)
