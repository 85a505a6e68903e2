"""Journal: what happened in a run of a pipeline, as a file of lines that only grows.

Decides the events and their fields. Written by the driver's process, read by whoever tells of it, also while it is
written and also after either was killed.

I1  An event is one line, written at once; a torn last line (the writer was killed) is none. A line that was damaged is
    none either: the others tell what they told.
I2  No more than `KEPT` journals are left of earlier runs.

    event         fields besides at (seconds since 1970) and event
    began         mode (run, check, continuous), pid, pipeline
    session       spark (version), seconds
    defined       flows: [{flow, target, kind, file, line}]
    datasets      flows: [{flow, inputs: [[namespace, name]], outputs}], all that are known by now
    run began     run (1, 2, ...)
    flow          flow, state (queued, running, completed, failed, ...), why
    progress      flow, and what `progress.Figures.as_json` tells
    checked       flow, batch, rows, broken: {"drop: has an id": 3} (of a micro-batch in which rows broke expectations)
    run ended     run, outcome (completed, failed), seconds
    problem       problem, next_step, flow, file, line
    note          text (what is waited for); with is_warning, what somebody should know of
    ended         status
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from kavka_spark.pipelines.progress import Figures

Event: TypeAlias = dict[str, Any]
"""JSON, so Any."""

KEPT: Final = 20
FOLDER: Final = "runs"
_SUFFIX: Final = ".jsonl"


class Journal:
    """The writing side."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = path.open("a", encoding="utf-8", buffering=1)

    def write(self, event: str, **fields: object) -> None:
        line = json.dumps({"at": round(time.time(), 3), "event": event, **fields}, ensure_ascii=False)
        self._file.write(line + "\n")
        self._file.flush()

    def write_figures(self, figures: Figures) -> None:
        """What is new of a flow."""
        self.write("progress", **figures.as_json())
        for each in figures.take_checked():
            self.write("checked", flow=figures.flow, batch=each.batch, rows=each.rows, broken=dict(each.broken))

    def close(self) -> None:
        self._file.close()


class JournalReader:
    """The reading side: `read` returns what is new since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> Iterator[Event]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.split(b"\n"):
            event = _event(line)
            if event is not None:
                yield event


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def new_journal_path(state: Path) -> Path:
    """The path for a new journal. Journals beyond the newest `KEPT` are deleted, with the logs beside them."""
    folder = state / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for old in journals(state)[KEPT - 1 :]:
        old.unlink(missing_ok=True)
        log_path(old).unlink(missing_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = folder / f"{stamp}{_SUFFIX}"
    number = 1
    while path.exists():
        number += 1
        path = folder / f"{stamp}-{number}{_SUFFIX}"
    path.touch()
    return path


def journals(state: Path) -> list[Path]:
    """The journals of all runs that are kept, newest first."""
    folder = state / FOLDER
    return sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)


def log_path(journal: Path) -> Path:
    """The file with Spark's own log of that run."""
    return journal.with_suffix(".log")
