"""What pages with tables have in common: long lists in pages, search, order, links that keep a table's state.

Decides how a list is cut and which query names carry a table's state (`q`, `sort`, `order`, `page`). Must not know what
is in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from kavka.console.asked_path import path_of
from kavka.console.look.charts import Look
from kavka.console.look.format import zone_of
from kavka.console.look.i18n import language_of, translator

if TYPE_CHECKING:
    from starlette.requests import Request

Item = TypeVar("Item")
Other = TypeVar("Other")
PAGE_SIZE: Final = 100
MAX_SEARCH: Final = 200
"""Characters of a search that are looked at."""


@dataclass(frozen=True, slots=True)
class Paged(Generic[Item]):
    """One page of a list; `page` counts from 1, `first` and `last` are places in the whole list."""

    items: Sequence[Item]
    page: int
    pages: int
    first: int
    last: int
    total: int


def look_of(request: Request) -> Look:
    """How this reader reads charts."""
    return Look(translator(language_of(request)), zone_of(request))


def cut(items: Sequence[Item], request: Request, *, size: int = PAGE_SIZE) -> Paged[Item]:
    """The page that the request asks for; the nearest there is where it asks for another."""
    pages = max(1, -(-len(items) // size))
    page = min(max(number(request, "page", 1), 1), pages)
    start = (page - 1) * size
    some = items[start : start + size]
    return Paged(some, page, pages, start + 1 if some else 0, start + len(some), len(items))


def judged(page: Paged[Item], judge: Callable[[Item], Other]) -> Paged[Other]:
    """What is said of the items of this page; of those of other pages nothing has to be worked out."""
    return Paged([judge(item) for item in page.items], page.page, page.pages, page.first, page.last, page.total)


def number(request: Request, name: str, default: int) -> int:
    """A number of the query; `default` where it is none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 19 else default


def search(request: Request) -> str:
    return request.query_params.get("q", "")[:MAX_SEARCH].strip()


def links(request: Request, path: str | None = None) -> Callable[..., str]:
    """A function that gives this page's address with some of its query changed (None: without it)."""
    said: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        if value:
            said.setdefault(name, []).append(value)
    query: dict[str, object] = {name: values if len(values) > 1 else values[0] for name, values in said.items()}

    def link(**changes: object) -> str:
        changed = {**query, **changes}
        if changed.get("page") == 1:
            del changed["page"]
        kept = {name: value for name, value in changed.items() if value is not None and value != ""}
        here = path or path_of(request)
        return f"{here}?{urlencode(kept, doseq=True)}" if kept else here

    return link


def ordered(
    items: Sequence[Item],
    request: Request,
    columns: dict[str, Callable[[Item], Any]],
    default: str,
    *,
    is_in_order: bool = False,
) -> tuple[Sequence[Item], str, str]:
    """The items by the column that the request names, with the column and `up` or `down`. Unknown values come last.
    `is_in_order`: by `default` they stand already."""
    column = request.query_params.get("sort", "")
    if column not in columns:
        column = default
    order = "down" if request.query_params.get("order") == "down" else "up"
    if is_in_order and (column, order) == (default, "up"):
        return items, column, order
    value_of = columns[column]
    known, rest = [], []
    for item in items:
        value = value_of(item)
        if value is None:
            rest.append(item)
        else:
            known.append((value, item))
    known.sort(key=itemgetter(0), reverse=order == "down")
    return [*(item for _value, item in known), *rest], column, order
