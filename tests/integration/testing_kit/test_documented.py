"""The programs of docs/testing.md do what it says, as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "testing.md").read_text()
SECTION = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAMS = dict(SECTION.findall(PAGE))
TIMEOUT_S = 280


def test_every_program_is_found() -> None:
    assert list(PROGRAMS) == [
        "A test with pytest",
        "With TLS, users and rights",
        "Without pytest",
        "On an event loop",
        "Share groups and streams groups",
    ]
    assert PAGE.count("```python") == len(PROGRAMS)


@pytest.mark.parametrize("section", PROGRAMS)
def test_a_documented_test_passes(section: str, tmp_path: Path) -> None:
    (tmp_path / "test_documented.py").write_text(PROGRAMS[section])
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "240", "test_documented.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout
