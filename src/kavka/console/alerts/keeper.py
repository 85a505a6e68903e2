"""AlertKeeper: looks at the clusters every few seconds, and has sent what is due.

Decides how often, and how often again after a failure. Must not know what a rule means (alert_rules), nor when
something is due (book).

I1  At most one delivery of an alert is under way, OF_ONE_TARGET to a target, and MOST_AT_ONCE of all; each target is
    tried MOST_TRIES times, later and later. So a receiver that takes a connection and says nothing does not have those
    wait who would answer.
I2  What is not so any more is not tried again: its end, or the next beginning, is told at once. A receiver gets them
    in their order.
I3  A receiver that does not answer does not hold up the console: deliveries are tasks, in threads of their own.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.console.alert_rules import AlertRule, Seen, Target, conditions
from kavka.console.alerts.book import AlertBook, Notice
from kavka.console.alerts.senders import Told, link_of, send
from kavka.logger import Logger
from kavka.observe.snapshot import ClusterState
from kavka.runtime.http.webhooks import NotDelivered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kavka.console.clusters import Clusters, ClusterWatch
    from kavka.decisions import RecordedDecision

LOOK_S: Final = 2.0
MOST_TRIES: Final = 5
FIRST_PAUSE_S: Final = 5.0
"""Before the second try; each further one is three times as long."""
MOST_AT_ONCE: Final = 8
OF_ONE_TARGET: Final = 1
MOST_DECISIONS: Final = 200
"""Of one look: more at once are not told one by one."""
logger = Logger(__name__)


class Delivery(NamedTuple):
    """How the last delivery to a target came out; why: '' where it was taken."""

    at_ms: int
    subject: str
    why: str


class _Telling:
    """A notice that is being told."""

    def __init__(self, notice: Notice) -> None:
        self.notice = notice
        self.is_past = asyncio.Event()
        """Set when it does not hold any more."""
        self.task: asyncio.Task[None] | None = None


class AlertKeeper:
    """`start` and `stop` in the event loop that serves the pages."""

    def __init__(
        self, rules: Sequence[AlertRule], book: AlertBook, clusters: Clusters, now_ms: Callable[[], int]
    ) -> None:
        self.rules = {rule.name: rule for rule in rules}
        self.book = book
        self.last: dict[tuple[str, str], Delivery] = {}
        """By rule and target."""
        self._clusters = clusters
        self._now_ms = now_ms
        self._decisions: dict[str, tuple[int, int]] = {}
        """By cluster: when it was first looked at, and how many decisions had been read at the last look."""
        self._under_way: dict[tuple[str, ...], _Telling] = {}
        self._late: set[asyncio.Task[None]] = set()
        """Deliveries that nobody waits for any more."""
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="alerts")
        self._turns: dict[Target, asyncio.Semaphore] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.book.keep_rules(self.rules.values())
        if self.rules:
            self._task = asyncio.create_task(self._run(), name="alerts")

    async def stop(self) -> None:
        tasks = [each.task for each in self._under_way.values() if each.task is not None]
        tasks += [*self._late, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def of(self, cluster: str) -> list[AlertRule]:
        """The rules that are about a cluster."""
        from fnmatch import fnmatchcase

        return [rule for rule in self.rules.values() if fnmatchcase(cluster, rule.cluster)]

    async def test(self, rule: AlertRule, cluster: str) -> None:
        """Sends a test to each target of a rule, once; `last` has how it came out."""
        text = "This is a test from kavka's console. Nothing is wrong."
        told = Told(
            "test", rule.name, cluster, "test", "info", text, self._now_ms(), link_of(rule.console, cluster, "")
        )
        await asyncio.gather(*(self._deliver(rule, target, told, tries=1) for target in rule.targets))

    async def _run(self) -> None:
        while True:
            for watch in self._clusters:
                try:
                    self._look(watch)
                except Exception as failed:  # noqa: BLE001  # a boundary between clusters: the others go on
                    logger.error("alerts failed", cluster=watch.name, error=repr(failed), next="report this bug")
            for telling in self._under_way.values():
                if not self.book.holds(telling.notice):
                    telling.is_past.set()
            for notice in self.book.due(self.rules, self._now_ms()):
                key = notice.alert[:3]
                if key not in self._under_way:
                    telling = self._under_way[key] = _Telling(notice)
                    telling.task = asyncio.create_task(self._tell(telling))
                    telling.task.add_done_callback(lambda _done, key=key: self._under_way.pop(key, None))  # type: ignore[misc]
            await asyncio.sleep(LOOK_S)

    def _look(self, watch: ClusterWatch) -> None:
        rules = self.of(watch.name)
        snapshot = watch.snapshot
        if not rules or not snapshot.at_ms:
            return
        is_reachable = snapshot.state is ClusterState.REACHABLE
        seen = Seen(
            is_reachable,
            snapshot.why,
            watch.health if is_reachable else None,
            tuple(snapshot.groups.values()),
            self._new_decisions(watch),
        )
        for rule in rules:
            self.book.take(rule, watch.name, conditions(rule, seen), self._now_ms(), is_known=is_reachable)

    def _new_decisions(self, watch: ClusterWatch) -> Sequence[RecordedDecision]:
        """Those that were read since the last look; what was decided before the first look is history."""
        began_ms, count = self._decisions.setdefault(watch.name, (self._now_ms(), watch.decisions.count))
        found = [each for each in watch.decisions.read_since(count) if each.decision.at_ms >= began_ms]
        self._decisions[watch.name] = began_ms, watch.decisions.count
        return found[-MOST_DECISIONS:]

    async def _tell(self, telling: _Telling) -> None:
        notice = telling.notice
        alert, rule = notice.alert, self.rules[notice.alert.rule]
        told = Told(
            notice.status,
            rule.name,
            alert.cluster,
            alert.key,
            alert.severity,
            alert.text,
            alert.since_ms,
            link_of(rule.console, alert.cluster, alert.path),
        )
        waiting = {
            asyncio.create_task(self._deliver(rule, target, told, tries=MOST_TRIES, is_past=telling.is_past))
            for target in rule.targets
        }
        self._late |= waiting
        for each in waiting:
            each.add_done_callback(self._late.discard)
        past = asyncio.create_task(telling.is_past.wait())
        try:
            while waiting and not past.done():
                done, _ = await asyncio.wait({*waiting, past}, return_when=asyncio.FIRST_COMPLETED)
                waiting -= done
        finally:
            past.cancel()
        self.book.told(notice, self._now_ms())

    async def _deliver(
        self, rule: AlertRule, target: Target, told: Told, *, tries: int, is_past: asyncio.Event | None = None
    ) -> None:
        """`is_past`: set when it is not to be tried again."""
        pause_s = FIRST_PAUSE_S
        is_past = asyncio.Event() if is_past is None else is_past
        for attempt in range(1, tries + 1):
            why = ""
            try:
                async with self._turns.setdefault(target, asyncio.Semaphore(OF_ONE_TARGET)):
                    await asyncio.get_running_loop().run_in_executor(self._threads, send, target, told)
            except NotDelivered as failed:
                why = str(failed) or "it was not taken"
            except Exception as failed:  # noqa: BLE001  # a boundary between targets: the others would be told again
                why = repr(failed)
            self.last[rule.name, target.label] = Delivery(self._now_ms(), told.subject, why)
            if not why:
                return
            logger.warning("alert not delivered", rule=rule.name, to=target.label, attempt=attempt, why=why)
            if attempt < tries:
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_past.wait(), pause_s)
                    return
                pause_s *= 3
        logger.error("alert given up", rule=rule.name, to=target.label, next="test the rule on the page Alerts")
