"""A webhook: JSON to an address that an operator gave, by POST.

Decides what counts as delivered. Must not know what is told, or when.

    I1  delivered is what was answered with 2xx, in `TIMEOUT_S` for each step; what was not delivered may be sent again
    I2  a redirect is not followed: it would take what is sent elsewhere
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any, Final

from kavka import __version__

TIMEOUT_S: Final = 10.0
LONGEST_ANSWER: Final = 2_000
SHOWN: Final = 200
"""Characters of an answer that refuses."""


class NotDelivered(Exception):
    """It was refused, or nobody knows: it may be sent again."""


class Refused(NotDelivered):
    """The webhook answered, and not with 2xx."""


def post(address: str, body: Any) -> None:
    """Blocks until it is delivered. Raises `Refused` and `NotDelivered`."""
    headers = {"content-type": "application/json", "user-agent": f"kavka/{__version__}"}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
            answer.read(LONGEST_ANSWER)
    except urllib.error.HTTPError as refused:
        raise Refused(f"it answered {refused.code} {_said(refused)}".strip()) from None
    except (OSError, ValueError, http.client.HTTPException) as failed:
        why = getattr(failed, "reason", failed)  # A URLError's own words are Python's.
        raise NotDelivered(str(why) or type(failed).__name__) from None


def _said(refused: urllib.error.HTTPError) -> str:
    try:
        with refused:
            return " ".join(refused.read(LONGEST_ANSWER).decode(errors="replace").split())[:SHOWN]
    except (OSError, http.client.HTTPException):
        return ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None
