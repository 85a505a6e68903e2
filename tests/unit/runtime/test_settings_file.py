"""Settings that a process is started with: as they are, and for their owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kavka.config.properties import parse_properties
from kavka.runtime.settings_file import write_settings

SETTINGS = {"sasl.jaas.config": 'x required password="a\\b";', "ssl.key.password": " \\u0041", "a": ""}


def test_values_are_read_as_they_were_written_by_their_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "broker-1" / "server.properties"
    file.parent.mkdir()
    file.write_text("former=1\n")  # With the rights that an earlier version gave it.
    (tmp_path / "broker-1" / "server.properties.new").write_text("cut off")
    write_settings(str(file), SETTINGS, written_by="kavka up --processes")
    text = file.read_text()
    assert text.startswith("# Written by `kavka up --processes` at each start.\n")
    assert parse_properties(text) == SETTINGS
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert os.listdir(file.parent) == ["server.properties"]
