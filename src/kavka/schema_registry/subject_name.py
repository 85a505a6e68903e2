"""Subjects and the contexts that they are in.

Decides which context a subject belongs to, and how its name is written: `:.CONTEXT:NAME`, in the default context the
bare name. Ids count for themselves in each context.

Source: Confluent Schema Registry, "Schema contexts".
"""

from __future__ import annotations

import re
from typing import Final

from kavka.schema_registry.refusal import invalid_subject

DEFAULT_CONTEXT: Final = "."
GLOBAL_RESOURCES: Final = ("__GLOBAL", "__EMPTY")
"""Names that stand for no subject in Confluent's registry."""
MOST_CHARACTERS: Final = 1_024
_QUALIFIED = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)


def context_of(subject: str) -> str:
    """`.` for the default context, else `.NAME`."""
    found = _QUALIFIED.fullmatch(subject)
    return found[1] if found is not None else DEFAULT_CONTEXT


def bare_name(subject: str) -> str:
    """The name without its context."""
    found = _QUALIFIED.fullmatch(subject)
    return found[2] if found is not None else subject


def qualified(context: str, subject: str) -> str:
    """A subject as a request names it, in the context that its address names. Without a context of its own it is in
    that one."""
    found = _QUALIFIED.fullmatch(subject)
    if found is not None:
        context, subject = found[1], found[2]
    return subject if context == DEFAULT_CONTEXT else f":{context}:{subject}"


def context_named(text: str) -> str:
    """The context that an address names: `staging`, `.staging` or `:.staging:`."""
    name = text.strip(":")
    return name if name.startswith(".") else f".{name}"


def require_valid(subject: str) -> None:
    """Raises RegistryRefusal for what cannot be a subject."""
    name = bare_name(subject)
    if (
        not name.strip()
        or name in GLOBAL_RESOURCES
        or len(subject) > MOST_CHARACTERS
        or any(ord(sign) < 32 or ord(sign) == 127 for sign in subject)
    ):
        raise invalid_subject(subject)
