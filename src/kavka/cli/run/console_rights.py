"""`kavka console rights`: what somebody may do in the console, and which line of its settings decides that.

Decides whose rights are asked for, and how they are printed. Must not know what gives a right (console.rights,
console.explained_rights). No cluster is asked, and nothing is changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.options import Json
from kavka.cli.output import Failure, Table, note, show, show_json, usage
from kavka.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kavka.console.explained_rights import ExplainedRights, Source
    from kavka.console.settings import ConsoleSettings


def rights(
    user: Annotated[str, typer.Argument(metavar="USER", help="A user of the console itself.", show_default=False)] = "",
    settings: Annotated[
        str | None, typer.Option("--settings", metavar="FILE", help="The console's settings, as TOML.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="NAME", help="About this topic; may be repeated.")
    ] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="In this cluster only.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="Of a user whom the login provider puts into this group."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="ID", help="Of the user with this id at the provider.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", "-d", metavar="DIRECTORY", help="The console's data directory.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a user may do in the console, and which line of its settings says so.

    With --topic: whether they may see, change and delete it, read its messages, and what is masked for them. No cluster
    is asked.

    [bold]Examples[/bold]

    kavka console rights ada --settings console.toml

    kavka console rights ada --settings console.toml --topic payments-card

    kavka console rights --group kafka-ops --settings console.toml --topic payments-card
    """
    by_provider = bool(group) or subject is not None
    if bool(user) == by_provider:
        usage("no user is named", "name one user, or what the provider says with --group and --subject")
    read, text = _read(settings)
    chosen = [each.name for each in read.clusters]
    if cluster is not None:
        if cluster not in chosen:
            usage(f"the settings have no cluster {cluster}", f"they have {', '.join(chosen) or 'none'}")
        chosen = [cluster]
    if user:
        found = _sources(read, text, user, data)
    else:
        found = _of_provider(read, text, group or (), subject or "")
    from kavka.console.explained_rights import ExplainedRights, mask_blocks

    explained = ExplainedRights(read, found, mask_blocks(read.masks, text))
    file = settings or ""
    if not topic:
        _show_rights(explained, file, as_json=as_json)
        return
    if not chosen:
        usage("the settings name no cluster", "name a file with [[cluster]] with --settings")
    _show_topics(explained, [(each, name) for each in chosen for name in topic], file, as_json=as_json)


def _read(file: str | None) -> tuple[ConsoleSettings, str]:
    from kavka.console.settings import parse_settings
    from kavka.errors import ConfigError

    text = ""
    if file is not None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise Failure(f"cannot read {file}: {problem}", "name a file of settings that you may read") from problem
    try:
        return parse_settings(text, where=file or "settings"), text
    except ConfigError as problem:
        raise Failure(str(problem), "docs/console.md has all settings") from problem


def _sources(settings: ConsoleSettings, text: str, user: str, data: str | None) -> list[Source]:
    """The grants of a user of the console itself. Raises Failure where there is none of that name."""
    from kavka.console.explained_rights import of_user

    found = of_user(settings, text, user)
    in_database = _in_database(Path(data or settings.data_directory), user)
    if found is None and in_database is None and user == "local" and _is_open(settings):
        return _of_local()
    if found is None and in_database is None:
        raise Failure(
            f"there is no user {user}",
            f"`kavka console user list --data {data or settings.data_directory}` shows those of the database; "
            "--settings names a file with others; --group asks for what a provider's users may do",
        )
    if found is None:
        assert in_database is not None
        return in_database
    if in_database is None and not next(each.password for each in settings.users if each.name == user):
        note(f"{user} has no password, so the console will not start: run kavka console user add {user}")
    if not found:
        note(f"{user} has no right: the settings give none.")
    return found


def _is_open(settings: ConsoleSettings) -> bool:
    """Whether nobody has to log in."""
    from kavka.console.access.csrf import is_loopback

    return not settings.login and settings.sso is None and is_loopback(settings.host)


def _of_local() -> list[Source]:
    from kavka.console.access.auth import LOCAL_USER
    from kavka.console.explained_rights import Source

    return [Source(grant, by="no login is needed") for grant in LOCAL_USER.rights]


def _in_database(directory: Path, user: str) -> list[Source] | None:
    try:
        from kavka.console.access.auth import Users
        from kavka.console.ledger import LEDGER, open_ledger
    except ModuleNotFoundError as missing:
        raise Failure(f"the console needs {missing.name}", install_command("console")) from missing
    import sqlite3

    from kavka.console.explained_rights import Source

    if not (directory / LEDGER).exists():
        return None
    try:
        known = Users(open_ledger(directory / LEDGER)).find(user)
    except (OSError, sqlite3.Error) as problem:
        raise Failure(f"{directory}: {problem}") from problem
    return None if known is None else [Source(grant, by="kavka console user add") for grant in known[0].rights]


def _of_provider(settings: ConsoleSettings, text: str, groups: Sequence[str], subject: str) -> list[Source]:
    from kavka.console.explained_rights import of_groups

    if settings.sso is None:
        usage("the settings have no login provider", "name a file with [sso] with --settings")
    found = of_groups(settings, text, groups, subject)
    if not found:
        note("No rule fits: they may log in, and see an empty list of clusters.")
    return found


def _show_rights(explained: ExplainedRights, file: str, *, as_json: bool) -> None:
    rows = [(str(each.grant), _place(each, file), explained.clusters_of(each.grant)) for each in explained.sources]
    if as_json:
        show_json([{"right": right, "decided_by": place, "clusters": clusters} for right, place, clusters in rows])
        return
    table = Table(["right", "decided by", "clusters"])
    for right, place, clusters in rows:
        table.add(right, place, ", ".join(clusters) or "none of the settings")
    show(table)


def _show_topics(explained: ExplainedRights, asked: Sequence[tuple[str, str]], file: str, *, as_json: bool) -> None:
    answers = [each for cluster, topic in asked for each in explained.about(cluster, topic)]
    masked = [(cluster, topic, each) for cluster, topic in asked for each in explained.masked(cluster, topic)]
    if as_json:
        told = [
            {
                "cluster": each.cluster,
                "topic": each.topic,
                "may": each.question,
                "answer": each.is_yes,
                "right": None if each.source is None else str(each.source.grant),
                "decided_by": None if each.source is None else _place(each.source, file),
                "note": each.note,
            }
            for each in answers
        ]
        fields = [
            {"cluster": cluster, "topic": topic, "field": each.field, "decided_by": _line(file, each.line)}
            for cluster, topic, each in masked
        ]
        show_json({"answers": told, "masked": fields})
        return
    table = Table(["cluster", "topic", "may", "answer", "decided by"])
    for each in answers:
        why = "no right gives it" if each.source is None else f"{_place(each.source, file)}: {each.source.grant}"
        answer = "yes" if each.is_yes else "no"
        table.add(each.cluster, each.topic, each.question, answer, f"{why}; {each.note}" if each.note else why)
    show(table)
    if masked:
        print()
        table = Table(["cluster", "topic", "masked for them", "decided by"])
        for cluster, topic, each_field in masked:
            table.add(cluster, topic, each_field.field, _line(file, each_field.line))
        show(table)


def _place(source: Source, file: str) -> str:
    where = _line(file, source.line) if not source.by or source.by.startswith(("group ", "subject ")) else ""
    return ", ".join(filter(None, (where, source.by)))


def _line(file: str, line: int) -> str:
    return f"{file}:{line}" if line else file
