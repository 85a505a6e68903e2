"""`kavka users`: users and their SCRAM passwords, as Kafka's kafka-configs keeps them. Works with Apache Kafka too.

A password is asked for, or read from a file or the standard input. It is never an argument: everybody on the machine
can read those.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Table, confirm, note, one_of, show, show_json, usage
from kavka.cli.session import with_cluster
from kavka.security.scram import DEFAULT_ITERATIONS, MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, ScramMechanism
from kavka.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kavka.client.cluster import Cluster

app = CommandLine(name="users", help="List, add and remove users and their passwords.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name, without User: before it.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512; both by default."),
]
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

    found = with_cluster(bootstrap, work)
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
        typer.Option("--password-file", "--file", metavar="FILE", help="Where the password is; - for standard input."),
    ] = None,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations", metavar="COUNT", min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="The cost of guessing."
        ),
    ] = DEFAULT_ITERATIONS,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Add a user, or give one another password.

    [bold]Examples[/bold]

    kavka users add alice

    kavka users add alice --password-file /run/secrets/alice --mechanism SCRAM-SHA-512
    """
    mechanisms = _mechanisms(mechanism)
    password = _password(name, password_file)

    async def work(session: Cluster) -> None:
        from kavka.client.user_admin import UserAdmin

        await UserAdmin(session).set(name, password, mechanisms, iterations)

    with_cluster(bootstrap, work)
    if as_json:
        show_json({"user": name, "mechanisms": [each.value for each in mechanisms]})
    note(f"{name} can log in with {' and '.join(each.value for each in mechanisms)}.")


@app.command("remove")
def remove(
    name: Name, mechanism: Mechanisms = None, yes: Yes = False, as_json: Json = False, bootstrap: Bootstrap = None
) -> None:
    """Remove a user's passwords. Connections that are open stay until their sessions end.

    [bold]Examples[/bold]

    kavka users remove alice --yes
    """
    wanted = None if mechanism is None else _mechanisms(mechanism)
    confirm(f"remove the passwords of {name}", yes=yes)

    async def work(session: Cluster) -> list[ScramMechanism]:
        from kavka.client.user_admin import UserAdmin

        admin = UserAdmin(session)
        mechanisms = wanted or list((await admin.list([name])).get(name, {}))
        if mechanisms:
            await admin.remove(name, mechanisms)
        return mechanisms

    removed = with_cluster(bootstrap, work)
    if not removed:
        usage(f"there is no user {name}", "kavka users list")
    if as_json:
        show_json({"user": name, "mechanisms": [each.value for each in removed]})
    note(f"{name} cannot log in any more with {' or '.join(each.value for each in removed)}.")


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
