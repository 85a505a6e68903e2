"""Misfit: one reason why a schema does not read what was written with another."""

from __future__ import annotations

from typing import NamedTuple


class Misfit(NamedTuple):
    """One reason: its kind, where in the reader's schema, a sentence, and what it is about."""

    kind: str
    path: str
    description: str
    about: str

    def __str__(self) -> str:
        return f"{{errorType:'{self.kind}', description:'{self.description}', additionalInfo:'{self.about}'}}"
