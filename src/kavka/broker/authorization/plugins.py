"""Plug-ins: an authorizer of one's own, found by its entry point in the group `kavka.authorizers`.

authorizer.class.name=entrypoint:NAME names it. The entry point is a callable that is given the broker's settings as
texts and returns an `Authorizer` (`broker.authorization.authorization`). Only installed packages can offer one, and
only the broker's own file can name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from kavka.errors import ConfigError

if TYPE_CHECKING:
    from kavka.broker.authorization.authorization import Authorizer

GROUP: Final = "kavka.authorizers"


def load(name: str, settings: Mapping[str, str]) -> Authorizer:
    """The authorizer of that entry point. Raises ConfigError if there is none, or it cannot be made."""
    found = tuple(entry_points(group=GROUP, name=name))
    if len(found) != 1:
        what = "no installed package offers" if not found else f"{len(found)} installed packages offer"
        raise ConfigError(f"authorizer.class.name: {what} the entry point {name!r} of the group {GROUP}")
    try:
        authorizer: Authorizer = found[0].load()(settings)
    except Exception as failure:  # whatever it does wrong, the broker does not start without it
        raise ConfigError(f"authorizer.class.name: the entry point {name!r} failed: {failure!r}") from failure
    return authorizer
