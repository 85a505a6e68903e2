"""`kavka configs`: show and change the settings of topics, brokers and groups, and levels of loggers, as they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, DryRun, Json
from kavka.cli.output import Table, done, note, show, show_json, usage
from kavka.cli.session import with_cluster
from kavka.cli.setting_hints import unknown_note
from kavka.config.similar import similar_name

if TYPE_CHECKING:
    from kavka.client.admin import ConfigChange, ConfigEntry, ConfigResource
    from kavka.client.cluster import Cluster

app = CommandLine(name="configs", help="Show and set configs of topics, brokers, groups.")

Topic = Annotated[str | None, typer.Option("--topic", "-t", metavar="NAME", help="Settings of this topic.")]
BrokerOption = Annotated[str | None, typer.Option("--broker", metavar="ID", help="Settings of this broker.")]
GroupOption = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="Settings of this group; it may be new.")
]
AllBrokers = Annotated[bool, typer.Option("--all-brokers", help="Settings that all brokers got at run time.")]
BrokerLogger = Annotated[
    str | None, typer.Option("--broker-logger", metavar="ID", help="Levels of this broker's loggers.")
]

_SOURCES = {
    "TOPIC": "topic",
    "GROUP": "group",
    "DYNAMIC_BROKER": "broker, at run time",
    "DYNAMIC_DEFAULT_BROKER": "all brokers, at run time",
    "STATIC_BROKER": "broker's file",
    "DYNAMIC_BROKER_LOGGER": "in force",
    "DEFAULT": "default",
}


class Target(NamedTuple):
    """Whose settings are meant, as the options say it; exactly one is given."""

    topic: str | None
    broker: str | None
    all_brokers: bool
    logger: str | None
    group: str | None


@app.command("describe")
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Settings to explain.")] = None,
    topic: Topic = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokers = False,
    logger: BrokerLogger = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include settings at their default.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show settings: their values, where these come from, and what they mean.

    [bold]Examples[/bold]

    kavka configs describe --topic orders

    kavka configs describe --group workers --all

    kavka configs describe --broker 1 log.retention.ms log.segment.bytes
    """
    names = names or []
    resource = _resource(Target(topic, broker, all_brokers, logger, group))

    async def work(cluster: Cluster) -> list[ConfigEntry]:
        from kavka.client.admin import Admin

        found = await Admin(cluster).describe_configs([resource], include_synonyms=True, include_documentation=True)
        return found[resource]

    entries = with_cluster(bootstrap, work)
    require_known(names, entries)
    chosen = [entry for entry in entries if entry.name in names or (not names and (everything or _is_set(entry)))]
    if as_json:
        show_json([_facts(entry) for entry in chosen])
    elif not chosen:
        note("Everything is at its default; --all shows all settings.")
    else:
        _show(chosen, with_meaning=bool(names) or everything)


@app.command("set")
def set_settings(
    assignments: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="name=value; a list also name+=value and name-=value.")
    ],
    topic: Topic = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokers = False,
    logger: BrokerLogger = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Change settings at run time, all or none.

    [bold]Examples[/bold]

    kavka configs set --topic orders retention.ms=3600000 cleanup.policy+=compact

    kavka configs set --all-brokers log.cleaner.threads=2

    kavka configs set --group workers share.auto.offset.reset=earliest

    kavka configs set --broker-logger 1 kavka.controller=DEBUG
    """
    target = Target(topic, broker, all_brokers, logger, group)
    _change(bootstrap, target, [*map(_assignment, assignments)], dry_run=dry_run, as_json=as_json)


@app.command("unset")
def unset_settings(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Settings to remove.")],
    topic: Topic = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokers = False,
    logger: BrokerLogger = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove settings that were set at run time.

    [bold]Example[/bold]

    kavka configs unset --topic orders retention.ms
    """
    target = Target(topic, broker, all_brokers, logger, group)
    _change(bootstrap, target, [*map(_removal, names)], dry_run=dry_run, as_json=as_json)


def _change(
    bootstrap: str | None, target: Target, changes: Sequence[ConfigChange], *, dry_run: bool, as_json: bool
) -> None:
    """Carries out changes, all or none."""
    resource = _resource(target)
    unset = [each.name for each in changes if each.value is None]

    async def work(cluster: Cluster) -> None:
        from kavka.client.admin import Admin

        admin = Admin(cluster)
        if unset and (target.topic is not None or target.group is not None):
            # A broker takes the removal of any name, a misspelt one too, and changes nothing.
            require_known(unset, (await admin.describe_configs([resource]))[resource])
        for error in (await admin.alter_configs({resource: changes}, validate_only=dry_run)).values():
            raise error

    with_cluster(bootstrap, work)
    for each in changes if resource.resource_type.name == "BROKER" else ():
        said = unknown_note(each.name)
        if said is not None:
            note(said)
    facts = {
        "resource": resource.resource_type.name.lower(),
        "name": resource.name,
        "changed": [each.name for each in changes],
        "dry_run": dry_run,
    }
    what = "would be changed" if dry_run else "changed"
    done(f"{', '.join(each.name for each in changes)} {what}.", facts, as_json=as_json)


def require_known(names: Sequence[str], entries: Sequence[ConfigEntry]) -> None:
    """Raises Failure for a name that is none of the settings that a broker tells of."""
    known = {entry.name for entry in entries}
    unknown = [name for name in names if name not in known]
    if unknown:
        close = similar_name(unknown[0], known)
        step = "`kavka configs describe --all`, with --topic NAME, --group NAME or --broker ID, shows all names"
        if close:
            step = f"did you mean {close}?"
        usage(f"there is no setting {', '.join(unknown)}", step)


def _resource(target: Target) -> ConfigResource:
    """Raises Failure unless the options name exactly one."""
    from kavka.client.admin import ConfigResource, ResourceType

    topic, broker, all_brokers, logger, group = target
    if sum(named is not None for named in (topic, broker, logger, group)) + all_brokers != 1:
        usage(
            "give exactly one of --topic, --group, --broker, --all-brokers and --broker-logger",
            "for example --topic orders",
        )
    if topic is not None:
        return ConfigResource(ResourceType.TOPIC, topic)
    if group is not None:
        return ConfigResource(ResourceType.GROUP, group)
    for option, named in (("--broker", broker), ("--broker-logger", logger)):
        if named is not None and not named.isdecimal():
            usage(f"{option} {named}: a broker is named by its number", f"for example {option} 1")
    if logger is not None:
        return ConfigResource(ResourceType.BROKER_LOGGER, logger)
    return ConfigResource(ResourceType.BROKER, broker or "")


def _assignment(assignment: str) -> ConfigChange:
    from kavka.client.admin import ConfigChange, ConfigOperation

    name, equals, value = assignment.partition("=")
    if not equals or not name.strip("+- "):
        usage(f"{assignment!r} is not name=value", "for example retention.ms=3600000 or cleanup.policy+=compact")
    operation = {"+": ConfigOperation.APPEND, "-": ConfigOperation.SUBTRACT}.get(name[-1], ConfigOperation.SET)
    return ConfigChange(name.rstrip("+-").strip(), value, operation)


def _removal(name: str) -> ConfigChange:
    from kavka.client.admin import ConfigChange, ConfigOperation

    return ConfigChange(name, None, ConfigOperation.DELETE)


def _is_set(entry: ConfigEntry) -> bool:
    return entry.source.name != "DEFAULT"


def _show(entries: Sequence[ConfigEntry], *, with_meaning: bool) -> None:
    table = Table(["name", "value", "from", *(["meaning"] if with_meaning else [])])
    for entry in entries:
        value = "(hidden)" if entry.is_sensitive else entry.value
        source = _SOURCES.get(entry.source.name, entry.source.name.lower())
        table.add(entry.name, value, source, *([entry.documentation or ""] if with_meaning else []))
    show(table)


def _facts(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "synonyms": [{"name": s.name, "value": s.value, "source": s.source.name} for s in entry.synonyms],
        "documentation": entry.documentation,
    }
