"""Alerts: a webhook is told when a condition of a pipeline begins to hold, and when it is over.

Decides what is sent, when, and what is remembered from one command to the next: `kavka pipeline run` from a timer tells
once of a run that fails every hour, and tells when one completes again.

    POST of JSON: version, status (firing, resolved), rule, pipeline, key, severity, text, since

I1  A condition is told as firing once, and as resolved once after that. What was not delivered is due again: with the
    next look, and with the next command.
I2  A webhook never holds up or fails a run: it is sent to from a thread, with a bound in time.
I3  The book on disk is whole: it is renamed into its place. Where it cannot be written, alerts go on and it is said
    once: the next command may tell again what this one told.
I4  An alert that a webhook refuses holds up no other. A webhook that does not answer is asked once in a look.

Source: the form is that of the console's alerts, with a pipeline for a cluster.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from kavka.runtime.http.webhooks import NotDelivered, Refused, post
from kavka_spark.pipelines.monitor import Condition

BOOK: Final = "alerts.json"
LOOK_S: Final = 5.0
END_S: Final = 15.0
"""How long the end of a command waits for what is due."""

IsOver: TypeAlias = Callable[[str, str], bool]


class Book:
    """What holds, since when, and whether it was told."""

    def __init__(self, path: Path, pipeline: str) -> None:
        self.path = path
        self._pipeline = pipeline
        self._entries: dict[str, dict[str, Any]] = _read(path)

    def update(self, conditions: list[Condition], now: float, *, is_over: IsOver) -> list[dict[str, Any]]:
        """Takes note of what holds; returns what is due to be told. `is_over` says of a rule and a key whether a
        condition that is not among `conditions` is over; else nobody knows yet."""
        holding = {f"{each.rule} {each.key}": each for each in conditions}
        for name, each in holding.items():
            entry = self._entries.setdefault(name, {"rule": each.rule, "key": each.key, "since": now, "told": False})
            entry |= {"severity": each.severity, "text": each.text, "over": False}
        for name, entry in list(self._entries.items()):
            if name not in holding and is_over(entry["rule"], entry["key"]):
                entry["over"] = True
                if not entry["told"]:
                    del self._entries[name]
        return [self._told(entry) for entry in self._entries.values() if entry["over"] or not entry["told"]]

    def delivered(self, told: Mapping[str, Any]) -> None:
        name = f"{told['rule']} {told['key']}"
        if told["status"] == "resolved":
            self._entries.pop(name, None)
        elif name in self._entries:
            self._entries[name]["told"] = True

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self._entries), encoding="utf-8")
        os.replace(new, self.path)

    def _told(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        since = datetime.fromtimestamp(entry["since"], UTC).isoformat(timespec="seconds")
        return {
            "version": 1,
            "status": "resolved" if entry["over"] else "firing",
            "pipeline": self._pipeline,
            **{name: entry[name] for name in ("rule", "key", "severity", "text")},
            "since": since,
        }


class Alerts:
    """Looks every few seconds, from `with` to its end."""

    def __init__(
        self,
        book: Book,
        webhook: str,
        conditions: Callable[[], tuple[list[Condition], IsOver]],
        complain: Callable[[str], None],
    ) -> None:
        self._book = book
        self._webhook = webhook
        self._conditions = conditions
        self._complain = complain
        self._complained_of: set[tuple[str, str]] = set()
        """Rules and keys of alerts that were not delivered, and were said."""
        self._is_book_unwritable = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="kavka-pipeline-alerts", daemon=True)

    def __enter__(self) -> Alerts:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(END_S)

    def _go_on(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._over.wait(LOOK_S)
            self.look()

    def look(self) -> None:
        """Sends what is due."""
        conditions, is_over = self._conditions()
        for told in self._book.update(conditions, time.time(), is_over=is_over):
            name = told["rule"], told["key"]
            try:
                post(self._webhook, told)
            except NotDelivered as failed:
                if name not in self._complained_of:
                    self._complain(f"The webhook was not told of '{told['text']}': {failed}. It is tried again.")
                self._complained_of.add(name)
                if isinstance(failed, Refused):
                    continue
                break
            self._complained_of.discard(name)
            self._book.delivered(told)
        self._save()

    def _save(self) -> None:
        try:
            self._book.save()
        except OSError as problem:
            if not self._is_book_unwritable:
                self._complain(f"{self._book.path} cannot be written: {problem.strerror}. Alerts may be told twice.")
            self._is_book_unwritable = True
        else:
            self._is_book_unwritable = False


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """The book; an empty one where there is none, or what is there is no book."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {name: entry for name, entry in entries.items() if _is_entry(entry)}


def _is_entry(entry: object) -> bool:
    texts, marks = ("rule", "key", "severity", "text"), ("told", "over")
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in texts)
        and all(isinstance(entry.get(name), bool) for name in marks)
        and isinstance(entry.get("since"), int | float)
    )
