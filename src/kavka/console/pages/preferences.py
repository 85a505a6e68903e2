"""GET /preferences: the reader's language and theme, kept in cookies; then back to where he was.

Behaviour: `language` and `theme` are kept if they are among those that there are. `next` must be a path of this very
site: whatever else it is, the answer leads to the wall. Works without scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse
from starlette.routing import Route

from kavka.console.look import i18n
from kavka.console.look.templating import THEME_COOKIE, THEMES

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

YEAR_S: Final = 365 * 86_400


def routes(console: Console) -> list[Route]:
    return [Route("/preferences", preferences, methods=["GET"])]


async def preferences(request: Request) -> Response:
    answer = RedirectResponse(own_path(request.query_params.get("next", "/")), status_code=303)
    for name, cookie, allowed in (
        ("language", i18n.COOKIE, tuple(i18n.LANGUAGES)),
        ("theme", THEME_COOKIE, THEMES),
    ):
        chosen = request.query_params.get(name)
        if chosen in allowed:
            answer.set_cookie(cookie, str(chosen), max_age=YEAR_S, samesite="lax", httponly=True)
    return answer


def own_path(text: str) -> str:
    """`text` if it is a path of this site, else the wall's: `//host` and `/\\host` are another's."""
    if not text.startswith("/") or text[1:2] in ("/", "\\") or any(ord(each) < 32 for each in text):
        return "/"
    return text
