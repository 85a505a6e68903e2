"""Writes docs/configuration.md from the tables of settings: python tools/config_reference.py."""

from __future__ import annotations

from pathlib import Path

from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.documentation import documentation, unit
from kavka.config.group import ClientMetricsSettings, GroupSettings
from kavka.config.setting import AnySetting, Mode, Settings, Type
from kavka.config.topic import TopicSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
MODES = {Mode.READ_ONLY: "file only", Mode.PER_BROKER: "per broker", Mode.CLUSTER_WIDE: "per broker or for all"}
OPENING = """# Settings

Every setting of brokers, topics, groups and metrics subscriptions. Names, types, defaults and ranges are those of
Apache Kafka 3.9; *4.x* marks what only newer releases have; names with `kavka.` are our own. Made from
`src/kavka/config` by `tools/config_reference.py`.

A broker's settings come from the file given to `kavka server FILE` and from `--set name=value`. What may change at run
time is changed with `kavka configs set`. A setting that no table here has is kept and ignored.
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
    header = ["Setting", "Type", "Default", "Range", *(["Changes at run time"] if changes else []), "Meaning"]
    lines = [f"## {title}\n", _line(header), _line(["---"] * len(header))]
    for name, row in sorted(rows.items()):
        default = row.format(row.default)
        meaning = documentation(name, table) + (" *4.x*" if row.newer and table is BrokerSettings else "")
        amount = unit(name) if row.kind in (Type.INT, Type.SHORT, Type.LONG, Type.DOUBLE) else ""
        kind = row.kind.name.lower() + (f", {amount}" if amount else "")
        value = "none" if default is None else f"`{default}`" if default else "empty"
        allowed = "" if row.valid is None else f"`{row.valid}`"
        cells = [f"`{name}`", kind, value, allowed, *([MODES[row.mode]] if changes else []), meaning]
        lines.append(_line(cells))
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(reference())
