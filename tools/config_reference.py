"""Writes docs/configuration.md from the tables of settings: python tools/config_reference.py.

With --check it writes nothing, and fails where the page is not what the tables make.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.documentation import documentation, in_force, unit
from kavka.config.effect import Effect, standing
from kavka.config.group import ClientMetricsSettings, GroupSettings
from kavka.config.setting import AnySetting, Mode, Settings, Type
from kavka.config.topic import TopicSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
MODES = {Mode.READ_ONLY: "file only", Mode.PER_BROKER: "per broker", Mode.CLUSTER_WIDE: "per broker or for all"}
EFFECTS = {
    Effect.IN_FORCE: "yes",
    Effect.AT_START: "at start",
    Effect.NONE: "no",
    Effect.REFUSED: "refused",
}
OPENING = """# Settings

This page lists every setting of brokers, topics, groups and metrics subscriptions. Names, types, defaults and ranges
are those of Apache Kafka 3.9. *4.x* marks settings that only newer releases have. Settings that start with `kavka.`
are kavka's own. `tools/config_reference.py` writes this page from `src/kavka/config`.

A broker's settings come from the file given to `kavka server FILE` and from `--set name=value`. Use
`kavka configs set` to change those that may change at run time. A setting that is not listed here is kept and
ignored. When the broker starts, it logs the name of such a setting, and suggests the setting that was probably meant.

The column *In force* shows what a setting does in kavka:

* **yes**: it has its effect. A change at run time takes effect, if one is allowed.
* **at start**: it is read when the broker starts.
* **no**: it has no effect and does no harm. The last column explains why. A file and a topic may contain it. When the
  broker starts, it logs one line with all such settings of its file. A change at run time is refused, because it
  would have no effect.
* **refused**: it is not supported, and ignoring it would do harm. The last column explains the harm. Only the default
  value is accepted: in a file, with `--set`, in `Cluster(settings=...)` and at run time.

At run time, a broker answers a refused setting with INVALID_REQUEST, and a refused setting of a topic with
INVALID_CONFIG. The message explains why.
"""


def reference() -> str:
    """The whole page."""
    kavka = {name: row for name, row in BrokerSettings.rows.items() if name.startswith("kavka.")}
    kafka = {name: row for name, row in BrokerSettings.rows.items() if name not in kavka}
    sections = [
        _section("Topics", TopicSettings, TopicSettings.rows, changes=False),
        _section("Brokers: kavka's own", BrokerSettings, kavka, changes=True),
        _section("Brokers", BrokerSettings, kafka, changes=True),
        _section(
            "Brokers: throttles, set at run time only", DynamicOnlySettings, DynamicOnlySettings.rows, changes=False
        ),
        _section("Groups", GroupSettings, GroupSettings.rows, changes=False),
        _section("Metrics subscriptions", ClientMetricsSettings, ClientMetricsSettings.rows, changes=False),
    ]
    return "\n".join([OPENING, *sections])


def _section(title: str, table: type[Settings], rows: dict[str, AnySetting], *, changes: bool) -> str:
    header = [
        "Setting",
        "Type",
        "Default",
        "Range",
        *(["Changes at run time"] if changes else []),
        "In force",
        "Meaning",
    ]
    lines = [f"## {title}\n", _line(header), _line(["---"] * len(header))]
    for name, row in sorted(rows.items()):
        default = row.format(row.default)
        effect = standing(name, table).effect
        meaning = f"{documentation(name, table)} {in_force(name, table)}".rstrip() + (
            " *4.x*" if row.newer and table is BrokerSettings else ""
        )
        amount = unit(name) if row.kind in (Type.INT, Type.SHORT, Type.LONG, Type.DOUBLE) else ""
        kind = row.kind.name.lower() + (f", {amount}" if amount else "")
        value = "none" if default is None else f"`{default}`" if default else "empty"
        allowed = "" if row.valid is None else f"`{row.valid}`"
        cells = [f"`{name}`", kind, value, allowed]
        cells += [_changes(row, effect)] if changes else []
        lines.append(_line([*cells, EFFECTS[effect], meaning]))
    return "\n".join(lines) + "\n"


def _changes(row: AnySetting, effect: Effect) -> str:
    return MODES[row.mode if effect is Effect.IN_FORCE else Mode.READ_ONLY]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        PAGE.write_text(reference())
        return 0
    if PAGE.read_text() == reference():
        return 0
    print(f"{PAGE.name} is not what the tables of settings make: run python tools/config_reference.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
