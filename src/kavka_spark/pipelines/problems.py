"""Problem: an exception of a pipeline as a sentence, with the flow, the file and the line that it is about.

Decides which part of Spark's long messages is shown: the error's class and its first sentences, no Java stack. Where an
exception came out of a definition file, the line is the last one of that file in the traceback; where Spark names a
flow, it is the flow's.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from kavka_spark.pipelines.backfill import BackfillRefused
from kavka_spark.pipelines.definitions import DefinitionProblem, Definitions, Place, shown_path
from kavka_spark.pipelines.progress import short_name
from kavka_spark.pipelines.spec import PipelineSpec, SpecError

LONGEST: Final = 1_200
WRAPPINGS: Final = 5
"""Most exceptions wrapped in each other, each with a name in front."""
_JAVA: Final = re.compile(
    r"\n\s*(JVM stacktrace:|at [\w.$]+\(|Caused by: |== SQL|=== Streaming Query)|;\n['~]?[A-Z]", re.S
)
"""What follows the sentence: stacks, the query, and behind a semicolon the plan."""
_WRAPPED: Final = re.compile(
    r"^\((?:[\w.$]+)\)\s*|^[\w.]*(?:Exception|Error): |^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: "
    r"|^more than \d+ times and will not be restarted\.?\s*"
)
_RAISED_IN_PYTHON: Final = re.compile(
    r"Traceback \(most recent call last\):$.*?^(?:\w+\.)*(\w+: .*?)(?=\n\s*SQLSTATE: |\n=== |\n\s*at |\n\n|\s*\Z)",
    re.M | re.S,
)
"""What follows a traceback: the exception's name without its module, and what it says."""
_RAISED_PLAINLY: Final = re.compile(
    r"\bkavka(?:_spark)?\.(?:\w+\.)*([A-Z]\w*: .*?)(?=\n\s*SQLSTATE: |\n=== |\n\s*at |\n\n|\s*\Z)", re.S
)
"""The same of kavka's own, which have no traceback."""
_NAMED_FLOW: Final = re.compile(r"[Ff]low '?`?([\w.`]+)`?'?")
BROKERS_NEXT: Final = "are the brokers up? -b HOST:PORT, or kavka.bootstrap in pipeline.yml, names others"
DAMAGED_NEXT: Final = (
    "take the file from a backup, or `kavka pipeline run --full-refresh TABLE` starts again from nothing"
)
_NEXT: Final = (
    ("TABLE_OR_VIEW_NOT_FOUND", "define a table of that name, or spell it as it is defined"),
    (
        "Unsupported destination",
        "no table and no sink has the name that the flow's target names: define it, or spell it as it is defined",
    ),
    ("UNRESOLVED_COLUMN", "the message lists the columns that exist"),
    ("LOCATION_ALREADY_EXISTS", "the storage has another pipeline's files: give this one its own storage"),
    ("DATA_SOURCE_NOT_FOUND", 'is the format installed? `kavka spark doctor` checks it for "kavka"'),
    ("STREAMING_RUN_NEWER_CONCURRENT_UPDATE", "another run of this pipeline is under way"),
    ("INCOMPATIBLE_TABLE_CHANGE", "`kavka pipeline run --full-refresh TABLE` computes it again from the start"),
    ("MALFORMED_LOG_FILE", DAMAGED_NEXT),
    ("Failed to read log file", DAMAGED_NEXT),
    ("StreamingQuery checkpoint", "`kavka pipeline run --full-refresh TABLE` starts again from nothing"),
    (
        "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION",
        "call it at the top of the file and let the flow return what it made: applyInPandas, mapInPandas and "
        "transformWithState ask for columns, and types as text are parsed, by Spark",
    ),
    (
        "Python worker failed to connect back",
        "Spark gives a Python ten seconds to start, and the machine was too busy, or cannot start one: run it again, "
        "or ask `kavka spark doctor`",
    ),
    (
        "CAST_INVALID_INPUT",
        "a record does not fit a cast: with try_cast it is NULL, which an expectation drops or quarantines (@expect)",
    ),
    ("JAVA_GATEWAY_EXITED", "is there a Java that Spark can use? `kavka spark doctor` checks it"),
    ("Cannot run program", "do the workers have a Python? `kavka spark doctor` checks PYSPARK_PYTHON"),
    ("ConnectionFailed", BROKERS_NEXT),
    ("UnreachableError", BROKERS_NEXT),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, and where. A part that is unknown is empty; an unknown `line` is 0."""

    problem: str
    next_step: str = ""
    flow: str = ""
    file: str = ""
    line: int = 0

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    @property
    def sentence(self) -> str:
        flow = f"flow {self.flow}" if self.flow else ""
        place = f"{self.file}:{self.line}" if self.line else self.file
        about = ", ".join(part for part in (flow, place) if part)
        return f"{about}: {self.problem}" if about else self.problem


def problem_of(
    error: BaseException, spec: PipelineSpec, definitions: Definitions | None = None, flow: str = ""
) -> Problem:
    """The problem behind an exception. `flow` is the flow that was running."""
    text = plain(str(error)) or type(error).__name__
    if isinstance(error, SpecError):
        return Problem(text, error.next_step)
    if isinstance(error, BackfillRefused):
        return Problem(text, "", flow)
    if isinstance(error, DefinitionProblem):
        return Problem(text, "", flow, shown_path(error.place.file, spec.root), error.place.line)
    place = _place_in_traceback(error, spec)
    if place is None and definitions is not None:
        flow = flow or named_flow(str(error), definitions)
        place = definitions.place_of(flow)
    name = "" if _is_sparks(error) else f"{type(error).__name__}: "
    return told(text, spec, place, flow, name=name)


def told(text: str, spec: PipelineSpec, place: Place | None, flow: str = "", *, name: str = "") -> Problem:
    """A problem from a text of Spark's, or from one that begins with an exception's name."""
    file = shown_path(place.file, spec.root) if place is not None else ""
    next_step = next((step for sign, step in _NEXT if sign in name + text), "")
    return Problem(name + plain(text), next_step, flow, file, place.line if place is not None else 0)


def named_flow(text: str, definitions: Definitions) -> str:
    """The flow that a message of Spark's names; empty if it names no known flow."""
    for match in _NAMED_FLOW.finditer(text):
        name = short_name(match[1].replace("`", "").rstrip("."))
        for known in (name, name.rpartition(".")[2]):
            if known in definitions.places:
                return known
    return ""


def plain(text: str) -> str:
    """The Python exception if there was one, or else the message without Java's stack; no longer than a screen."""
    raised = _RAISED_IN_PYTHON.findall(text) or _RAISED_PLAINLY.findall(text)
    cut = _JAVA.search(text)
    short = text[: cut.start()] if cut is not None else text
    for _ in range(WRAPPINGS):
        short = _WRAPPED.sub("", short.strip())
    if raised:
        short = raised[-1]  # Those before it are its causes.
    return short if len(short) <= LONGEST else f"{short[:LONGEST]} ..."


def _is_sparks(error: BaseException) -> bool:
    return type(error).__module__.startswith("pyspark.")


def _place_in_traceback(error: BaseException, spec: PipelineSpec) -> Place | None:
    """The last line of a definition file that the exception came through."""
    files = {str(path.resolve()): path for path in _definition_files(spec)}
    if isinstance(error, SyntaxError) and error.filename and str(Path(error.filename).resolve()) in files:
        return Place(error.filename, error.lineno or 0)
    found = [
        frame for frame in traceback.extract_tb(error.__traceback__) if str(Path(frame.filename).resolve()) in files
    ]
    return Place(found[-1].filename, found[-1].lineno or 0) if found else None


def _definition_files(spec: PipelineSpec) -> list[Path]:
    try:
        return spec.files()
    except SpecError:
        return []
