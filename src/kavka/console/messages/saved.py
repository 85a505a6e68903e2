"""SavedSearches: searches of a topic's messages that somebody has given a name, in the ledger.

Decides who may see and remove one, and how many there are. Must not know what a search means: it keeps the query of its
address.

    own     seen by who saved it
    shared  seen by everybody who may read the topic's messages, but for what follows

I1  Words of a search may quote what is masked for others ("value.iban == ..."). What somebody saved to whom nothing of
    the topic was masked is shared only with those to whom nothing of it is masked either.
I2  MOST_OF_ONE of one user on a topic, MOST_OF_TOPIC on a topic, MOST_OF_USER of one user in all: a right to `*` is
    one to topics that nobody has made, too.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from kavka.console.ledger import transaction

MOST_OF_ONE: Final = 50
MOST_OF_TOPIC: Final = 500
MOST_OF_USER: Final = 1_000
LONGEST_NAME: Final = 100
LONGEST_QUERY: Final = 4_000


class Saved(NamedTuple):
    """`saw_all`: nothing of the topic was masked for who saved it."""

    number: int
    name: str
    query: str
    user: str
    is_shared: bool
    saw_all: bool
    at_ms: int


class TooMany(ValueError):
    """There is no room for one more; the message says what to do."""


class SavedSearches:
    """Of all topics, in the ledger."""

    def __init__(self, ledger: sqlite3.Connection) -> None:
        self._ledger = ledger
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS saved_searches (number INTEGER PRIMARY KEY AUTOINCREMENT, "
            "cluster TEXT NOT NULL, topic TEXT NOT NULL, name TEXT NOT NULL, query TEXT NOT NULL, user TEXT NOT NULL, "
            "is_shared INTEGER NOT NULL, saw_all INTEGER NOT NULL, at_ms INTEGER NOT NULL, "
            "UNIQUE (cluster, topic, user, name)) STRICT"
        )

    def seen_by(self, cluster: str, topic: str, user: str, *, sees_all: bool) -> list[Saved]:
        """Those of a topic that `user` may see, by name. sees_all: nothing of the topic is masked for them."""
        rows = self._ledger.execute(
            "SELECT number, name, query, user, is_shared, saw_all, at_ms FROM saved_searches WHERE cluster = ? AND "
            "topic = ? AND (user = ? OR (is_shared AND (? OR NOT saw_all))) ORDER BY name, number",
            (cluster, topic, user, sees_all),
        )
        return [_saved(row) for row in rows]

    def save(self, cluster: str, topic: str, saved: Saved) -> None:
        """A name that the user has used on this topic stands for the new search. Raises TooMany."""
        mine = (cluster, topic, saved.user)
        with transaction(self._ledger):
            self._ledger.execute(
                "DELETE FROM saved_searches WHERE cluster = ? AND topic = ? AND user = ? AND name = ?",
                (*mine, saved.name),
            )
            of_topic = "SELECT count(*) FROM saved_searches WHERE cluster = ? AND topic = ?"
            (all_,) = self._ledger.execute(of_topic, mine[:2]).fetchone()
            (own,) = self._ledger.execute(f"{of_topic} AND user = ?", mine).fetchone()
            of_user = "SELECT count(*) FROM saved_searches WHERE user = ?"
            (everywhere,) = self._ledger.execute(of_user, (saved.user,)).fetchone()
            if own >= MOST_OF_ONE or all_ >= MOST_OF_TOPIC or everywhere >= MOST_OF_USER:
                own = everywhere if everywhere >= MOST_OF_USER else own
                raise TooMany(f"there are {own} saved searches of yours and {all_} in all: remove one first")
            self._ledger.execute(
                "INSERT INTO saved_searches (cluster, topic, name, query, user, is_shared, saw_all, at_ms) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*mine[:2], saved.name, saved.query, saved.user, saved.is_shared, saved.saw_all, saved.at_ms),
            )

    def remove(self, cluster: str, topic: str, number: int, user: str, *, is_admin: bool) -> bool:
        """One's own, or as an administrator a shared one. Returns whether there was such a one."""
        done = self._ledger.execute(
            "DELETE FROM saved_searches WHERE cluster = ? AND topic = ? AND number = ? AND "
            "(user = ? OR (is_shared AND ?))",
            (cluster, topic, number, user, is_admin),
        )
        return done.rowcount == 1


def _saved(row: sqlite3.Row) -> Saved:
    return Saved(row[0], row[1], row[2], row[3], bool(row[4]), bool(row[5]), row[6])
