"""`make` without a target shows every target with a sentence."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_make_shows_every_target_with_what_it_does() -> None:
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE)
    phony = re.findall(r"[a-z0-9-]+", makefile.partition(".PHONY:")[2].partition("\n")[0])
    assert [line.split()[0] for line in shown] == targets
    assert sorted(targets) == sorted(phony)
    assert all(len(line.split()) > 2 for line in shown)
