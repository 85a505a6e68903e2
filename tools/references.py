"""Every number and every link of the project leads somewhere: python tools/references.py prints those that do not.

    R1, P1, SH1, ST1    a rule of docs/design/rules.md, whose row names the files that check it
    S1             a row of docs/design/known-bugs.md, which a scenario of that number plays, or a file named above it
    article 001    a part of docs/design/articles.md, whose rows name where a claim is shown
    I1             an invariant of the module that cites it, which stands in the module's opening; another module's is
                   cited with that module's name in front: `coordinator.transactions.decide.shard`, I4

Numbers are looked for in strings and comments of Python files, and in pages. The way back is checked as well: a file
that a row names exists, and cites the rule.

Three more things are checked in pages: a file that ARCHITECTURE.md, CONTRIBUTING.md or docs/design/ names exists; a
link to another page leads to that page, and to a heading of it if it names one; docs/index.md has a link to every page
in docs/.
"""

from __future__ import annotations

import io
import posixpath
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = ("src", "tests", "tools", "benchmarks", "demo", "docs")
GENERATED: Final = "src/kavka/protocol/messages/"
RULES: Final = "docs/design/rules.md"
BUGS: Final = "docs/design/known-bugs.md"
ARTICLES: Final = "docs/design/articles.md"
INDEX: Final = "docs/index.md"
GUIDES: Final = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/design/choices.md")

_NUMBER: Final = re.compile(r"\b(?:(?:SH|ST|[RPGS])\d{1,2}|[Aa]rticle \d{3})\b(?!-)")
_ROW: Final = re.compile(r"^\| ((?:SH|ST|[RPGS])\d{1,2}) \|", re.MULTILINE)
_ARTICLE: Final = re.compile(r"^## (article \d{3})", re.MULTILINE)
_FILE: Final = re.compile(r"\b(?:[a-z_]+/)+[a-z_]+\.py\b")
_LINK: Final = re.compile(r"\]\((?P<page>[^()#\s:]*\.md)?(?:#(?P<heading>[^()\s]+))?\)")
_HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_INVARIANT: Final = re.compile(r"(?:(?P<place>[a-z_]+(?:\.[a-z_]+)*)[`')]*,? )?\b(?P<number>I[1-9]\d?)\b")
_DEFINED: Final = re.compile(r"^\s*(I[1-9]\d?)(?:\.|  )", re.MULTILINE)


class Text(NamedTuple):
    """A file, and what of it is read by people: a page whole, of a Python file its strings and comments."""

    path: str
    content: str
    pieces: tuple[str, ...]


def problems(texts: Iterable[Text], scenarios: Iterable[str]) -> list[str]:
    """A sentence for each number or link that leads nowhere, and for each row whose file does not bear it out."""
    by_path = {text.path: text for text in texts}
    return [
        *_unknown_numbers(by_path),
        *_rows_without_proof(by_path, {name.partition(":")[0] for name in scenarios}),
        *_unknown_invariants(by_path),
        *_broken_links(by_path),
        *_pages_without_a_line(by_path),
    ]


def read(root: Path = ROOT) -> list[Text]:
    """The project's Python files and pages."""
    files = [file for folder in FOLDERS for ending in ("py", "md") for file in (root / folder).rglob(f"*.{ending}")]
    found = []
    for file in sorted([*files, *root.glob("*.md")]):
        path, content = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        if path.startswith(GENERATED):
            continue
        is_code = file.suffix == ".py"
        cites = _NUMBER.search(content) or _INVARIANT.search(content)
        found.append(Text(path, content, tuple(_pieces(content) if cites else ()) if is_code else (content,)))
    return found


def _pieces(source: str) -> Iterator[str]:
    """Strings and comments; lines of comments that follow one another are one piece."""
    block: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            block.append(token.string)
        elif token.type not in {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}:
            if block:
                yield "\n".join(block)
                block = []
            if token.type == tokenize.STRING:
                yield token.string


def _unknown_numbers(texts: Mapping[str, Text]) -> Iterator[str]:
    known = {row for page in (RULES, BUGS) for row in _ROW.findall(texts[page].content)}
    known.update(_ARTICLE.findall(texts[ARTICLES].content))
    for text in texts.values():
        for number in sorted({each for piece in text.pieces for each in _NUMBER.findall(piece)}):
            if number[0].lower() + number[1:] not in known and number not in known:
                yield f"{text.path}: {number} stands in no page of docs/design/"


def _rows_without_proof(texts: Mapping[str, Text], played: set[str]) -> Iterator[str]:
    for page in (RULES, BUGS, ARTICLES, *(guide for guide in GUIDES if guide in texts)):
        for name in sorted(set(_FILE.findall(texts[page].content))):
            if _named(name, texts) is None:
                yield f"{page}: there is no {name}"
    for line in texts[RULES].content.splitlines():
        if (row := _ROW.match(line)) is None:
            continue
        files = _FILE.findall(line)
        if not files:
            yield f"{RULES}: {row[1]} names no file that checks it"
        for name in files:
            file = _named(name, texts)
            if file is not None and not re.search(rf"\b{row[1]}\b", file.content):
                yield f"{RULES}: {row[1]} names {name}, which does not cite it"
    for part in f"\n{texts[BUGS].content}".split("\n## ")[1:]:
        heading = part.partition("\n")[0]
        files = [file for name in _FILE.findall(heading) if (file := _named(name, texts)) is not None]
        for number in _ROW.findall(part):
            if number not in played and not any(re.search(rf"\b{number}\b", file.content) for file in files):
                yield f"{BUGS}: {number} is no scenario, and no file named in its heading cites it"


def _unknown_invariants(texts: Mapping[str, Text]) -> Iterator[str]:
    for text in texts.values():
        if not text.path.endswith(".py"):
            continue
        own = set(_DEFINED.findall(text.content))
        for piece in text.pieces:
            for cited in _INVARIANT.finditer(piece):
                place, number = cited["place"], cited["number"]
                if number in own:
                    continue
                module = place.removesuffix(".py").replace(".", "/") + ".py" if place else ""
                there = [each for path, each in texts.items() if module and path.endswith("/" + module)]
                if not any(number in _DEFINED.findall(each.content) for each in there):
                    yield f"{text.path}: {number} is no invariant of this module, nor of one that is named before it"


def _broken_links(texts: Mapping[str, Text]) -> Iterator[str]:
    for path, text in texts.items():
        if not path.endswith(".md"):
            continue
        for target, heading in _links(path, text.content):
            if target not in texts:
                yield f"{path}: a link leads to {target}, which does not exist"
            elif heading and heading not in _headings(texts[target].content):
                yield f"{path}: a link leads to {target}#{heading}, but that page has no such heading"


def _pages_without_a_line(texts: Mapping[str, Text]) -> Iterator[str]:
    linked = {target for target, _ in _links(INDEX, texts[INDEX].content)}
    for path in texts:
        if path.startswith("docs/") and path.endswith(".md") and path not in linked | {INDEX}:
            yield f"{INDEX}: no link leads to {path}"


def _links(path: str, content: str) -> Iterator[tuple[str, str]]:
    """(page, heading) of each link from this page to a page; heading is empty where the link names none."""
    for link in _LINK.finditer(_BLOCK.sub("", content)):
        page = posixpath.normpath(posixpath.join(posixpath.dirname(path), link["page"])) if link["page"] else path
        if link["page"] or link["heading"]:
            yield page, link["heading"] or ""


def _headings(content: str) -> set[str]:
    """The names under which a page's headings can be linked to, as GitHub makes them."""
    titles = _HEADING.findall(_BLOCK.sub("", content))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _named(name: str, texts: Mapping[str, Text]) -> Text | None:
    """A file is named from the project's root, or from the package's."""
    return texts.get(name) or texts.get(f"src/kavka/{name}")


def main() -> int:
    """The status: 1 where a number or a link leads nowhere."""
    from kavka.simulator.scenarios import SCENARIOS

    found = problems(read(), SCENARIOS)
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
