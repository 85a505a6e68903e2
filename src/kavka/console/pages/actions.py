"""The pages that every action goes through: form, preview, outcome.

Decides the order of things (console/actions/action.py) as pages. Must not know what an action does.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route

from kavka.console.access.audit import AlreadyDone, AuditRecord, Entry
from kavka.console.access.guard import MOST_FIELDS, address_of
from kavka.console.access.route_rights import check_topics, reads_values, rights_of, sees_all
from kavka.console.actions.acls import AddAcl, RemoveAcl
from kavka.console.actions.action import LONGEST_FIELD, Action, ActionRefused, Field, Preview, Values, carry_out
from kavka.console.actions.connectors import CommandConnector
from kavka.console.actions.groups import DeleteGroup, ResetOffsets
from kavka.console.actions.one_setting import SetConfig
from kavka.console.actions.produce import Produce
from kavka.console.actions.quotas import SetQuota
from kavka.console.actions.replay import Replay
from kavka.console.actions.topics import AddPartitions, AlterConfig, CreateTopic, DeleteRecords, DeleteTopic
from kavka.console.actions.users import RemoveUser, SetUser
from kavka.console.look.format import path_part, visible, zone_name_of
from kavka.console.rights import role_named
from kavka.errors import ConnectionFailed
from kavka.observe.snapshot import ClusterState

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import ClusterWatch
    from kavka.console.console import Console

ACTIONS: tuple[Action, ...] = (
    CreateTopic(),
    AlterConfig(),
    SetConfig(),
    AddPartitions(),
    DeleteTopic(),
    DeleteRecords(),
    Produce(),
    ResetOffsets(),
    DeleteGroup(),
    AddAcl(),
    RemoveAcl(),
    SetUser(),
    RemoveUser(),
    SetQuota(),
    CommandConnector(),
)
MOST_SUGGESTED = 500
"""Names that a form offers for one field."""
OWN_FIELDS = ("csrf", "step", "confirmation", "fingerprint", "shown_ms", "typed")


def install(console: Console) -> None:
    console.templates.globals.update(action_title=_title)


def routes(console: Console) -> list[Route]:
    found = []
    for action in ACTIONS:
        pages = ActionPages(console, action)
        path = f"/c/{{cluster}}/do/{action.name}"
        found += [Route(path, pages.form, methods=["GET"]), Route(path, pages.submitted, methods=["POST"])]

    async def done(request: Request) -> Response:
        watch = console.cluster(request)
        entry = console.guard.audit.find(request.path_params["number"])
        is_theirs = entry is not None and entry.user == request.state.user.name
        if entry is None or entry.cluster != watch.name or not (is_theirs or sees_all(request, watch.name)):
            raise HTTPException(404, "There is no such action.")
        link = request.query_params.get("then", "")
        if not link.startswith(f"/c/{path_part(watch.name)}/"):
            link = ""
        shown = entry_for(console, request, entry)
        return console.show(request, "audit_entry.html", section=None, entry=shown, link=link, live=False)

    return [*found, Route("/c/{cluster}/done/{number:int}", done)]


def _title(name: str) -> str:
    """What an entry of the audit log was, in words."""
    if name == Replay.name:
        return Replay.title
    return next((action.title for action in ACTIONS if action.name == name), name)


def entry_for(console: Console, request: Request, entry: Entry) -> Entry:
    """The entry as who asks may see it: about a record that another wrote only with the right to read all of that
    topic's messages. (What was in a record is in no entry, but in those of former versions.)"""
    if entry.action != Produce.name or entry.user == request.state.user.name:
        return entry
    topic = entry.target.removeprefix("topic ")
    if reads_values(request, entry.cluster, topic) and console.mask_for(request, entry.cluster, topic) is None:
        return entry
    return entry._replace(wanted="a record, about which you are not told more")


def check_writable(watch: ClusterWatch) -> None:
    """Raises HTTPException where nobody may change this cluster."""
    if watch.settings.read_only:
        raise HTTPException(403, f"{watch.name} is read-only: the console's settings allow no changes to it.")


def check_reachable(watch: ClusterWatch) -> None:
    """Raises ConnectionFailed, without a wait, where the cluster did not answer the console's last look."""
    if watch.snapshot.state is not ClusterState.REACHABLE:
        raise ConnectionFailed(watch.snapshot.why or "it was not reached yet")


async def form_values(request: Request) -> dict[str, str]:
    """The fields of a form, bounded."""
    form = await request.form(max_fields=MOST_FIELDS, max_part_size=LONGEST_FIELD)
    return {name: value[:LONGEST_FIELD] for name, value in form.multi_items() if isinstance(value, str)}


class ActionPages:
    """The pages of one action."""

    def __init__(self, console: Console, action: Action) -> None:
        self._console = console
        self._action = action

    async def form(self, request: Request, values: Values | None = None) -> Response:
        """`values`: what the form is filled with, by default the address's."""
        watch = self._console.cluster(request)
        values = dict(request.query_params) if values is None else values
        self._check_topics(request, values)
        check_writable(watch)
        check_reachable(watch)
        return await self._form(request, watch, values)

    async def submitted(self, request: Request) -> Response:
        watch = self._console.cluster(request)
        said = await form_values(request)
        values = {name: value for name, value in said.items() if name not in OWN_FIELDS}
        self._check_topics(request, values)
        check_writable(watch)
        check_reachable(watch)
        if said.get("step") == "back":
            return await self._form(request, watch, values)
        try:
            preview = await self._action.preview(watch, values)
        except ActionRefused as refused:
            known = self._console.guard.audit
            key = said.get("confirmation", "")
            done = known.with_key(key) if said.get("step") == "run" and key else None
            if done is not None:
                return self._done(watch, done.number, values)
            return await self._form(request, watch, values, problem=str(refused), status=400)
        if said.get("step") != "run":
            return self._preview(request, watch, values, preview)
        return await self._run(request, watch, values, preview, said)

    def _check_topics(self, request: Request, values: Values) -> None:
        """Raises HTTPException where the right does not reach what the form names."""
        check_topics(request, role_named(self._action.role), self._action.topics(values))

    async def _run(
        self, request: Request, watch: ClusterWatch, values: Values, preview: Preview, said: Values
    ) -> Response:
        guard = self._console.guard
        key = said.get("confirmation", "")
        done = guard.audit.with_key(key) if key else None
        if done is not None:
            return self._done(watch, done.number, values)
        if not key or len(key) > 100 or said.get("fingerprint") != preview.fingerprint:
            return self._preview(request, watch, values, preview, changed_since=said.get("shown_ms", "0"))
        if preview.type_name and said.get("typed", "").strip() != preview.type_name:
            problem = "The name you typed does not match. Nothing was done."
            return self._preview(request, watch, values, preview, problem=problem)
        user = request.state.user
        undo = ("# to undo it:", *preview.undo) if preview.undo else ()
        command = "\n".join((*preview.commands, *undo))
        record = AuditRecord(
            key,
            user.name,
            address_of(request),
            watch.name,
            self._action.name,
            preview.target,
            preview.before,
            preview.wanted,
            command,
        )
        try:
            number = guard.audit.begin(record, guard.now_ms())
        except AlreadyDone as again:
            return self._done(watch, again.entry.number, values)
        result = await carry_out(self._action, watch, values)
        guard.audit.end(number, result.outcome, guard.now_ms(), after=result.after, remark=result.remark)
        watch.refresh()
        return self._done(watch, number, values)

    def _done(self, watch: ClusterWatch, number: int, values: Values) -> Response:
        from urllib.parse import quote

        base = f"/c/{path_part(watch.name)}"
        then = quote(self._action.link(base, values), safe="")
        return RedirectResponse(f"{base}/done/{number}?then={then}", 303)

    async def _form(
        self, request: Request, watch: ClusterWatch, values: Values, *, problem: str = "", status: int = 200
    ) -> Response:
        values = {**values, "zone": zone_name_of(request)}  # the zone of the times that this page shows
        try:
            fields = await self._action.fields(watch, values)
        except ActionRefused as refused:
            fields, problem, status = (), problem or str(refused), 400
        return self._console.show(
            request,
            "action_form.html",
            section=self._action.section,
            status_code=status,
            action=self._action,
            fields=fields,
            values=values,
            problem=visible(problem),
            suggested=self._suggested(request, watch, fields),
            is_shown_at_once=self._is_shown_at_once(request, watch, fields),
            live=False,
        )

    def _suggested(self, request: Request, watch: ClusterWatch, fields: Sequence[Field]) -> dict[str, Sequence[str]]:
        """Names that the form offers, by its fields; of topics only those that the operator may change."""
        rights, role, seen = rights_of(request), role_named(self._action.role), watch.snapshot
        known: dict[str, Callable[[Field], Iterable[str]]] = {
            "topics": lambda _: (each for each in seen.topics if rights.on_topic(watch.name, each, role)),
            "groups": lambda _: sorted(seen.groups),
            "brokers": lambda _: (*map(str, sorted(each.broker_id for each in seen.alive_brokers)), "all"),
            "settings": lambda field: field.choices,
        }
        return {
            field.name: [visible(name) for name in islice(known[field.suggests](field), MOST_SUGGESTED)]
            for field in fields
            if field.suggests
        }

    def _is_shown_at_once(self, request: Request, watch: ClusterWatch, fields: Sequence[Field]) -> bool:
        """Whether a script may show the preview below the form while it is filled in.

        Not for what costs much, nor for a password, which is sent when its form is; nor for those who may change some
        topics only: half a name is another topic's, and each refusal stands in the audit log."""
        if not self._action.is_cheap or any(field.kind == "secret" for field in fields):
            return False
        return rights_of(request).on_all_topics(watch.name, role_named(self._action.role))

    def _preview(
        self,
        request: Request,
        watch: ClusterWatch,
        values: Values,
        preview: Preview,
        *,
        problem: str = "",
        changed_since: str = "",
    ) -> Response:
        guard = self._console.guard
        meanwhile = []
        if changed_since.isdecimal() and len(changed_since) < 18:
            meanwhile = guard.audit.since(watch.name, preview.target, int(changed_since))
        return self._console.show(
            request,
            "action_preview.html",
            section=self._action.section,
            status_code=409 if changed_since else 200,
            action=self._action,
            values=values,
            preview=preview,
            problem=problem,
            is_changed=bool(changed_since),
            meanwhile=meanwhile,
            key=secrets.token_urlsafe(18),
            shown_ms=guard.now_ms(),
            live=False,
        )
