"""`kavka console user`: who may log in to the console, and what they may do there.

Decides how a password is asked for. Must not know how it is kept (console.auth). A running console takes a change up
with the next request.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Json
from kavka.cli.output import Failure, Table, done, show, show_json, usage
from kavka.installation import install_command

if TYPE_CHECKING:
    from kavka.console.access.auth import Users

app = CommandLine(help="Add, list and remove those who may log in to the console.")

Data = Annotated[str, typer.Option("--data", "-d", metavar="DIRECTORY", help="The console's data directory.")]
DEFAULT_DATA = "kavka-console"


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits and . _ @ -")],
    role: Annotated[str, typer.Option("--role", "-r", metavar="ROLE", help="viewer, operator or admin.")] = "viewer",
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Add a user, or change a user's password and role. The password is asked for, or read from standard input.

    [bold]Examples[/bold]

    kavka console user add ada --role operator

    echo secret | kavka console user add ada
    """
    from kavka.console.rights import role_named

    try:
        _users(data).add(name, _password(name), role_named(role))
    except ValueError as problem:
        usage(str(problem))
    done(f"{name} may log in as {role.lower()}.", {"name": name, "role": role.lower()}, as_json=as_json)


@app.command("hash")
def hash_password(as_json: Json = False) -> None:
    """Print a password as a settings file holds it. The password is asked for, or read from standard input.

    [bold]Example[/bold]

    kavka console user hash
    """
    try:
        from kavka.security.passwords import password_text
    except ModuleNotFoundError as missing:
        raise Failure(f"the console needs {missing.name}", install_command("console")) from missing
    try:
        found = password_text(_password("the new user"))
    except ValueError as problem:
        usage(str(problem))
    if as_json:
        show_json({"password": found})
    else:
        print(found)


@app.command("list")
def list_users(
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """List users and their roles.

    [bold]Example[/bold]

    kavka console user list
    """
    found = _users(data).all()
    if as_json:
        show_json([{"name": user.name, "role": user.rights[0].role.name.lower()} for user in found])
        return
    table = Table(["name", "role"])
    for user in found:
        table.add(user.name, user.rights[0].role.name.lower())
    show(table)


@app.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user.")],
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Remove a user, whose sessions end at once.

    [bold]Example[/bold]

    kavka console user remove ada
    """
    if not _users(data).remove(name):
        raise Failure(f"there is no user {name}", "`kavka console user list` shows all")
    done(f"{name} may no longer log in.", {"name": name}, as_json=as_json)


def _users(data: str) -> Users:
    import sqlite3

    try:
        from kavka.console.access.auth import Users
        from kavka.console.ledger import LEDGER, open_ledger
    except ModuleNotFoundError as missing:
        raise Failure(f"the console needs {missing.name}", install_command("console")) from missing
    try:
        return Users(open_ledger(Path(data) / LEDGER))
    except (OSError, sqlite3.Error) as problem:
        raise Failure(f"{data}: {problem}") from problem


def _password(name: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    import getpass

    password = getpass.getpass(f"Password of {name}: ")
    if getpass.getpass("Again: ") != password:
        raise Failure("the two passwords differ", "try again")
    return password
