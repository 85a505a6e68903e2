"""What commands print: tables, JSON, notes and errors.

Decides form only: results go to standard output, everything else to standard error; colours and widths are for a
terminal only (NO_COLOR is respected), a pipe gets plain tab-separated lines; `--json` gets one JSON document.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from kavka.errors import KavkaError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130


class Failure(Exception):
    """A command that could not do what it was asked. `next_step` says what to do about it."""

    def __init__(self, problem: str, next_step: str = "", *, status: int = FAILED) -> None:
        super().__init__(problem)
        self.problem = problem
        self.next_step = next_step
        self.status = status


@dataclass(slots=True)
class Table:
    """Rows of text under headings. `numbers` are the columns that are aligned to the right."""

    headings: Sequence[str]
    numbers: Sequence[str] = ()
    rows: list[Sequence[str]] = field(default_factory=list)
    title: str = ""

    def add(self, *cells: object) -> None:
        self.rows.append(["" if cell is None else printable(str(cell)) for cell in cells])


def printable(text: str) -> str:
    """The text without what a terminal would obey, and what would make another column or line: names of groups, users
    and clients are anybody's choice."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def show(table: Table) -> None:
    """Prints a table: aligned and coloured on a terminal, else tab-separated with a line of headings."""
    if not sys.stdout.isatty():
        lines = ["\t".join(map(str.upper, table.headings)), *("\t".join(row) for row in table.rows)]
        if table.title:
            lines.insert(0, f"# {table.title}")
        print("\n".join(lines))
        return
    from rich.cells import cell_len
    from rich.table import Table as RichTable
    from rich.text import Text

    from kavka.cli.table_fit import fit_of  # late, as rich: a pipe needs neither

    terminal = console(sys.stdout)
    headings = [heading[:1].upper() + heading[1:] for heading in table.headings]
    cells = [max((cell_len(row[place]) for row in table.rows), default=0) for place in range(len(headings))]
    fit = fit_of(headings, cells, terminal.width)
    shown = RichTable(box=None, header_style="bold", pad_edge=False, padding=(0, fit.gap, 0, 0))
    for place, width in fit.widths.items():
        number = table.headings[place] in table.numbers
        shown.add_column(headings[place], width=width, justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(row[place]) for place in fit.widths))
    if table.title:
        terminal.print(Text(table.title, style="italic"))
    terminal.print(shown)


def show_json(value: object) -> None:
    print(json_text(value, indent=2 if sys.stdout.isatty() else None))


def json_text(value: object, *, indent: int | None = None) -> str:
    r"""The value as JSON that a terminal shows as it is: what it would obey, or cannot show, is escaped. It is the same
    JSON to a program.

    >>> json_text({"group": "\x9b2Jä"})
    '{"group": "\\u009b2Jä"}'
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else json.dumps(character)[1:-1]


def buffer_output() -> None:
    """Puts a buffer in front of standard output where python was started without one (-u, PYTHONUNBUFFERED).

    An unbuffered write to a pipe may take a part of the bytes only, and print would drop the rest.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and not isinstance(sys.stdout.buffer, io.BufferedWriter):
        sys.stdout = open(sys.stdout.fileno(), "w", encoding=sys.stdout.encoding, closefd=False)  # noqa: SIM115 - it stays open


def end_output() -> None:
    """Writes what is still buffered while a failure can be reported: the interpreter's own end would only mention it.
    Raises OSError."""
    sys.stdout.flush()


def output_failure(problem: OSError) -> Failure | None:
    """What a write of the output that failed means; None where the problem is something else. Nothing more is written.

    A reader that has enough, as `head` has, is an end and not a failure.
    """
    if problem.filename is not None or problem.errno not in _OUTPUT_ERRORS:
        return None
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if problem.errno == errno.EPIPE:
        return Failure("", status=0)
    return Failure(f"cannot write the output: {problem.strerror}", "it is not complete: make room, and run this again")


_OUTPUT_ERRORS: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Of a write to a pipe, a terminal or a file that is open."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 broker`, `3 brokers`, `1,000 partitions`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def note(text: str) -> None:
    """A remark for people, on standard error."""
    # In one call, unlike print's: processes that share a file do not write into each other's lines.
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def note_files(trace: str | None, page: str | None) -> None:
    """Says where the trace and the page of a run are, if they were asked for."""
    for what, name in (("The trace", trace), ("The page", page)):
        if name is not None:
            note(f"{what} is in {name}.")


def done(text: str, facts: Mapping[str, object], *, as_json: bool) -> None:
    """What a command did: a sentence, or its facts as JSON."""
    if as_json:
        show_json(dict(facts))
    else:
        print(text)


def console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream, highlight=False, soft_wrap=False)


def report(failure: Failure) -> int:
    """Says what went wrong and what to do next; returns the exit status."""
    if not failure.problem:
        return failure.status
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    red, plain = ("\x1b[31m", "\x1b[0m") if coloured else ("", "")
    lines = [f"{red}Error:{plain} {failure.problem}"]
    if failure.next_step:
        lines.append(f"  Next: {failure.next_step}")
    print("\n".join(lines), file=sys.stderr)
    return failure.status


def require_writable(path: str) -> None:
    """Raises Failure, before long work, where the file could not be written after it. Leaves no file behind."""
    was_there = os.path.lexists(path)
    try:
        with open(path, "a", encoding="utf-8"):
            pass
        if not was_there:
            os.unlink(path)
    except OSError as problem:
        raise Failure(f"{path} cannot be written: {problem.strerror}", "name a file that you may write") from problem


def write_file(path: str, parts: Iterable[str]) -> None:
    """Writes the text in one go."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(parts)
    except OSError as problem:
        raise Failure(f"{path} cannot be written: {problem.strerror}", "name a file that you may write") from problem


def usage(problem: str, next_step: str = "") -> NoReturn:
    raise Failure(problem, next_step, status=WRONG_USAGE)


def one_of(names: Sequence[str], known: Sequence[str], *, what: str) -> list[str]:
    """The names as `known` spells them, whatever their case. Raises Failure for one that is not there."""
    spelled = {each.lower(): each for each in known}
    for name in names:
        if name.lower() not in spelled:
            usage(f"unknown {what} {name!r}", f"choose one of {', '.join(known)}")
    return [spelled[name.lower()] for name in names]


def confirm(would: str, *, yes: bool) -> None:
    """Asks on a terminal before something that cannot be undone; elsewhere --yes must say so. Raises Failure.

    `would` goes on after "This would ".
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"Nothing was done. This would {would}.", "add --yes to do it", status=WRONG_USAGE)
    if input(f"This would {would}. Type yes to go on: ").strip().lower() not in ("y", "yes"):
        raise Failure("Nothing was done.")


def unreadable(file: str, problem: OSError | UnicodeDecodeError) -> str:
    """What is wrong with a file that could not be read as text."""
    return f"cannot read {file}: {problem.strerror if isinstance(problem, OSError) else 'it is not text in UTF-8'}"


def plain_words(text: str) -> str:
    """The text with names of error codes in words, where there are better ones."""
    for name, words in ERROR_WORDS.items():
        text = re.sub(rf"\b{name}\b", words, text)
    return text


ERROR_WORDS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "no such topic or partition",
    "TOPIC_ALREADY_EXISTS": "it is there already",
    "OFFSET_OUT_OF_RANGE": "the offset is beyond the end of the log",
    "NOT_ENOUGH_REPLICAS": "fewer replicas are in sync than min.insync.replicas",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "fewer replicas are in sync than min.insync.replicas",
    "NOT_LEADER_OR_FOLLOWER": "its leader has moved",
    "REPLICA_NOT_AVAILABLE": "this broker has no replica of it",
    "LEADER_NOT_AVAILABLE": "it has no leader",
    "COORDINATOR_NOT_AVAILABLE": "the coordinator is not available",
    "COORDINATOR_LOAD_IN_PROGRESS": "the coordinator is still loading",
    "MESSAGE_TOO_LARGE": "the batch is larger than max.message.bytes",
    "INVALID_TOPIC_EXCEPTION": "not a name for a topic: letters, digits, '.', '_' and '-', at most 249 of them",
    "POLICY_VIOLATION": "a policy of the cluster does not allow it",
    "KAFKA_STORAGE_ERROR": "its log directory is offline",
    "LOG_DIR_NOT_FOUND": "the broker has no such log directory",
    "GROUP_ID_NOT_FOUND": "there is no such group",
    "TRANSACTIONAL_ID_NOT_FOUND": "there is no such transactional id",
    "TOPIC_AUTHORIZATION_FAILED": "you may not do this to the topic",
    "GROUP_AUTHORIZATION_FAILED": "you may not do this to the group",
    "CLUSTER_AUTHORIZATION_FAILED": "you may not do this to the cluster",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "you may not use the transactional id",
}
LISTENER_NEXT = "if it wants TLS or a login, name a file with both: --client-config FILE (docs/security.md)"
TRUST_NEXT = "name its authority with ssl.truststore.location in the file that --client-config names (docs/security.md)"
LOGIN_NEXT = "correct the user, the password or the mechanism in the file that --client-config names (docs/security.md)"
DENIED_NEXT = "a super user's `kavka why denied` shows what is missing, and the command that allows it"


def explain(error: KavkaError, bootstrap: str, *, meant: str | None = None) -> Failure:
    """The failure of a command for an error of the client, with what to do about it. `meant`: the topic that was
    probably meant by one that is not there."""
    from kavka.errors import ConnectionFailed, ErrorCode, HostUnknown, NotKafka, NotTrusted, RequestError

    causes = (error, *getattr(error, "failures", ()))
    if any(isinstance(each, NotKafka) for each in causes):
        return Failure(str(error), "name a broker's own port with -b HOST:PORT; `kavka up` prints it")
    if any(isinstance(each, HostUnknown) for each in causes):
        return Failure(str(error), "correct the name, in -b HOST:PORT or KAVKA_BOOTSTRAP")
    if any(isinstance(each, NotTrusted) for each in causes):
        return Failure(str(error), TRUST_NEXT)
    if isinstance(error, ConnectionFailed):
        return _unreachable(str(error), bootstrap)
    if isinstance(error, RequestError):
        from kavka.cli.setting_hints import NAMES, setting_hint

        if error.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST):
            hint = setting_hint(error.message)
            if hint is not None:
                return Failure(hint.problem, hint.next_step)
        steps = {
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "see `kavka topics list`, or create it with `kavka topics create`",
            ErrorCode.TOPIC_ALREADY_EXISTS: "use --if-not-exists to leave it as it is",
            ErrorCode.INVALID_PARTITIONS: "choose a larger number: a topic gains partitions, and never loses any",
            ErrorCode.INVALID_REPLICATION_FACTOR: "a topic has at most as many replicas as there are brokers: create "
            "it with fewer, by `kavka topics create TOPIC -r N`, or start more brokers (`kavka brokers` counts them)",
            ErrorCode.INVALID_CONFIG: NAMES,
            ErrorCode.COORDINATOR_NOT_AVAILABLE: "see `kavka health`; a coordinator's topic is made at its first use, "
            "and needs as many live brokers as it has replicas",
            ErrorCode.OFFSET_OUT_OF_RANGE: "`kavka topics describe` shows the offsets of each partition",
            ErrorCode.NOT_ENOUGH_REPLICAS: "wait for replicas to come back, or lower min.insync.replicas",
            ErrorCode.MESSAGE_TOO_LARGE: "raise the topic's max.message.bytes, or send smaller records",
            ErrorCode.TOPIC_DELETION_DISABLED: "the broker has delete.topic.enable=false",
            ErrorCode.UNSUPPORTED_VERSION: "the broker is older than this command needs",
            ErrorCode.INVALID_TOPIC_EXCEPTION: "choose another name: at most 249 letters, digits, '.', '_' and '-'",
            ErrorCode.SASL_AUTHENTICATION_FAILED: LOGIN_NEXT,
            ErrorCode.UNSUPPORTED_SASL_MECHANISM: LOGIN_NEXT,
            ErrorCode.SECURITY_DISABLED: "start the brokers with `kavka up --secure`, or with authorizer.class.name in "
            "their files (docs/security.md)",
            ErrorCode.FEATURE_UPDATE_FAILED: "`kavka features describe` shows levels and what is supported",
            ErrorCode.INVALID_UPDATE_VERSION: "`kavka features describe` shows levels and what is supported",
            ErrorCode.GROUP_ID_NOT_FOUND: "`kavka groups list` shows all",
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`kavka transactions list` shows all",
            ErrorCode.TOPIC_AUTHORIZATION_FAILED: DENIED_NEXT,
            ErrorCode.GROUP_AUTHORIZATION_FAILED: DENIED_NEXT,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED: DENIED_NEXT,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: DENIED_NEXT,
        }
        problem = plain_words(str(error))
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if found := re.match(r"topic '([^']+)' (has partitions .*)", problem):
                return Failure(f"topic {found[1]} {found[2]}", f"see `kavka topics describe {found[1]}`")
            if found := re.search(r"(?:topic|configuration of) '([^']+)'", problem):
                problem = f"there is no topic {found[1]}"
            if meant is not None:
                return Failure(problem, f"did you mean {meant}? `kavka topics list` shows all")
        return Failure(problem, steps.get(error.code, ""))
    return Failure(str(error))


def _unreachable(problem: str, bootstrap: str) -> Failure:
    if found := re.search(r"there is no broker \d+", problem):
        return Failure(found[0], "see `kavka brokers`")
    if "closed the connection" in problem:
        return Failure(problem, LISTENER_NEXT)
    if re.search(r"connection to \S+ broke|did not answer", problem):
        # Something listens there: another program, a broker that hangs, or a listener that waits for TLS.
        return Failure(problem, f"is {bootstrap} a Kafka broker's port? {LISTENER_NEXT}")
    return Failure(
        problem, f"is a broker running at {bootstrap}? start one with `kavka up`, or name another with -b HOST:PORT"
    )


class Progress:
    """One line on a terminal's standard error that says how far long work is; silent in its first second, and in pipes.

    `total_bytes` is 0 where nobody knows.
    """

    PAUSE_S = 0.2

    def __init__(self, verb: str, total_bytes: int = 0, *, quiet: bool = False) -> None:
        self._verb = verb
        self._total = total_bytes
        self._began = time.monotonic()
        self._next = self._began + 1.0
        self._shown = False
        self._silent = quiet or not sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def at(self, records: int, size_bytes: int) -> None:
        """Says so if it is time to."""
        now = time.monotonic()
        if self._silent or now < self._next:
            return
        self._next = now + self.PAUSE_S
        self._shown = True
        share = f", {100 * size_bytes // self._total} %" if self._total else ""
        rate = records / (now - self._began)
        line = f"{self._verb} {counted(records, 'record')}, {size_bytes / 1e6:,.1f} MB{share}, {rate:,.0f} records/s"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Takes the line away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
