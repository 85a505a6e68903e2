"""Incompatibility: one reason why a schema does not read what was written with another."""

from __future__ import annotations

from typing import Final, NamedTuple

LONGEST: Final = 500
"""Characters of each part: names have up to a megabyte, and each reason has them."""


class Incompatibility(NamedTuple):
    """One reason: its kind, where in the reader's schema, a sentence, and what it is about."""

    kind: str
    path: str
    description: str
    about: str

    @classmethod
    def of(cls, kind: str, path: str, text: str, about: str) -> Incompatibility:
        """text: a sentence, without the path and its end."""
        path, text, about = cut(path), cut(text), cut(about)
        return cls(kind, path, f"{text} at path '{path}'", about)

    def __str__(self) -> str:
        return f"{{errorType:'{self.kind}', description:'{self.description}', additionalInfo:'{self.about}'}}"


def cut(text: str) -> str:
    """Its beginning and its end, where it is long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}...{text[-LONGEST // 2 :]}"
