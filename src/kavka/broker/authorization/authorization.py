"""Authorization: who asks, what it may do, and what is remembered of the answers.

A session is a principal at a host; it remembers decisions until the authorizer's generation rises. A `Caller` is one
request of it. Guards ask callers (`broker.api.guards`).

    I1  a decision is remembered within one generation only
    I2  an authorizer that fails refuses
    I3  what is remembered has a bound. Lots are drawn for who is forgotten: clients ask about all topics in turn, and
        whoever asked longest ago asks next
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kavka.broker.authorization.denials import Denial, Denials
from kavka.logger import Logger
from kavka.protocol.api_keys import ApiKey
from kavka.security.acls import Operation
from kavka.security.authorizer import Question, Remedy, Rule, Verdict, remedy, remedy_on_any
from kavka.security.principals import Principal, host_text
from kavka.security.resource_patterns import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from kavka.broker.authorization.acl_store import AclStore
    from kavka.protocol.connection import ConnectionContext, Request

logger = Logger(__name__)

MAX_SESSIONS: Final = 10_000
"""Principals at hosts that are remembered; then one is forgotten for each new one."""
MAX_DECISIONS: Final = 10_000
"""Decisions that a session remembers; then the older half of them is forgotten."""
MAX_REMEMBERED: Final = 100_000
"""Decisions that all sessions remember together; then other sessions are forgotten, until there is room."""
MAX_NAME: Final = 255
"""Characters of a name that is remembered. A topic's has at most 249; others are the client's choice, up to 32,767, and
are decided anew each time."""
_BEGINNING: Final = 64


class Authorizer(Protocol):
    """Who decides. Without waiting and without input or output: what it rests on is at hand."""

    @property
    def generation(self) -> int:
        """Rises with every change of what is decided: decisions of earlier generations are forgotten."""

    def decide(self, question: Question) -> Verdict:
        """May it be done?"""

    def decide_on_any(self, question: Question) -> Verdict:
        """May it be done to some resource of the question's type? Its name means nothing."""


class Session:
    """A principal at a host, and what it was answered. `place`: where it stands among the sessions; -1 when it is
    forgotten, and only a request that is under way still has it."""

    __slots__ = ("decisions", "generation", "host", "key", "place", "principal")

    def __init__(self, key: tuple[str, str], place: int) -> None:
        principal, host = key
        self.key = key
        self.place = place
        self.principal = Principal.parse(principal)
        self.host = host_text(host)
        self.generation = -1
        self.decisions: dict[tuple[Operation, ResourceType, str | None], bool] = {}


class AuthorizationPorts(NamedTuple):
    """What the broker offers. `own_listeners` are those on which brokers talk to each other."""

    now_ms: Callable[[], int]
    denials: Denials
    own_listeners: frozenset[str]


class Authorization:
    """A broker's authorizer, and the sessions that it answers. `acls` are the lists that it rests on, where they can be
    shown and changed through the broker."""

    def __init__(self, authorizer: Authorizer, ports: AuthorizationPorts, acls: AclStore | None = None) -> None:
        self.authorizer = authorizer
        self.acls = acls
        self._ports = ports
        self._sessions: dict[tuple[str, str], Session] = {}
        self._places: list[Session] = []
        """The same sessions, to draw one."""
        self._lot = random.Random(0)
        """Nothing rests on it but who is asked about anew; each run draws the same."""
        self._remembered = 0
        """Decisions in all sessions."""

    async def start(self) -> None:
        """Returns when decisions can be made. Raises ZooKeeperError, ConfigError."""
        if self.acls is not None:
            await self.acls.start()

    def stop(self) -> None:
        if self.acls is not None:
            self.acls.stop()

    def caller(self, request: Request) -> Caller:
        """Who asks with this request."""
        context = request.context
        session = self._sessions.get((context.principal, context.client_host))
        if session is None:
            session = self._begin(context)
        return Caller(self, session, request)

    def _begin(self, context: ConnectionContext) -> Session:
        while len(self._places) >= MAX_SESSIONS:
            self._forget(self._drawn())
        session = Session((context.principal, context.client_host), len(self._places))
        self._sessions[session.key] = session
        self._places.append(session)
        return session

    def is_allowed(self, session: Session, operation: Operation, resource_type: ResourceType, name: str | None) -> bool:
        """The decision, remembered or made. No name: on some resource of the type."""
        generation = self.authorizer.generation
        decisions = session.decisions
        if session.generation != generation:
            self._forget_oldest(session, len(decisions))
            session.generation = generation
        elif len(decisions) >= MAX_DECISIONS:
            self._forget_oldest(session, len(decisions) // 2)
        key = (operation, resource_type, name)
        allowed = decisions.get(key)
        if allowed is None:
            allowed = self.verdict(session, operation, resource_type, name).allowed
            if session.place >= 0 and (name is None or len(name) <= MAX_NAME):
                self._make_room_beside(session)
                decisions[key] = allowed
                self._remembered += 1
        return allowed

    def _make_room_beside(self, session: Session) -> None:
        while self._remembered >= MAX_REMEMBERED:
            other = self._drawn()
            if other is not session:
                self._forget(other)
            elif len(self._places) == 1:
                self._forget_oldest(session, len(session.decisions))

    def _drawn(self) -> Session:
        return self._places[self._lot.randrange(len(self._places))]

    def _forget(self, session: Session) -> None:
        self._forget_oldest(session, len(session.decisions))
        del self._sessions[session.key]
        last = self._places.pop()
        if last is not session:
            self._places[session.place], last.place = last, session.place
        session.place = -1

    def _forget_oldest(self, session: Session, count: int) -> None:
        self._remembered -= count
        if count == len(session.decisions):
            session.decisions.clear()
        for key in list(islice(session.decisions, count)):
            del session.decisions[key]

    def verdict(self, session: Session, operation: Operation, resource_type: ResourceType, name: str | None) -> Verdict:
        """The decision with its reason."""
        question = Question(session.principal, session.host, operation, resource_type, name or "")
        try:
            if name is None:
                return self.authorizer.decide_on_any(question)
            return self.authorizer.decide(question)
        except Exception as failure:  # noqa: BLE001 - whatever an authorizer of one's own does wrong, it refuses (I2).
            logger.error("authorizer failed", why=repr(failure), resource=str(question.remedy().pattern))
            return Verdict(False, Rule.REFUSED, misfit=f"the authorizer failed: {failure!r}")

    @property
    def denial_count(self) -> int:
        """Of requests since the start, recorded or not."""
        return self._ports.denials.count

    def is_own_listener(self, name: str) -> bool:
        """Whether brokers talk to each other on this listener."""
        return name in self._ports.own_listeners

    def on_denied(
        self,
        caller: Caller,
        operation: Operation,
        resource_type: ResourceType,
        name: str | None,
        verdict: Verdict | None = None,
    ) -> None:
        """A request asked for what it may not do. `verdict` is given if no list decided."""
        session, header, context = caller.session, caller.request.header, caller.request.context
        question = Question(session.principal, session.host, operation, resource_type, name or "")
        told = question if len(question.name) <= MAX_NAME else question._replace(name=_shortened(question.name))
        api = ApiKey(header.api_key).name
        self._ports.denials.on_denied(
            told,
            api,
            self._ports.now_ms(),
            lambda: Denial(
                told,
                verdict or self.verdict(session, operation, resource_type, name),
                context.listener_name,
                _shortened(header.client_id or ""),
                api,
                self.authorizer.generation,
                None if verdict is not None or told is not question else self._remedy(question),
            ),
        )

    def _remedy(self, question: Question) -> Remedy:
        if not question.name:  # A right on one resource does: nobody knows which one yet.
            some = question._replace(name=question.resource_type.name)
            if self.acls is None:
                return Remedy((), some.remedy())
            return remedy_on_any(question, some, self.acls.index, self.acls.rules)
        if self.acls is None:
            return Remedy((), question.remedy())
        return remedy(question, self.acls.index, self.acls.rules)


def _shortened(name: str) -> str:
    """A long name's beginning, with a digest of all of it: what is recorded of it, and counted."""
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"{name[:_BEGINNING]}... ({len(name)} characters, {digest})"


class Caller(NamedTuple):
    """One request of a session. `quietly`: the question is a filter, and nobody asked for what it leaves out."""

    authorization: Authorization
    session: Session
    request: Request

    def may(self, operation: Operation, resource_type: ResourceType, name: str, *, quietly: bool = False) -> bool:
        """May it be done to this resource?"""
        allowed = self.authorization.is_allowed(self.session, operation, resource_type, name)
        if not allowed and not quietly:
            self.authorization.on_denied(self, operation, resource_type, name)
        return allowed

    def may_on_cluster(self, operation: Operation, *, quietly: bool = False) -> bool:
        """May it be done to the cluster?"""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)

    def may_on_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """May it be done to some resource of the type?"""
        allowed = self.authorization.is_allowed(self.session, operation, resource_type, None)
        if not allowed:
            self.authorization.on_denied(self, operation, resource_type, None)
        return allowed

    def allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str], *, quietly: bool = False
    ) -> set[str]:
        """Those of the names to which it may be done; each is asked once."""
        return {name for name in set(names) if self.may(operation, resource_type, name, quietly=quietly)}

    def operations(self, known: int, resource_type: ResourceType, name: str) -> int:
        """Of the operations in `known`, a bit each by their numbers, those that are allowed."""
        return sum(
            1 << operation
            for operation in Operation
            if known & (1 << operation) and self.may(operation, resource_type, name, quietly=True)
        )

    def may_as_broker(self) -> bool:
        """May it do what only brokers do? That is ClusterAction, where brokers talk to each other."""
        if not self.may_on_cluster(Operation.CLUSTER_ACTION):
            return False
        if not self.is_broker():
            wrong = Verdict(False, Rule.WRONG_LISTENER)
            self.authorization.on_denied(self, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, wrong)
            return False
        return True

    def is_broker(self) -> bool:
        """Whether the request came in where brokers talk to each other. What it may do is another question."""
        return self.authorization.is_own_listener(self.request.context.listener_name)
