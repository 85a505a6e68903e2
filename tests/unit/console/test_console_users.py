"""Users, their passwords and roles, and what wrong logins cost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.exceptions import HTTPException

from kavka.console.access import auth
from kavka.console.access.auth import LoginThrottle, User, Users
from kavka.console.access.route_rights import Need, Who, check
from kavka.console.access.sessions import ABSOLUTE_MS, IDLE_MS, MOST_SESSIONS, Sessions
from kavka.console.ledger import open_ledger
from kavka.console.rights import Rights, Role, full, parse_grant, role_named
from kavka.console.settings import UserSettings
from kavka.errors import ConfigError
from kavka.security import passwords
from kavka.security.passwords import password_text

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "COST", 2)


@pytest.fixture
def users(tmp_path: Path) -> Users:
    found = Users(open_ledger(tmp_path / "ledger.sqlite"))
    found.add("ada", PASSWORD, Role.OPERATOR)
    return found


def request_of(user: User | None) -> SimpleNamespace:
    return SimpleNamespace(state=SimpleNamespace(user=user), path_params={})


class TestUsers:
    def test_a_name_and_its_password_are_the_user_and_nothing_else_is(self, users: Users) -> None:
        assert asyncio.run(users.check("ada", PASSWORD)) == User("ada", full(Role.OPERATOR))
        for name, password in (("ada", PASSWORD + " "), ("ADA", PASSWORD), ("eve", PASSWORD), ("ada", "")):
            assert asyncio.run(users.check(name, password)) is None

    def test_a_name_that_sql_would_read_is_a_name(self, users: Users) -> None:
        assert asyncio.run(users.check("' OR 1=1 --", PASSWORD)) is None
        assert asyncio.run(users.check("ada' --", PASSWORD)) is None
        assert users.all() == [User("ada", full(Role.OPERATOR))]

    def test_an_unknown_name_is_hashed_for_as_well(self, users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
        hashed = []
        monkeypatch.setattr(passwords, "_hash", lambda password, salt: hashed.append(password) or b"x")
        asyncio.run(users.check("nobody", "guess"))
        asyncio.run(users.check("ada", "guess"))
        assert hashed == ["guess", "guess"]

    def test_the_file_has_no_password_and_is_its_owners_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        Users(open_ledger(path)).add("ada", PASSWORD, Role.ADMIN)
        assert all(PASSWORD.encode() not in file.read_bytes() for file in tmp_path.iterdir())
        assert path.stat().st_mode & 0o077 == 0

    def test_two_users_with_one_password_have_different_hashes(self, tmp_path: Path) -> None:
        database = open_ledger(tmp_path / "ledger.sqlite")
        users = Users(database)
        users.add("ada", PASSWORD, Role.VIEWER)
        users.add("eve", PASSWORD, Role.VIEWER)
        assert len({bytes(row["hash"]) for row in database.execute("SELECT hash FROM users")}) == 2

    @pytest.mark.parametrize("name", ["", "-x", "a b", "a" * 65, "<script>", "a\n"])
    def test_what_is_no_name_is_refused(self, users: Users, name: str) -> None:
        with pytest.raises(ValueError, match="no user name"):
            users.add(name, PASSWORD, Role.VIEWER)

    def test_a_short_password_is_refused(self, users: Users) -> None:
        with pytest.raises(ValueError, match="10 to"):
            users.add("eve", "123456789", Role.VIEWER)

    def test_a_removed_user_is_gone(self, users: Users) -> None:
        assert users.remove("ada")
        assert not users.remove("ada")
        assert asyncio.run(users.check("ada", PASSWORD)) is None


class TestRoles:
    def test_each_role_may_do_what_those_before_it_may(self) -> None:
        operator = Need(Who.ANYWHERE, Role.OPERATOR)
        check(request_of(User("a", full(Role.ADMIN))), operator)
        check(request_of(User("v", full(Role.VIEWER))), Need(Who.ANYWHERE))
        with pytest.raises(HTTPException) as refused:
            check(request_of(User("v", full(Role.VIEWER))), operator)
        assert refused.value.status_code == 403

    def test_nobody_may_do_nothing(self) -> None:
        with pytest.raises(HTTPException) as refused:
            check(request_of(None), Need(Who.SOMEBODY))
        assert refused.value.status_code == 401

    def test_a_role_that_does_not_exist_is_not_a_role(self) -> None:
        with pytest.raises(ValueError, match="viewer, operator or admin"):
            role_named("root")


def test_a_word_that_no_right_has_is_refused() -> None:
    with pytest.raises(ValueError, match="'everything' is none of topics PATTERN, values, unmasked"):
        parse_grant("viewer on prod, values, everything")


class TestUsersOfSettings:
    """They have the rights that the settings say, and the settings' password, or the ledger's."""

    def settings(self, *grants: str, password: str = "", name: str = "eve") -> UserSettings:
        return UserSettings(name, Rights(map(parse_grant, grants)), password)

    def test_the_settings_password_is_the_users(self, tmp_path: Path) -> None:
        said = self.settings("viewer on prod", password=password_text(PASSWORD))
        users = Users(open_ledger(tmp_path / "ledger.sqlite"), [said])
        assert asyncio.run(users.check("eve", PASSWORD)) == User("eve", said.rights)
        assert asyncio.run(users.check("eve", PASSWORD + "x")) is None
        assert users.all() == [User("eve", said.rights)]

    def test_without_one_the_ledgers_counts_and_the_ledgers_role_does_not(self, users: Users, tmp_path: Path) -> None:
        said = self.settings("viewer on prod", name="ada")
        both = Users(open_ledger(tmp_path / "ledger.sqlite"), [said, self.settings("admin on *")])
        assert asyncio.run(both.check("ada", PASSWORD)) == User("ada", said.rights)
        assert both.find("eve") is None, "without any password nobody is eve"
        assert both.all() == [User("ada", said.rights)]

    def test_a_user_without_rights_has_none(self, tmp_path: Path) -> None:
        users = Users(open_ledger(tmp_path / "ledger.sqlite"), [self.settings(password=password_text(PASSWORD))])
        found = asyncio.run(users.check("eve", PASSWORD))
        assert found == User("eve", Rights())

    def test_other_rights_or_another_password_end_the_sessions_and_a_restart_alone_does_not(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = [1_000.0]
        monkeypatch.setattr(auth.time, "time", lambda: clock[0])
        password = password_text(PASSWORD)

        def since(said: UserSettings) -> int:
            clock[0] += 1
            found = Users(open_ledger(tmp_path / "ledger.sqlite"), [said]).find("eve")
            assert found is not None
            return found[1]

        first = since(self.settings("viewer on *", password=password))
        assert since(self.settings("viewer on *", password=password)) == first
        second = since(self.settings("viewer on prod", password=password))
        assert second > first
        assert since(self.settings("viewer on prod", password=password_text(PASSWORD))) > second

    @pytest.mark.parametrize("text", ["secret", "scrypt:x:y", "scrypt:AAAA:AAAA", "bcrypt:" + "A" * 24, "scrypt:::"])
    def test_a_password_in_clear_is_refused_and_not_shown(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(ConfigError, match="not a hash") as refused:
            Users(open_ledger(tmp_path / "ledger.sqlite"), [self.settings(password=text)])
        assert text not in str(refused.value)
        assert text not in repr(self.settings(password=text))


class TestThrottle:
    def test_a_few_failures_are_free_and_then_each_waits_longer(self) -> None:
        throttle = LoginThrottle()
        keys = ("name ada", "address 10.0.0.1")
        for _ in range(auth.FREE_FAILURES):
            assert throttle.wait_s(keys, 100.0) == 0
            throttle.failed(keys, 100.0)
        first = throttle.wait_s(keys, 100.0)
        throttle.failed(keys, 100.0 + first)
        second = throttle.wait_s(keys, 100.0 + first)
        assert 0 < first < second
        assert throttle.wait_s(keys, 100.0 + first + second) == 0

    def test_another_name_from_the_same_address_waits_too(self) -> None:
        throttle = LoginThrottle()
        for number in range(auth.FREE_FAILURES):
            throttle.failed((f"name {number}", "address 10.0.0.1"), 0.0)
        assert throttle.wait_s(("name fresh", "address 10.0.0.1"), 0.0) > 0
        assert throttle.wait_s(("name fresh", "address 10.0.0.2"), 0.0) == 0

    def test_ones_own_login_does_not_clear_the_address(self) -> None:
        throttle = LoginThrottle()
        for _ in range(auth.FREE_FAILURES):
            throttle.failed(("name ada", "address 10.0.0.1"), 0.0)
        throttle.failed(("name eve", "address 10.0.0.1"), 0.0)
        throttle.succeeded("name eve", "address 10.0.0.1")
        assert throttle.wait_s(("name eve",), 0.0) == 0
        assert throttle.wait_s(("address 10.0.0.1",), 0.0) > 0

    def test_right_passwords_are_not_counted(self) -> None:
        throttle = LoginThrottle()
        for _ in range(100):
            keys = ("name ada", "address 10.0.0.1")
            assert throttle.wait_s(keys, 0.0) == 0
            throttle.failed(keys, 0.0)
            throttle.succeeded(*keys)

    def test_the_wait_has_a_bound_and_so_has_the_memory(self) -> None:
        throttle = LoginThrottle()
        for _ in range(200):
            throttle.failed(("name ada",), 0.0)
        assert throttle.wait_s(("name ada",), 0.0) == auth.LONGEST_WAIT_S
        for number in range(auth.MOST_REMEMBERED):
            throttle.failed((f"name {number}",), 1.0)
        assert throttle.wait_s(("name ada",), 1.0) == 0, "the oldest is forgotten at the bound"


class TestSessions:
    @pytest.fixture
    def sessions(self, users: Users, tmp_path: Path) -> Sessions:
        return Sessions(open_ledger(tmp_path / "ledger.sqlite"), users)

    def user_of(self, sessions: Sessions, cookie: str, now_ms: int) -> User | None:
        found = sessions.find(cookie, now_ms)
        return None if found is None else found.user

    def begin(self, sessions: Sessions, now_ms: int) -> tuple[str, str]:
        begun = sessions.begin(User("ada", full(Role.OPERATOR)), now_ms)
        return begun.number, sessions.cookie_of(begun.number)

    def test_it_holds_while_it_is_used_and_ends_when_it_was_not(self, sessions: Sessions) -> None:
        start = 2_000_000_000_000
        _, cookie = self.begin(sessions, start)
        assert self.user_of(sessions, cookie, start + IDLE_MS - 1) == User("ada", full(Role.OPERATOR))
        assert self.user_of(sessions, cookie, start + 2 * IDLE_MS - 2) is not None
        assert self.user_of(sessions, cookie, start + 3 * IDLE_MS) is None
        assert self.user_of(sessions, cookie, start) is None, "what has ended stays ended"

    def test_it_ends_at_last_although_it_is_used(self, sessions: Sessions) -> None:
        start = now = 2_000_000_000_000
        _, cookie = self.begin(sessions, start)
        while now < start + ABSOLUTE_MS - IDLE_MS:
            now += IDLE_MS // 2
            assert self.user_of(sessions, cookie, now) is not None
        assert self.user_of(sessions, cookie, start + ABSOLUTE_MS) is None

    def test_a_cookie_that_we_did_not_sign_is_nothing(self, sessions: Sessions) -> None:
        number, cookie = self.begin(sessions, 2_000_000_000_000)
        assert sessions.find(number, 2_000_000_000_000) is None
        # Not its last sign: two bits of that stand for nothing, and another one may be the same signature.
        assert sessions.find(f"{cookie[:-2]}{'B' if cookie[-2] == 'A' else 'A'}{cookie[-1]}", 2_000_000_000_000) is None
        assert sessions.find('"' * 5000, 2_000_000_000_000) is None

    def test_a_new_password_and_a_removed_user_end_it(self, sessions: Sessions, users: Users) -> None:
        now = users.find("ada")[1]
        _, cookie = self.begin(sessions, now)
        assert self.user_of(sessions, cookie, now) is not None
        users._database.execute("UPDATE users SET changed_ms = ?", (now + 1,))
        assert self.user_of(sessions, cookie, now + 2) is None
        _, cookie = self.begin(sessions, now + 2)
        users.remove("ada")
        assert self.user_of(sessions, cookie, now + 3) is None

    def test_another_role_is_the_role_from_the_next_request_on(self, sessions: Sessions, users: Users) -> None:
        now = users.find("ada")[1]
        _, cookie = self.begin(sessions, now)
        users._database.execute("UPDATE users SET role = 'viewer'")
        assert self.user_of(sessions, cookie, now) == User("ada", full(Role.VIEWER))

    def test_a_second_process_has_the_same_key(self, sessions: Sessions, users: Users, tmp_path: Path) -> None:
        _, cookie = self.begin(sessions, 2_000_000_000_000)
        again = Sessions(open_ledger(tmp_path / "ledger.sqlite"), users)
        assert self.user_of(again, cookie, 2_000_000_000_000) is not None

    def test_sessions_have_a_bound(self, sessions: Sessions, users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kavka.console.access.sessions.MOST_SESSIONS", 3)
        assert MOST_SESSIONS > 3
        now = 2_000_000_000_000
        cookies = [self.begin(sessions, now + number)[1] for number in range(5)]
        alive = [self.user_of(sessions, cookie, now + 10) is not None for cookie in cookies]
        assert alive == [False, False, True, True, True]
