"""What a pipeline's run shows while it goes on and at its end, and what is known of earlier runs.

Decides form only: on a terminal a table with a bar for each flow, on standard error, rewritten as figures come; at the
end of each run a table on standard output. With --json each event as it stands in the journal.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from kavka.cli.output import Failure, Table, console, counted, json_text, note, show, show_json

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from kavka_spark.pipelines.order import Order
    from kavka_spark.pipelines.spec import PipelineSpec

HEADINGS = ("flow", "rows in", "rows out", "lag", "seconds", "state")
PROGRESS_S = 10.0
"""How often a long session says how it stands where there is no terminal."""
SHOWN_RUNS = 10
BAR = 20


class Run:
    """What the events of one run told."""

    def __init__(self) -> None:
        self.number = 0
        self.flows: dict[str, dict[str, Any]] = {}
        self.states: dict[str, str] = {}
        self.last_broken: dict[tuple[str, str], tuple[int, int]] = {}
        """By flow and expectation: the last micro-batch with rows that broke it, and how many."""
        self.outcome = ""
        self.seconds = 0.0
        self.began_at = 0.0

    def take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "run began":
                self.flows, self.states, self.outcome = {}, {}, ""
                self.last_broken = {}
                self.number, self.began_at = event["run"], event["at"]
            case "flow":
                self.states[event["flow"]] = event["state"]
            case "progress":
                self.flows[event["flow"]] = event
            case "checked":
                for column, count in event["broken"].items():
                    self.last_broken[event["flow"], column] = event["batch"], count
            case "run ended":
                self.outcome, self.seconds = event["outcome"], event["seconds"]

    def names(self) -> list[str]:
        return list(dict.fromkeys((*self.states, *self.flows)))

    def cells(self, flow: str) -> list[str]:
        """As under HEADINGS."""
        figures = self.flows.get(flow, {})
        numbers = [_number(figures.get(name)) for name in ("rows_in", "rows_out", "lag")]
        seconds = f"{figures['seconds']:.1f}" if "seconds" in figures else ""
        return [flow, *numbers, seconds, self.states.get(flow, "")]

    def share(self, flow: str) -> float | None:
        """How much of what there was is done; None where nobody knows."""
        if self.states.get(flow) == "completed":
            return 1.0
        figures = self.flows.get(flow)
        if figures is None or figures.get("lag") is None:
            return None
        whole = figures["rows_in"] + figures["lag"]
        return figures["rows_in"] / whole if whole else 1.0


class Teller:
    """Takes the events of a runner, one by one, and shows them. `problem` and its next step, where there was one."""

    def __init__(self, spec: PipelineSpec, order: Order, *, as_json: bool, quiet: bool) -> None:
        self.problem: tuple[str, str] | None = None
        self._spec = spec
        self._order = order
        self._as_json = as_json
        self._quiet = quiet
        self._run = Run()
        self._phase = "Spark starts"
        self._warned_of: set[str] = set()
        self._began = time.monotonic()
        self._noted_at = self._began
        self._live: Live | None = None
        if sys.stderr.isatty() and not quiet and not as_json:
            from rich.live import Live

            self._live = Live(console=console(sys.stderr), get_renderable=self._picture, refresh_per_second=4)
            self._live.start()

    def take(self, event: dict[str, Any] | None) -> None:
        """Shows an event; None: nothing happened for a moment."""
        if event is None:
            self._remark()
            return
        if self._as_json:
            print(json_text(event), flush=True)
        self._run.take(event)
        match event["event"]:
            case "note" if event.get("is_warning"):
                if event["text"] not in self._warned_of:
                    self.complain(event["text"])
                self._warned_of.add(event["text"])
            case "note":
                self._phase = event["text"]
            case "session":
                self._phase = f"Spark {event['spark']} after {event['seconds']:.1f} s"
            case "defined":
                self._phase = counted(len(event["flows"]), "flow")
                if self._order.mode == "check":
                    self._show_definitions(event["flows"])
            case "run began":
                self.problem = None
            case "problem":
                self._on_problem(event)
            case "run ended":
                self._on_run_ended()

    def complain(self, text: str) -> None:
        """Says a sentence on standard error."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            note(text)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _on_problem(self, event: dict[str, Any]) -> None:
        from kavka_spark.pipelines.problems import Problem

        fields = {name: event[name] for name in ("problem", "next_step", "flow", "file", "line") if name in event}
        problem = Problem(**fields)
        self.problem = (problem.sentence, problem.next_step or "Spark's own words: `kavka pipeline status`")
        if self._order.every_s is not None and not self._as_json:
            note(f"Run {self._run.number} failed: {problem.sentence}")

    def _on_run_ended(self) -> None:
        if self._as_json:
            return
        if self._order.mode == "check":
            if self.problem is None:
                print(f"{self._spec.name} is well: it would run.")
            return
        if self.problem is not None and not self._run.names():
            return  # It came to no flow: the problem is all there is to say.
        table = Table(HEADINGS, HEADINGS[1:5], title=f"{self._spec.name}, run {self._run.number}: {self._run.outcome}")
        for flow in self._run.names():
            table.add(*self._run.cells(flow))
        if self._live is not None:
            self._live.update(self._picture())
        show(table)
        if self._order.backfill is not None:
            self._show_filled_in(self._order.backfill[0])
        print(f"{self._run.seconds:.1f} s", flush=True)

    def _show_filled_in(self, flow: str) -> None:
        """What of the topic has been filled in by now."""
        table = Table(
            ["partition", "from", "to before", "read"], ["from", "to before", "read"], title=f"{flow}, filled in"
        )
        for topic, partitions in self._run.flows.get(flow, {}).get("filled_in", {}).items():
            for partition, ranges in partitions.items():
                for first, end, at in ranges:
                    table.add(f"{topic}-{partition}", _number(first), _number(end), _number(at - first))
        if table.rows:
            show(table)
        elif self.problem is None:
            print(f"{flow} had nothing to fill in.")

    def _show_definitions(self, flows: list[dict[str, Any]]) -> None:
        if self._as_json:
            return
        table = Table(["flow", "kind", "target", "where"])
        for each in flows:
            table.add(each["flow"], each["kind"], each["target"], f"{each['file']}:{each['line']}")
        show(table)

    def _remark(self) -> None:
        """Of a long session, where there is no terminal."""
        now = time.monotonic()
        if self._live is not None or self._quiet or self._as_json or now - self._noted_at < PROGRESS_S:
            return
        self._noted_at = now
        flows = [
            f"{flow} {_number(figures.get('rows_in'))} in, {_number(figures.get('rows_out')) or '?'} out"
            + (f", {figures['lag']:,} behind" if figures.get("lag") is not None else "")
            for flow, figures in self._run.flows.items()
        ]
        note(f"{now - self._began:.0f} s: {'; '.join(flows) or self._phase}")

    def _picture(self) -> RenderableType:
        from rich.table import Table as RichTable
        from rich.text import Text

        title = f"{self._spec.name}: {self._phase}, {time.monotonic() - self._began:.0f} s"
        shown = RichTable(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
        for heading in ("flow", "", *HEADINGS[1:]):
            shown.add_column(heading, justify="left" if heading in ("flow", "", "state") else "right")
        for flow in self._run.names():
            first, *rest = self._run.cells(flow)
            shown.add_row(Text(first), bar(self._run.share(flow)), *(Text(cell) for cell in rest))
        return shown


def bar(share: float | None) -> str:
    """Twenty places of a bar; empty where nobody knows."""
    if share is None:
        return ""
    full = int(share * BAR)
    return "━" * full + "╌" * (BAR - full)


def show_status(spec: PipelineSpec, *, as_json: bool) -> None:
    """The last runs, and the flows of the last one. Raises Failure where there is none."""
    from kavka_spark.pipelines.journal import JournalReader, journals, log_path
    from kavka_spark.pipelines.runner import is_running

    paths = journals(spec.state)
    if not paths:
        raise Failure(f"{spec.name} has never run", f"kavka pipeline run {spec.root}")
    told = [(path, *_summary(list(JournalReader(path).read()))) for path in paths[:SHOWN_RUNS]]
    running = is_running(spec.state)
    if as_json:
        entries = [
            {
                "journal": str(path),
                "mode": mode,
                "began_at": began_at,
                "outcome": outcome,
                "problem": problem,
                "flows": [run.flows[flow] for flow in run.flows],
            }
            for path, mode, began_at, outcome, problem, run in told
        ]
        show_json({"pipeline": spec.name, "running": running, "runs": entries})
        return
    table = Table(["began", "mode", "outcome", "flows", "what"], ["flows"], title=f"{spec.name}: {spec.storage}")
    for _, mode, began_at, outcome, problem, run in told:
        table.add(
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began_at)),
            mode,
            outcome,
            _number(len(run.names())),
            problem.splitlines()[0][:100] if problem else "",
        )
    show(table)
    path, *_, run = told[0]
    flows = Table(HEADINGS, HEADINGS[1:5], title="flows of the last run")
    for flow in run.names():
        flows.add(*run.cells(flow))
    print()
    show(flows)
    _show_expectations(run)
    print(f"\nIt is {'running' if running else 'not running'}. Spark's own words: {log_path(path)}")


def _show_expectations(run: Run) -> None:
    """How many rows broke which expectation, and in which micro-batch last. Nothing where there are none."""
    headings = ("flow", "expectation", "otherwise", "rows", "broken", "last batch", "broken in it")
    table = Table(headings, headings[3:], title="expectations of the last run")
    for flow, figures in run.flows.items():
        for each in figures.get("expectations", ()):
            batch, broken = run.last_broken.get((flow, f"{each['otherwise']}: {each['expectation']}"), (None, None))
            table.add(
                flow,
                each["expectation"],
                each["otherwise"],
                *(_number(number) for number in (figures["checked"], each["broken"], batch, broken)),
            )
    if table.rows:
        print()
        show(table)


def _summary(events: list[dict[str, Any]]) -> tuple[str, float, str, str, Run]:
    """mode, when it began, outcome, problem, and the last run of it."""
    run, mode, began_at, problem, outcome = Run(), "", 0.0, "", "ended without a word"
    for event in events:
        run.take(event)
        match event["event"]:
            case "began":
                mode, began_at = event["mode"], event["at"]
            case "problem":
                problem = event["problem"]
            case "run began":
                problem, outcome = "", "under way or killed"
            case "run ended":
                outcome = event["outcome"]
    return mode, began_at, outcome, problem, run


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""
