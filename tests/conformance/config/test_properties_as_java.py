"""Random property files: our parser against java.util.Properties."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from kavka.config.properties import parse_properties
from kavka.errors import ConfigError
from tests.apache_kafka import PeerMissing, installed

pytestmark = pytest.mark.kafka
PROGRAM = Path(__file__).resolve().parents[3] / "tools" / "config_facts" / "LoadProperties.java"
TEXTS = 3_000
SIGNS = ["a", "b", "=", ":", " ", "\t", "\f", "\n", "\r", "\r\n", "\\", "\\\n", "#", "!", "u0041", "\\u00e9", "n", "é"]


def random_text(chance: random.Random) -> str:
    """Not ending in a lone backslash, of which Java makes a setting without a name or value, and kavka nothing."""
    return "".join(chance.choices(SIGNS, k=chance.randrange(16))) + "\nend=1"


def parsed(text: str) -> dict[str, str] | None:
    try:
        return parse_properties(text)
    except ConfigError:
        return None


def test_three_thousand_random_files_are_read_as_java_reads_them() -> None:
    try:
        jars = installed("zk")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    chance = random.Random(20)
    texts = [random_text(chance) for _ in range(TEXTS)]
    command = ["java", "-cp", f"{jars}/*", str(PROGRAM)]
    answer = subprocess.run(command, input=json.dumps(texts).encode(), capture_output=True, check=True, timeout=100)
    for text, java in zip(texts, json.loads(answer.stdout), strict=True):
        assert (text, parsed(text)) == (text, java)
