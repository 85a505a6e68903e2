"""The environment of the console's templates: where they are, what they may call, what each page knows.

Decides how templates are found and escaped, and what comes from the request: language, theme, zone, the present. Must
not know what is shown.

    I1  every value is escaped unless this package made it markup
    I2  a name that a template does not have is an error, not an empty place
"""

from __future__ import annotations

import hashlib
import time
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import jinja2

from kavka import __version__
from kavka.console.asked_path import path_of
from kavka.console.look.format import filters, zone_of
from kavka.console.look.i18n import LANGUAGES, language_of, translator
from kavka.observe.snapshot import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

THEMES: Final = ("auto", "light", "dark")
THEME_COOKIE: Final = "kavka_theme"
ASSETS: Final = (
    "console.css",
    "live.js",
    "live-worker.js",
    "tail.js",
    "expression.js",
    "boxes.js",
    "preview.js",
    "export.js",
)


@cache
def environment() -> jinja2.Environment:
    """The one environment of this process."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("kavka.console", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(filters())
    made.globals.update(languages=LANGUAGES, assets=asset_versions(), part=Part)
    return made


def base_context(request: Request) -> dict[str, object]:
    """What every page knows of its reader."""
    language = language_of(request)
    translate = translator(language)
    theme = request.cookies.get(THEME_COOKIE, THEMES[0])
    query = request.url.query
    return {
        "request": request,
        "_": translate,
        "n_": translate.several,
        "tr": translate.plain,
        "language": language,
        "theme": theme if theme in THEMES else THEMES[0],
        "zone": zone_of(request),
        "now_ms": time.time_ns() // 1_000_000,
        "path": path_of(request),
        "here": path_of(request) + (f"?{query}" if query else ""),
        "version": __version__,
        # What a page may leave out.
        "cluster": None,
        "clusters": (),
        "snapshot": None,
        "section": None,
        "user": None,
        "csrf_token": getattr(request.state, "csrf_token", ""),
        "live": True,
    }


@cache
def asset_versions() -> Mapping[str, str]:
    """A digest of each static file, which its address carries, so that a browser may keep it for ever."""
    place = files("kavka.console").joinpath("static")
    return {name: hashlib.sha256(place.joinpath(name).read_bytes()).hexdigest()[:12] for name in ASSETS}
