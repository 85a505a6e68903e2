"""A browser without a screen for the console: keeps cookies, reads forms off pages, sends them as a browser would."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

TIMEOUT_S = 60.0
COMMAND = re.compile(
    r"\bkavka (?:console|why|elect|reassign|transactions|topics|health)\b[A-Za-z ]*|pip install '[^']*'"
)
ENGLISH = re.compile(r"[A-Za-z][a-z']+(?:[,:;]? +[A-Za-z]?[a-z']+){2,}")
"""Three words in a row: a sentence, or most of one. Names (min.insync.replicas, Apache Kafka) are shorter,
and command lines are in every language."""
AS_IT_IS = ("code", "pre", "samp", "kbd", "script", "style", "textarea")
"""What is in these is the same in every language."""
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
SAID = ("title", "aria-label", "placeholder", "alt")


class Form(NamedTuple):
    """A form as the page has it: where it goes, and what its fields hold."""

    action: str
    fields: dict[str, str]


class Page(NamedTuple):
    status: int
    url: str
    html: str
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        """What a reader sees of the page's own part."""
        reader = _Text()
        reader.feed(self.html)
        return " ".join(" ".join(reader.words).split())

    def english(self) -> list[str]:
        """What a page that is not in English says in English all the same, but for what it marks as such (lang=en)."""
        reader = _English()
        reader.feed(self.html)
        return list(dict.fromkeys(reader.found))

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    def forms(self) -> list[Form]:
        reader = _Forms()
        reader.feed(self.html)
        return reader.found

    def form(self, action: str) -> Form:
        """The form that goes to a path which ends so."""
        found = [form for form in self.forms() if form.action.endswith(action)]
        assert found, f"no form to {action} in: {self.text[:1500]}"
        return found[0]


class ConsoleClient:
    """One browser at one console."""

    def __init__(self, address: str, headers: dict[str, str] | None = None) -> None:
        """`headers` go with every request: the language, for one."""
        self.address = address
        self.headers = headers or {}
        self.cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def get(self, path: str) -> Page:
        return self.send(urllib.request.Request(self.address + path))

    def post(self, path: str, fields: dict[str, str], headers: dict[str, str] | None = None) -> Page:
        data = urlencode(fields).encode()
        return self.send(urllib.request.Request(self.address + path, data, headers or {}))

    def send(self, request: urllib.request.Request) -> Page:
        for name, value in self.headers.items():
            request.add_header(name, value)
        try:
            answer = self._opener.open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as refused:
            answer = refused
        with answer:
            body = answer.read()
            return Page(answer.status, answer.geturl(), body.decode(errors="replace"), answer.headers, body)

    def submit(self, page: Page, action: str, **fields: str) -> Page:
        """Sends the page's form as it is, with these fields filled in."""
        form = page.form(action)
        return self.post(form.action, {**form.fields, **fields})

    def login(self, name: str, password: str, *, then: str = "/") -> Page:
        return self.submit(self.get(f"/login?next={then}"), "/login", name=name, password=password)

    def preview(self, cluster: str, action: str, subject: dict[str, str], **fields: str) -> Page:
        """From the form to what it would do."""
        page = self.get(f"/c/{cluster}/do/{action}?{urlencode(subject)}")
        return self.submit(page, f"/do/{action}", step="preview", **fields)

    def confirm(self, page: Page, action: str, **fields: str) -> Page:
        return self.submit(page, f"/do/{action}", step="run", **fields)

    def do(self, cluster: str, action: str, subject: dict[str, str], **fields: str) -> Page:
        """The whole way. A name that has to be typed is `typed`."""
        typed = fields.pop("typed", "")
        page = self.preview(cluster, action, subject, **fields)
        return self.confirm(page, action, **({"typed": typed} if typed else {}))


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._area: str | None = None
        self._select: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(Form(known.get("action", ""), {}))
        if not self.found:
            return
        fields = self.found[-1].fields
        if tag == "input" and known.get("name"):
            if known.get("type") not in ("checkbox", "radio") or "checked" in known:
                fields[known["name"]] = known.get("value", "")
        elif tag == "textarea" and known.get("name"):
            self._area = known["name"]
            fields[self._area] = ""
        elif tag == "select":
            self._select = known.get("name")
        elif tag == "option" and self._select is not None and (self._select not in fields or "selected" in known):
            fields[self._select] = known.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            # The first line break after the tag is no part of it.
            known = self.found[-1].fields[self._area]
            self.found[-1].fields[self._area] = known + (data.removeprefix("\n") if not known else data)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._inside = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside += tag == "main"

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag == "main"

    def handle_data(self, data: str) -> None:
        if self._inside > 0:
            self.words.append(data)


class _English(HTMLParser):
    """Texts, and texts of attributes, outside of what is marked as English or is the same in every language."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        passed_over = self._is_passed_over or known.get("lang") == "en" or tag in AS_IT_IS
        if tag not in VOID:
            self._open.append((tag, passed_over))
        if not passed_over:
            for name in SAID:
                self._look(known.get(name, ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._is_passed_over:
            self._look(data)

    @property
    def _is_passed_over(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def _look(self, text: str) -> None:
        if ENGLISH.search(COMMAND.sub("", text)):
            self.found.append(" ".join(text.split()))
