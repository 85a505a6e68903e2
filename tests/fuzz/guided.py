"""The same parsers, by inputs that go where none went before: atheris follows which branches an input takes.

    .venv/bin/pip install atheris
    python -m tests.fuzz.guided [--seconds 60] [--kind batches ...]

It is no dependency of the tests: it is compiled for a few versions of Python only. Each kind has a process and a corpus
of its own, under .cache/fuzz; later runs go on from there. A finding's input is printed and kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CORPUS: Final = ROOT / ".cache" / "fuzz"
LONGEST_INPUT: Final = 4096
PASSED: Final = frozenset({"hello", "records"})
"""Of unauthenticated.py: what they read goes through OpenSSL, and keys make it random."""


def kinds() -> dict[str, Callable[[], object]]:
    """By name, of both programs."""
    from tests.fuzz import parsers, unauthenticated

    return {make.__name__: make for make in (*parsers.KINDS, *unauthenticated.KINDS) if make.__name__ not in PASSED}


def one(name: str, seconds: int) -> None:
    """Fuzzes one kind in this process, and ends it."""
    import atheris  # type: ignore[import-not-found,unused-ignore]  # installed by who wants it

    with atheris.instrument_imports(include=["kavka"]):
        kind = kinds()[name]()
    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, good in enumerate(kind.good):  # type: ignore[attr-defined]
        (corpus / f"good-{number}").write_bytes(good)
    options = [f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", f"-artifact_prefix={corpus.parent}/{name}-"]
    atheris.Setup([name, str(corpus), "-timeout=5", "-rss_limit_mb=2048", "-verbosity=0", *options], kind.read)  # type: ignore[attr-defined]
    atheris.Fuzz()


def main(words: Sequence[str] | None = None) -> int:
    if words is None and "--here" in sys.argv[1:2]:
        one(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each kind")
    parser.add_argument("--kind", action="append", choices=list(kinds()))
    wanted = parser.parse_args(words)
    if importlib.util.find_spec("atheris") is None:
        print("guided fuzzing is left out: .venv/bin/pip install atheris")
        return 0
    failed = False
    for name in wanted.kind or list(kinds()):
        command = [sys.executable, "-m", __spec__.name, "--here", name, str(wanted.seconds)]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        failed |= run.returncode != 0
        corpus = len(list((CORPUS / name).glob("*")))
        print(f"{name:<18} {corpus:6} inputs kept  {'ok' if run.returncode == 0 else 'FOUND'}", flush=True)
        if run.returncode:
            print(run.stdout[-2_000:], run.stderr[-4_000:], flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
