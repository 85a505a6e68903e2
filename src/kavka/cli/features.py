"""`kavka features`: the feature levels of a cluster, and changes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.cli.output import Failure, Table, done, note, show, show_json, usage
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.client.admin import FeatureDescription
    from kavka.client.cluster import Cluster
    from kavka.errors import RequestError


def describe(bootstrap: str | None, *, as_json: bool) -> None:
    """The features that the cluster knows, with the levels in force."""

    async def work(cluster: Cluster) -> FeatureDescription:
        from kavka.client.admin import Admin

        return await Admin(cluster).describe_features()

    found = with_cluster(bootstrap, work)
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


def update(
    bootstrap: str | None,
    assignments: Sequence[str],
    *,
    is_upgrade: bool,
    is_unsafe: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Changes levels. Raises Failure where one was refused."""
    levels = dict(map(_assignment, assignments))

    async def work(cluster: Cluster) -> dict[str, RequestError]:
        from kavka.client.admin import Admin, FeatureUpdateKind

        kind = FeatureUpdateKind.UPGRADE
        if not is_upgrade:
            kind = FeatureUpdateKind.UNSAFE_DOWNGRADE if is_unsafe else FeatureUpdateKind.SAFE_DOWNGRADE
        return await Admin(cluster).update_features(levels, kind, validate_only=dry_run)

    failures = with_cluster(bootstrap, work)
    for name, error in failures.items():
        raise Failure(f"{name}: {error.message}", "`kavka features describe` shows levels and what is supported")
    what = "would be" if dry_run else "is"
    text = "\n".join(f"{name} {what} at level {level}." for name, level in levels.items())
    done(text, {"levels": levels, "dry_run": dry_run}, as_json=as_json)


def _assignment(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not name or not level.isdecimal():
        usage(f"{text}: no feature and level", "for example transaction.version=2")
    return name, int(level)
