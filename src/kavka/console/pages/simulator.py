"""The pages of the simulator: ask for a run, watch it end, step through it, compare lag policies.

Behaviour: POST /simulator/runs begins one of four kinds (scenario, seed, lag policies, lag policies on what this
cluster recorded) and leads to its page. The run's own page is served into a frame that may run scripts and nothing
else: it has no origin, so it cannot read anything of the console's. Each page is there with a cluster's frame around
it (/c/{cluster}/simulator) and without.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route

from kavka.console.access.route_rights import sees_all
from kavka.console.look.format import path_part
from kavka.console.look.history_charts import MOST_LOOKED_AT
from kavka.console.sources.simulations import MAX_BROKERS, MAX_MINUTES, MAX_SEED, Busy, Run, Simulations
from kavka.decisions import DecisionKind, encode_decision

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console

RUN_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "sandbox allow-scripts; frame-ancestors 'self'"
)
SHOWN_FIGURES: Final = (
    "events_checked",
    "faults",
    "acknowledged",
    "leader_elections",
    "isr_shrinks",
    "isr_expansions",
    "logs_cut_back",
)


def routes(console: Console) -> list[Route]:
    runs = Simulations()
    console.on_stop.append(runs.stop)
    pages = _Pages(console, runs)
    found = []
    for place in ("", "/c/{cluster}"):
        found += [
            Route(f"{place}/simulator", pages.start_page, methods=["GET"]),
            Route(f"{place}/simulator/runs", pages.begin, methods=["POST"]),
            Route(f"{place}/simulator/runs/{{run}}", pages.run_page, methods=["GET"]),
            Route(f"{place}/simulator/runs/{{run}}/page", pages.run_content, methods=["GET"]),
        ]
    return found


class _Pages:
    def __init__(self, console: Console, runs: Simulations) -> None:
        self._console = console
        self._runs = runs

    async def start_page(self, request: Request) -> Response:
        watch = self._cluster(request)
        return self._show(
            request,
            "simulator.html",
            scenarios=await self._runs.scenarios(),
            runs=[run for run in self._runs.runs if _is_shown(request, run)],
            is_busy=self._runs.is_busy,
            max_minutes=MAX_MINUTES,
            max_brokers=MAX_BROKERS,
            max_seed=MAX_SEED,
            playground=bool(self._console.settings.playground),
            recorded=sum(1 for _each in _isr_decisions(watch)) if watch is not None else 0,
        )

    async def begin(self, request: Request) -> Response:
        form = await request.form()
        await self._runs.scenarios()
        try:
            run = self._start(request, {name: str(value) for name, value in form.items()})
        except Busy as busy:
            raise HTTPException(409, str(busy)) from busy
        except ValueError as problem:
            raise HTTPException(400, str(problem)) from problem
        return RedirectResponse(f"{self._place(request)}/runs/{run.run_id}", 303)

    def _start(self, request: Request, form: dict[str, str]) -> Run:
        """Raises Busy; ValueError where a number is none, or out of bounds."""
        seed = int(form.get("seed") or "1")
        match form.get("kind"):
            case "scenario":
                return self._runs.start_scenario(form.get("scenario", ""), seed)
            case "seed":
                brokers = form.get("brokers", "")
                return self._runs.start_seed(seed, int(form.get("minutes") or "2"), int(brokers) if brokers else None)
            case "policies":
                return self._runs.start_lag_policies(seed, int(form.get("minutes") or "2"))
            case "recorded":
                watch = self._cluster(request)
                decisions = _isr_decisions(watch) if watch is not None else []
                if watch is None or not decisions:
                    raise ValueError("this cluster has recorded no change of an ISR")
                return self._runs.start_lag_policies_of(watch.name, decisions)
        raise ValueError("no such kind of run")

    async def run_page(self, request: Request) -> Response:
        run = self._run(request)
        figures = [(name, run.figures[name]) for name in SHOWN_FIGURES if name in run.figures]
        return self._show(request, "simulator_run.html", run=run, figures=figures)

    async def run_content(self, request: Request) -> Response:
        page = self._runs.page_of(self._run(request))
        if page is None:
            raise HTTPException(404, "This run has no page.")
        text = await asyncio.to_thread(page.read_text, encoding="utf-8")
        return HTMLResponse(text, headers={"content-security-policy": RUN_POLICY, "cache-control": "no-store"})

    def _run(self, request: Request) -> Run:
        run = self._runs.get(request.path_params["run"])
        if run is None or not _is_shown(request, run):
            raise HTTPException(404, "There is no such run; the console keeps the latest, until it stops.")
        return run

    def _cluster(self, request: Request) -> ClusterWatch | None:
        return self._console.cluster(request) if "cluster" in request.path_params else None

    def _place(self, request: Request) -> str:
        watch = self._cluster(request)
        return "/simulator" if watch is None else f"/c/{path_part(watch.name)}/simulator"

    def _show(self, request: Request, template: str, **context: Any) -> Response:
        watch = self._cluster(request)
        known: dict[str, Any] = {"section": "simulator", "cluster": watch, "place": self._place(request)}
        return self._console.render(request, template, **known, **context)


def _is_shown(request: Request, run: Run) -> bool:
    """A run on what a cluster recorded is for those who see that."""
    return not run.cluster or sees_all(request, run.cluster)


def _isr_decisions(watch: ClusterWatch) -> list[bytes]:
    """As lines of JSON, the oldest first."""
    kinds = (DecisionKind.ISR_SHRUNK, DecisionKind.ISR_EXPANDED)
    found = watch.decisions.recent(limit=MOST_LOOKED_AT, matches=lambda each: each.decision.kind in kinds)
    return [encode_decision(each) for each in reversed(found)]
