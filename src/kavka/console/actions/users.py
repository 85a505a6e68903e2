"""SetUser, RemoveUser: users who log in with SCRAM.

Decides what a form asks for. Must not know pages.

I1  A password is in no preview, command line or audit log. It goes from the form to the page that shows what would be
    done, as a hidden field of that page (which no browser keeps), and from there to the cluster, salted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kavka.client.acl_admin import AclAdmin
from kavka.client.user_admin import UserAdmin
from kavka.console.actions.action import (
    Action,
    ActionRefused,
    Change,
    Field,
    Preview,
    Values,
    Warned,
    quoted,
    text,
    whole,
)
from kavka.errors import ErrorCode, RequestError
from kavka.observe.health.report import Statement
from kavka.security.acls import EntryFilter, Filter
from kavka.security.resource_patterns import PatternFilter
from kavka.security.scram_credentials import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
)
from kavka.security.secret import Secret

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

BOTH: Final = "both"
SHORTEST: Final = 8
"""Characters of a password below which the preview warns."""


class _OfUsers(Action):
    role, section = "admin", "access"

    def topics(self, values: Values) -> None:
        return None

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        return _told(await self._now(watch, _name(values))) or "no password"

    def link(self, base: str, values: Values) -> str:
        return f"{base}/access/users"

    async def _now(self, watch: ClusterWatch, user: str) -> Mapping[ScramMechanism, int]:
        return (await UserAdmin(watch.cluster).list([user])).get(user, {})


class SetUser(_OfUsers):
    name, title = "set-user", "Add a user, or set a password"

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        return (
            Field("user", "Name", value=values.get("user", ""), hint="Without User: before it.", required=True),
            Field("password", "Password", "secret", required=True),
            Field("again", "The password again", "secret", required=True),
            Field("mechanism", "Mechanism", "choice", values.get("mechanism", BOTH), "", (BOTH, *MECHANISMS)),
            Field(
                "iterations",
                "Iterations",
                "number",
                values.get("iterations", str(DEFAULT_ITERATIONS)),
                f"{MIN_ITERATIONS} - {MAX_ITERATIONS}",
            ),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        user, password = _name(values), values.get("password", "")
        if not password:
            raise ActionRefused("the password is missing")
        if password != values.get("again", ""):
            raise ActionRefused("the two passwords differ")
        chosen = _mechanisms(values)
        iterations = _iterations(values)
        now = await self._now(watch, user)
        warnings = []
        if any(each in now for each in chosen):
            text_ = "The user's password is replaced: clients that have the former one cannot log in again with it."
            warnings.append(Warned("warn", Statement(text_)))
        if len(password) < SHORTEST:
            warnings.append(Warned("warn", Statement("The password is short, and anybody may try to guess it.")))
        bootstrap, name = watch.settings.bootstrap, quoted(user)
        ways = " ".join(f"--mechanism {each.value}" for each in chosen)
        added = ",".join(f"{each.value}=[iterations={iterations},password=...]" for each in chosen)
        undo = f"kavka users remove {name} {ways} --yes -b {bootstrap}"
        return Preview(
            f"user {user}",
            Statement("This gives {user} a password.", {"user": user}),
            tuple(
                Change(
                    each.value,
                    f"{now[each]} iterations" if each in now else "",
                    f"a new password, {iterations} iterations",
                )
                for each in chosen
            ),
            tuple(warnings),
            (
                f"kavka users add {name} {ways} --iterations {iterations} --password-file FILE -b {bootstrap}",
                f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type users --entity-name {name} "
                f"--add-config {quoted(added)}",
            ),
            before=_told(now),
            wanted="\n".join(f"{each.value}: a new password, {iterations} iterations" for each in chosen),
            button="Set the password",
            undo=() if any(each in now for each in chosen) else (undo,),
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        password = Secret(values.get("password", ""))
        await UserAdmin(watch.cluster).set(_name(values), password, _mechanisms(values), _iterations(values))


class RemoveUser(_OfUsers):
    name, title = "remove-user", "Remove a user's passwords"

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        return (Field("user", "Name", "hidden", _name(values)),)

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        user = _name(values)
        now = await self._now(watch, user)
        if not now:
            raise ActionRefused(f"{user[:250]} has no password here")
        warnings = [Warned("bad", Statement("The user cannot log in any more. Open connections stay until they end."))]
        left = await self._left(watch, user)
        if left:
            text_ = "Access control lists that stay: {n}. Whoever gets this name next has them."
            warnings.append(Warned("warn", Statement(text_, {"n": left})))
        bootstrap, name = watch.settings.bootstrap, quoted(user)
        taken = ",".join(each.value for each in now)
        return Preview(
            f"user {user}",
            Statement("This removes the passwords of {user}.", {"user": user}),
            tuple(Change(each.value, f"{iterations} iterations", "") for each, iterations in now.items()),
            tuple(warnings),
            (
                f"kavka users remove {name} --yes -b {bootstrap}",
                f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type users --entity-name {name} "
                f"--delete-config {quoted(taken)}",
            ),
            before=_told(now),
            button="Remove them",
            is_danger=True,
            type_name=user,
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        user = _name(values)
        now = await self._now(watch, user)
        if not now:
            raise ActionRefused(f"{user[:250]} has no password here")
        await UserAdmin(watch.cluster).remove(user, list(now))

    def is_ambiguous(self, refused: RequestError) -> bool:
        return super().is_ambiguous(refused) or refused.code is ErrorCode.RESOURCE_NOT_FOUND

    async def _left(self, watch: ClusterWatch, user: str) -> int:
        """Access control lists that name the user; 0 where there is no authorizer."""
        try:
            return len(await AclAdmin(watch.cluster).find(Filter(PatternFilter(), EntryFilter(f"User:{user}"))))
        except RequestError:
            return 0


def _name(values: Values) -> str:
    return text(values, "user", "the user's name")


def _mechanisms(values: Values) -> list[ScramMechanism]:
    chosen = values.get("mechanism", BOTH)
    if chosen == BOTH:
        return list(MECHANISMS.values())
    if chosen not in MECHANISMS:
        raise ActionRefused(f"{chosen[:40]!r} is no mechanism: {', '.join(MECHANISMS)}")
    return [MECHANISMS[chosen]]


def _iterations(values: Values) -> int:
    return whole(values, "iterations", "the number of iterations", least=MIN_ITERATIONS, most=MAX_ITERATIONS)


def _told(now: Mapping[ScramMechanism, int]) -> str:
    return "\n".join(f"{mechanism.value}: {iterations} iterations" for mechanism, iterations in now.items())
