"""`kavka features`: the feature levels of a cluster, and changes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, DryRun, Json
from kavka.cli.output import Failure, Table, done, note, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.admin import FeatureDescription
    from kavka.client.cluster import Cluster
    from kavka.errors import RequestError

SHOWS_LEVELS = "`kavka features describe` shows levels and what is supported"

app = CommandLine(name="features", help="Show and change the cluster's feature levels.")

Levels = Annotated[list[str], typer.Argument(metavar="FEATURE=LEVEL", help="Features with the levels wanted.")]
Direction = Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"]
"""As `client.admin.FeatureUpdateKind` names them."""


@app.command("describe")
def describe(as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Show the features that the cluster knows, the levels in force, and those that the brokers support.

    [bold]Example[/bold]

    kavka features describe
    """

    async def work(cluster: Cluster) -> FeatureDescription:
        from kavka.client.admin import Admin

        return await Admin(cluster).describe_features()

    _show_features(with_cluster(bootstrap, work), as_json=as_json)


def _show_features(found: FeatureDescription, *, as_json: bool) -> None:
    """Each feature with the level in force and what the brokers support."""
    names = sorted({*found.levels, *found.supported})
    if as_json:
        show_json(
            {
                "epoch": found.epoch,
                "features": [
                    {"feature": name, "level": found.levels.get(name, 0), "supported": found.supported.get(name)}
                    for name in names
                ],
            }
        )
        return
    if not names:
        note("The cluster has no features: its brokers are of Apache Kafka on ZooKeeper.")
        return
    table = Table(["feature", "level", "supported"], ["level"])
    for name in names:
        supported = found.supported.get(name)
        table.add(name, found.levels.get(name, 0), "" if supported is None else f"{supported[0]} to {supported[1]}")
    show(table)


@app.command("upgrade")
def upgrade(levels: Levels, dry_run: DryRun = False, as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Raise features to higher levels.

    [bold]Example[/bold]

    kavka features upgrade transaction.version=2
    """
    _update(bootstrap, _assignments(levels), "UPGRADE", dry_run=dry_run, as_json=as_json)


@app.command("downgrade")
def downgrade(
    levels: Levels,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Lower it even if groups of the higher level cannot go on.")
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Lower features to other levels; 0 switches one off.

    [bold]Example[/bold]

    kavka features downgrade group.version=0
    """
    direction: Direction = "UNSAFE_DOWNGRADE" if unsafe else "SAFE_DOWNGRADE"
    _update(bootstrap, _assignments(levels), direction, dry_run=dry_run, as_json=as_json)


def _update(
    bootstrap: str | None, levels: Mapping[str, int], direction: Direction, *, dry_run: bool, as_json: bool
) -> None:
    """Changes levels. Raises Failure where one was refused."""

    async def work(cluster: Cluster) -> dict[str, RequestError]:
        from kavka.client.admin import Admin, FeatureUpdateKind
        from kavka.errors import ErrorCode, RequestError

        try:
            return await Admin(cluster).update_features(levels, FeatureUpdateKind[direction], validate_only=dry_run)
        except RequestError as error:
            if error.code is not ErrorCode.INVALID_REQUEST:
                raise
            raise Failure(str(error), SHOWS_LEVELS) from error

    failures = with_cluster(bootstrap, work)
    for name, error in failures.items():
        raise Failure(f"{name}: {error.message}", SHOWS_LEVELS)
    what = "would be" if dry_run else "is"
    text = "\n".join(f"{name} {what} at level {level}." for name, level in levels.items())
    done(text, {"levels": dict(levels), "dry_run": dry_run}, as_json=as_json)


def _assignments(texts: Sequence[str]) -> dict[str, int]:
    return dict(map(_assignment, texts))


def _assignment(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not name or not level.isdecimal():
        usage(f"{text!r} is not FEATURE=LEVEL", "for example transaction.version=2")
    return name, int(level)
