"""What a SQL file of a pipeline defines: streaming tables, materialized views, temporary views, flows.

Decides where statements end and what each defines, with its line. A triggered run leaves the meaning to SDP, which
parses the files itself, and takes names and lines from here; the long session takes queries as well.

    CREATE [OR REFRESH] STREAMING TABLE name [clauses] [AS query]
    CREATE [OR REFRESH] MATERIALIZED VIEW name [clauses] AS query
    CREATE TEMPORARY VIEW name AS query
    CREATE FLOW name AS INSERT INTO target BY NAME query

I1  Semicolons and names in strings, quoted names and comments are none.

Source: Spark 4.3's "Declarative Pipelines Programming Guide"; SqlBaseParser.g4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["streaming table", "materialized view", "temporary view", "flow", "sink"]


class SqlProblem(Exception):
    """A statement that defines nothing; `line` counts from 1."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class SqlDefinition:
    """One statement. `query` is empty for a table that flows fill. `name` and `target` are as written."""

    kind: Kind
    name: str
    target: str
    line: int
    query: str
    format: str | None = None
    partitioned_by: tuple[str, ...] = ()


class _Statement(NamedTuple):
    line: int
    text: str


_PIECES: Final = re.compile(
    r"""'(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | ;""", re.X | re.S
)
_NAME: Final = r"(?P<name>(?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))*)"
_HEAD: Final = re.compile(
    rf"""\s*CREATE\s+(?:OR\s+REFRESH\s+)?
    (?P<kind>STREAMING\s+TABLE|MATERIALIZED\s+VIEW|TEMPORARY\s+VIEW|TEMP\s+VIEW|FLOW)\s+
    (?:IF\s+NOT\s+EXISTS\s+)?{_NAME}""",
    re.X | re.I,
)
_FLOW_BODY: Final = re.compile(
    rf"\s*AS\s+INSERT\s+INTO\s+(?:TABLE\s+)?{_NAME}\s+(?:BY\s+NAME\s+)?(?P<query>.*)", re.I | re.S
)
_AS: Final = re.compile(r"\bAS\b", re.I)
_USING: Final = re.compile(r"\bUSING\s+(\w+)", re.I)
_PARTITIONED: Final = re.compile(r"\bPARTITIONED\s+BY\s*\(([^)]*)\)", re.I)
_READ: Final = re.compile(r"\b(?:FROM|JOIN)\s+(?:STREAM\s*\(?\s*)?([\w.`]+)", re.I)
_NAMED_QUERY: Final = re.compile(r"(`[^`]+`|\b\w+)\s*(?:\([^()]*\)\s*)?AS\s*\(", re.I)
"""What WITH gives a name to."""
_TEXT: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.S)


def tables_read(query: str) -> list[str]:
    """What a query reads by name, as written: what follows FROM and JOIN, and was not named in the query itself."""
    plain = _TEXT.sub("''", query)
    own = {name.strip("`").lower() for name in _NAMED_QUERY.findall(plain)}
    return [name for name in _READ.findall(plain) if name.strip("`").lower() not in own]


def sql_definitions(text: str) -> list[SqlDefinition]:
    """All statements of a file, in order. Raises SqlProblem."""
    return [_definition(statement) for statement in _statements(text)]


def _statements(text: str) -> Iterator[_Statement]:
    """Comments become blanks, so that lines stay where they are."""
    kept: list[str] = []
    begin = 0
    for piece in _PIECES.finditer(text):
        found = piece[0]
        kept.append(text[begin : piece.start()])
        begin = piece.end()
        if found == ";":
            yield from _statement(kept, text, piece.start())
            kept = []
        elif found.startswith(("--", "/*")):
            kept.append(re.sub(r"[^\n]", " ", found))
        else:
            kept.append(found)
    kept.append(text[begin:])
    yield from _statement(kept, text, len(text))


def _statement(kept: list[str], text: str, end: int) -> Iterator[_Statement]:
    statement = "".join(kept)
    if statement.strip():
        first = len(statement) - len(statement.lstrip())
        yield _Statement(text.count("\n", 0, end - len(statement) + first) + 1, statement.strip())


def _definition(statement: _Statement) -> SqlDefinition:
    head = _HEAD.match(statement.text)
    if head is None:
        first = " ".join(statement.text.split()[:4])
        raise SqlProblem(
            statement.line, f"{first} ... defines no streaming table, materialized view, temporary view or flow"
        )
    rest = statement.text[head.end() :]
    words = head["kind"].upper().split()
    if words == ["FLOW"]:
        body = _FLOW_BODY.match(rest)
        if body is None:
            raise SqlProblem(statement.line, f"flow {head['name']} is not AS INSERT INTO table BY NAME query")
        return SqlDefinition("flow", head["name"], body["name"], statement.line, body["query"].strip())
    kind: Kind = "streaming table" if words[0] == "STREAMING" else "temporary view"
    if words[0] == "MATERIALIZED":
        kind = "materialized view"
    clauses, query = _split_at_as(rest)
    using, partitioned = _USING.search(clauses), _PARTITIONED.search(clauses)
    columns = tuple(each.strip(" `") for each in partitioned[1].split(",")) if partitioned else ()
    return SqlDefinition(kind, head["name"], head["name"], statement.line, query, using[1] if using else None, columns)


def _split_at_as(rest: str) -> tuple[str, str]:
    """The clauses before the first AS that stands in no parentheses and no string, and the query after it."""
    depth = 0
    for piece in re.finditer(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|[()]|\bAS\b", rest, re.I):
        if piece[0] == "(":
            depth += 1
        elif piece[0] == ")":
            depth -= 1
        elif depth == 0 and _AS.fullmatch(piece[0]):
            return rest[: piece.start()], rest[piece.end() :].strip()
    return rest, ""
