"""Page: a Markdown page as a list of blocks of code, and what the page says about them in comments that nobody sees.

Decides what is a block, what its language is, and what a comment means; runs nothing.

A block is fenced and names its language. Before it may stand, in an HTML comment:

    <!-- not run: REASON -->              the whole block is left out, for one of REASONS
    <!-- not run: REASON, line 2 -->      of its lines only this one; "lines 2 3" for several
    <!-- given                            commands that make what the page's reader has by then: a topic, a group,
    kavka topics create orders -p 6       a broker that runs
    -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]

LANGUAGES = {
    "sh",
    "console",
    "text",
    "python",
    "properties",
    "toml",
    "yaml",
    "sql",
    "json",
    "java",
    "js",
    "go",
    "dockerfile",
}
GIVEN = "given"

TAKES_MINUTES = "takes minutes"
"""The one reason that holds for `make test` only: `make conformance` runs these blocks."""
ELSEWHERE = "run by "
"""And the name of the test that runs the block."""

REASONS = {
    "another machine": "hosts, directories or programs that only the reader has",
    "installs": "it changes what is installed",
    "a target": "a target of the Makefile with a test, or a use, of its own",
    "a fragment": "a part of a program that the reader writes",
    "an incident": "the output belongs to an incident that cannot be had at will",
    TAKES_MINUTES: "left to `make conformance`",
    ELSEWHERE: "a test of its own runs it",
}

FENCE = re.compile(r"^( *)```(\w*)\s*$")
NOT_RUN = re.compile(r"^<!-- not run: (?P<reason>[^,]+?)(?:, lines? (?P<lines>[\d ]+))? -->$")


class NotAPage(Exception):
    """The page breaks the rules above; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code. `first_line` is the line of the page on which its text begins, counted from 1."""

    language: str
    lines: tuple[str, ...]
    first_line: int
    not_run: str | None = None
    """Why the whole block is left out."""
    lines_not_run: dict[int, str] = field(default_factory=dict)
    """Of single lines, counted from 1: why they are left out."""
    follows_a_block: bool = False
    """Whether nothing but empty lines and comments stands between the block before and this one."""


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order. Raises NotAPage."""
    return list(_blocks(page.name, page.read_text().splitlines()))


def _blocks(name: str, lines: list[str]) -> Iterator[Block]:
    marks: list[tuple[str, list[int]]] = []
    follows, position = False, 0
    while position < len(lines):
        line, here = lines[position], f"{name}:{position + 1}"
        position += 1
        if mark := NOT_RUN.match(line):
            if not any(mark["reason"] == reason or _names(mark["reason"], reason) for reason in REASONS):
                raise NotAPage(f"{here}: {mark['reason']!r} is none of the reasons {sorted(REASONS)}")
            marks.append((mark["reason"], [int(number) for number in (mark["lines"] or "").split()]))
        elif line == f"<!-- {GIVEN}":
            end = lines.index("-->", position)
            yield Block(GIVEN, tuple(lines[position:end]), position + 1)
            position = end + 1
        elif fence := FENCE.match(line):
            if fence[2] not in LANGUAGES:
                raise NotAPage(f"{here}: a block in {fence[2] or 'no language'}; known are {sorted(LANGUAGES)}")
            end = lines.index(f"{fence[1]}```", position)
            text = tuple(line.removeprefix(fence[1]) for line in lines[position:end])
            whole = next((reason for reason, numbers in marks if not numbers), None)
            single = {number: reason for reason, numbers in marks for number in numbers}
            if any(number > len(text) for number in single):
                raise NotAPage(f"{here}: a comment names a line that the block does not have")
            yield Block(fence[2], text, position + 1, whole, single, follows)
            position, marks, follows = end + 1, [], True
        elif line.startswith("    ") and position > 1 and not lines[position - 2].strip():
            raise NotAPage(f"{here}: a block that is indented and not fenced has no language")
        elif line.strip():
            if marks:
                raise NotAPage(f"{here}: a comment says what is not run, and no block follows")
            follows = False


def _names(reason: str, kind: str) -> bool:
    return kind == ELSEWHERE and reason.startswith(ELSEWHERE)


def kind_of(reason: str) -> str:
    """The key of REASONS that a comment's reason belongs to."""
    return ELSEWHERE if reason.startswith(ELSEWHERE) else reason


def commands(lines: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Command lines of a block with the number, from 1, of the line on which each begins: a backslash joins lines, and
    so does a quotation or a here-document that is not over."""
    begun, text = 0, ""
    for number, line in enumerate(lines, 1):
        if not text and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun = begun if text else number
        text = f"{text}\n{line}" if text else line
        if line.endswith("\\") or _is_open(text):
            continue
        yield begun, text
        text = ""
    if text:
        yield begun, text


def _is_open(text: str) -> bool:
    if here := re.search(r"<<-?\s*'?(\w+)'?", text):
        return text.splitlines()[-1].strip() != here[1]
    return text.count("'") % 2 == 1 and "#" not in text


def shown(page: Path, begins: str) -> str:
    """The page's block that begins so."""
    texts = ("\n".join(block.lines) + "\n" for block in blocks(page))
    return next(text for text in texts if text.startswith(begins))
