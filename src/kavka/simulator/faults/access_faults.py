"""Changes of who may do what, while everything else happens: only in secured worlds (`clients.logins`).

    change rights    a user is denied something, or loses what it may do, for a while
    lose password    a user's SCRAM credential is deleted, or another password is set, for a while
    limit            a user gets a quota, for a while; also one that lets hardly anything pass
    token            an administrator makes a token that soon ends, and a client with it asks until it is not let in
    keep token       an administrator makes a token and renews it again and again, while its holder, whose sessions end
                     with it, logs in again and again; then it is renewed no more, ended, or given a moment
    rotate authority every node believes a second authority, too; then one broker after the other shows a certificate
                     of that one, and in the end nobody believes the first any more
    bad certificate  a broker shows a certificate of an unknown issuer, one that has expired or one for another host

What was changed is set back by an administrator who does not give up, in the end and after each while.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from kavka.client.acl_admin import AclAdmin
from kavka.client.cluster import Cluster
from kavka.client.delegation_token_admin import ShownToken, TokenAdmin
from kavka.client.offsets import LATEST, list_offsets
from kavka.client.quota_admin import QuotaAdmin
from kavka.client.security import SaslMechanism, SaslSettings
from kavka.client.user_admin import UserAdmin
from kavka.errors import KavkaError
from kavka.security.acls import Binding, Entry, EntryFilter, Filter, Operation, Permission
from kavka.security.quota_limits import Change, Entity
from kavka.security.resource_patterns import Pattern, PatternFilter, PatternType, ResourceType
from kavka.security.scram_credentials import ScramMechanism
from kavka.security.secret import Secret
from kavka.simulator.clients.logins import (
    APPLICATIONS,
    ITERATIONS,
    QUOTAS,
    broker_certificate,
    first_rights,
    give_access,
)
from kavka.simulator.faults.fault_group import FaultGroup
from kavka.simulator.host.tls import AUTHORITY, Certificate
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from kavka.simulator.faults.fault_group import Arguments

KINDS: Final = ("change rights", "lose password", "limit", "token", "keep token", "rotate authority", "bad certificate")
PATTERNS: Final = (("*", False), ("orders", False), ("or", True), ("invoices", False))
OPERATIONS: Final = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL)
RATES: Final = (100, 1_000, 20_000)
LAPSES, ENDED, SHORTENED = "lapses", "ended", "shortened"
MOMENT_MS: Final = 300
"""How long a token has that is shortened."""
AUTHORITIES: Final = (AUTHORITY, "next ca")
ISSUER, EXPIRED, NAME = "issuer", "expired", "name"
MECHANISMS: Final = (ScramMechanism.SHA_256,)


class AccessFaults(FaultGroup):
    """See the module."""

    _authority = AUTHORITIES[0]
    """Whose certificates brokers show, or are about to."""
    _is_changed = False
    """Whether there is something to be set back."""

    @cached_property
    def _shown_badly(self) -> dict[int, bool]:
        """Brokers whose certificates were made bad."""
        return {}

    def heal(self, brokers: Collection[int]) -> None:
        for broker_id in brokers:
            if self._shown_badly.pop(broker_id, False):
                self._certify(broker_id)
        for broker_id in [each for each in self._awaited if each in brokers]:
            self._certify_anew(broker_id)
        if self._is_changed:
            self._set_back()

    def _set_back(self) -> None:
        self._is_changed = False
        self.world.insist(give_access)

    def _set_back_later(self, ms: int) -> None:
        self._is_changed = True
        self.later(self._set_back, ms, lambda: self._is_changed)

    def _user(self) -> str:
        return APPLICATIONS[int(self.random.random() * len(APPLICATIONS))]

    # -- rights

    def draw_change_rights(self) -> Arguments | None:
        pattern, is_prefix = PATTERNS[int(self.random.random() * len(PATTERNS))]
        return {
            "user": self._user(),
            "revoke": self.random.random() < 0.4,
            "pattern": pattern,
            "prefix": is_prefix,
            "operation": OPERATIONS[int(self.random.random() * len(OPERATIONS))].word,
            "ms": self.draw_ms(0.1, 15.0),
        }

    def change_rights(self, user: str, revoke: bool, pattern: str, prefix: bool, operation: str, ms: int) -> bool:
        if revoke:
            taken = [each for each in first_rights() if each.entry.principal == f"User:{user}"]
            filters = [Filter(PatternFilter(*each.pattern), EntryFilter(*each.entry)) for each in taken]
            self._ask(lambda cluster: AclAdmin(cluster).remove(filters))
        else:
            about = Pattern(ResourceType.TOPIC, pattern, PatternType.PREFIXED if prefix else PatternType.LITERAL)
            (denied,) = [each for each in OPERATIONS if each.word == operation]
            binding = Binding(about, Entry(f"User:{user}", "*", denied, Permission.DENY))
            self._ask(lambda cluster: AclAdmin(cluster).add([binding]))
        self._set_back_later(ms)
        return True

    # -- passwords and quotas

    def draw_lose_password(self) -> Arguments | None:
        return {"user": self._user(), "other": self.random.random() < 0.5, "ms": self.draw_ms(0.1, 15.0)}

    def lose_password(self, user: str, other: bool, ms: int) -> bool:
        if other:
            self._ask(lambda cluster: UserAdmin(cluster).set(user, Secret("another"), MECHANISMS, ITERATIONS))
        else:
            self._ask(lambda cluster: UserAdmin(cluster).remove(user, MECHANISMS))
        self._set_back_later(ms)
        return True

    def draw_limit(self) -> Arguments | None:
        quota = QUOTAS[int(self.random.random() * len(QUOTAS))]
        rate = RATES[int(self.random.random() * len(RATES))]
        return {"user": self._user(), "quota": quota, "rate": rate, "ms": self.draw_ms(0.1, 15.0)}

    def limit(self, user: str, quota: str, rate: int, ms: int) -> bool:
        self._ask(lambda cluster: QuotaAdmin(cluster).alter(Entity(user), [Change(quota, float(rate))]))
        self._set_back_later(ms)
        return True

    # -- tokens

    def draw_token(self) -> Arguments | None:
        return {"lifetime_ms": self.draw_ms(1.0, 20.0)}

    def token(self, lifetime_ms: int) -> bool:
        self._ask(lambda cluster: self._use_token(cluster, lifetime_ms))
        return True

    async def _use_token(self, cluster: Cluster, lifetime_ms: int) -> None:
        made = await TokenAdmin(cluster).create(None, [], lifetime_ms)
        # Until it is over by every broker's clock, and a while longer.
        self._hold(made, lifetime_ms + 5_000)

    def draw_keep_token(self) -> Arguments | None:
        how = (LAPSES, ENDED, SHORTENED)[int(self.random.random() * 3)]
        return {"period_ms": self.draw_ms(4.0, 12.0), "times": 1 + int(self.random.random() * 4), "how": how}

    def keep_token(self, period_ms: int, times: int, how: str) -> bool:
        self._ask(lambda cluster: self._keep(cluster, period_ms, times, how))
        return True

    async def _keep(self, cluster: Cluster, period_ms: int, times: int, how: str) -> None:
        admin = TokenAdmin(cluster)
        made = await admin.create(None, [], (times + 2) * period_ms)
        await admin.expire(made, period_ms)
        self._hold(made, (times + 2) * period_ms)
        for _ in range(times):
            # Clocks drift apart, and a session is renewed when 85 % of it are over.
            await asyncio.sleep(0.6 * period_ms / 1_000)
            await admin.renew(made, period_ms)
        if how != LAPSES:
            await admin.expire(made, None if how == ENDED else MOMENT_MS)

    def _hold(self, made: ShownToken, for_ms: int) -> None:
        """A client with this token asks again and again, and logs in as it has to."""
        clients = self.world.clients
        assert clients.logins is not None
        loop = clients.node("holder")
        clients.logins.owners[loop.name] = "admin"
        sasl = SaslSettings(
            mechanism=SaslMechanism.SCRAM_SHA_256, username=made.token_id, password=made.password, is_by_token=True
        )
        partitions = self.world.partitions

        async def hold() -> None:
            until_ms = clients.now_ms + for_ms
            while clients.now_ms < until_ms:
                try:
                    async with clients.cluster(loop, sasl) as own:
                        while clients.now_ms < until_ms:
                            await list_offsets(own, dict.fromkeys(partitions, LATEST))
                            await asyncio.sleep(1.0)
                except KavkaError:
                    await asyncio.sleep(1.0)

        clients.watch(loop.create_task(hold()))

    # -- certificates

    def draw_rotate_authority(self) -> Arguments | None:
        return {"ms": self.draw_ms(1.0, 15.0)}

    def rotate_authority(self, ms: int) -> bool:
        if self._awaited:
            return False
        former = self._authority
        self._authority = AUTHORITIES[1 - AUTHORITIES.index(former)]
        self._trust(former, self._authority)
        for number, broker_id in enumerate(self.world.brokers, 1):
            self._awaited[broker_id] = True
            self.later(partial(self._certify_anew, broker_id), number * ms)
        return True

    @cached_property
    def _awaited(self) -> dict[int, bool]:
        """Brokers that still show certificates of the authority that is to go."""
        return {}

    def _certify_anew(self, broker_id: int) -> None:
        if self._awaited.pop(broker_id, False):
            if not self._shown_badly.get(broker_id):
                self._certify(broker_id)
            if not self._awaited:
                self._trust(self._authority)

    def _trust(self, *authorities: str) -> None:
        logins = self.world.clients.logins
        assert logins is not None
        for identity in (logins.identity, *(each.tls for each in self.world.brokers.values())):
            identity.trusted = frozenset(authorities)

    def _good(self, broker_id: int) -> Certificate:
        """What a broker is to show."""
        former = AUTHORITIES[1 - AUTHORITIES.index(self._authority)]
        issuer = former if broker_id in self._awaited else self._authority
        return replace(broker_certificate(self.world.brokers[broker_id].node), issuer=issuer)

    def draw_bad_certificate(self) -> Arguments | None:
        how = (ISSUER, EXPIRED, NAME)[int(self.random.random() * 3)]
        return {"broker": self.draw_broker(), "how": how, "ms": self.draw_ms(0.1, 15.0)}

    def bad_certificate(self, broker: int, how: str, ms: int) -> bool:
        shown = self.world.brokers[broker]
        self._shown_badly[broker] = True
        good = self._good(broker)
        shown.tls.certificate = {
            ISSUER: Certificate(good.subject, good.names, "somebody"),
            EXPIRED: Certificate(good.subject, good.names, expires_ms=WALL_CLOCK_START_MS),
            NAME: Certificate(good.subject, ("elsewhere",)),
        }[how]
        self.later(partial(self._end_bad, broker), ms)
        return True

    def _end_bad(self, broker_id: int) -> None:
        if self._shown_badly.pop(broker_id, False):
            self._certify(broker_id)

    def _certify(self, broker_id: int) -> None:
        self.world.brokers[broker_id].tls.certificate = self._good(broker_id)

    def _ask(self, work: Callable[[Cluster], Awaitable[object]]) -> None:
        self.world.ask(work)
