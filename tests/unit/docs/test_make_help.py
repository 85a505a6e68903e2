"""`make` without a target shows every target with a sentence."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_make_shows_every_target_with_what_it_does() -> None:
    # As typed in a shell: `make test` runs this test, and a make within a make says which directory it enters.
    surroundings = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"
    }
    run = subprocess.run(["make"], cwd=ROOT, env=surroundings, capture_output=True, text=True, check=True)
    shown = run.stdout.splitlines()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE)
    phony = re.findall(r"[a-z0-9-]+", makefile.partition(".PHONY:")[2].partition("\n")[0])
    assert [line.split()[0] for line in shown] == targets
    assert sorted(targets) == sorted(phony)
    assert all(len(line.split()) > 2 for line in shown)
