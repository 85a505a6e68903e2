"""The table of a provider of logins: what is refused, and which rights follow from what a provider says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.console.rights import Role
from kavka.console.settings import parse_settings
from kavka.console.sso_settings import Identity, SsoSettings, parse_sso
from kavka.errors import ConfigError

CANARY = "canary-secret"
FILE = f"""
issuer = "https://login.example.com/realms/main"
client_id = "kavka-console"
client_secret = "{CANARY}"
address = "https://kavka.example.com/"
[[sso.rule]]
group = "kafka-ops"
rights = ["operator on prod, topics payments-*, values", "viewer on *"]
[[sso.rule]]
subject = "u-1"
rights = ["admin on *"]
"""


def read(text: str = FILE, *, before: str = "secure_cookies = true\n") -> SsoSettings:
    found = parse_settings(f"{before}[sso]{text}", where="console.toml").sso
    assert found is not None
    return found


def test_a_table_is_read_with_its_defaults() -> None:
    found = read()
    assert found.redirect_uri == "https://kavka.example.com/login/sso/callback"
    assert (found.label, found.scopes[0], found.clock_skew_s) == ("login.example.com", "openid", 30)
    assert found.secret.reveal() == CANARY
    assert CANARY not in repr(parse_settings(f"secure_cookies = true\n[sso]{FILE}"))


@pytest.mark.parametrize("name", ["issuer", "client_id", "client_secret", "address"])
def test_what_is_missing_ends_the_start(name: str) -> None:
    lines = [line for line in FILE.splitlines() if not line.startswith(name)]
    with pytest.raises(ConfigError, match=rf"^console.toml: \[sso\]: {name} is missing"):
        read("\n".join(lines))


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ("https://login", "http://login", "issuer is 'http://login"),
        ("https://login", "https://ada@login", "without a login before it"),
        ("realms/main", "realms/main?x=1", "expected https://HOST[/PATH]"),
        ("login.example.com/realms/main", "login.example.com:99999/", "issuer is"),
        ("https://kavka.example.com/", "http://kavka.example.com/", "shown to the network"),
        ("https://kavka.example.com/", "https://kavka.example.com/console", "without a path"),
        ("https://kavka.example.com/", "kavka.example.com", "address is"),
        (f'"{CANARY}"', f'"{CANARY}"\npublic = true', "a public client has no client_secret"),
        (f'"{CANARY}"', "7", "client_secret is not of the type str"),
        (f'"{CANARY}"', '"env:NO_SUCH_VARIABLE"', "in the variable NO_SUCH_VARIABLE, which is not set"),
        (f'"{CANARY}"', '"file:/no/such/file"', "in /no/such/file, which cannot be read: No such file"),
        (f'"{CANARY}"', '"file:/dev/null"', "in /dev/null, which is empty"),
        ("client_id", "scopes = []\nclient_id", "scopes is []"),
        ("client_id", 'scopes = ["profile"]\nclient_id', 'with "openid" among them'),
        ("client_id", "clock_skew_s = 301\nclient_id", "clock_skew_s is 301, expected 0 to 300"),
        ("client_id", 'groups_claim = ""\nclient_id', "groups_claim is empty"),
        ("client_id", "isuer = 1\nclient_id", "unknown setting 'isuer'"),
        ('group = "kafka-ops"', 'group = "kafka-ops"\nsubject = "x"', "rule 1: expected either group or subject"),
        ('group = "kafka-ops"', "", "rule 1: expected either group or subject"),
        ('group = "kafka-ops"', 'groups = "kafka-ops"', "rule 1: unknown setting 'groups'"),
        ('["admin on *"]', "[]", "rule 2: rights is []"),
        ('["admin on *"]', '["root on *"]', "rule 2: 'root' is no role"),
    ],
)
def test_what_makes_no_sense_ends_the_start(was: str, now: str, words: str) -> None:
    assert was in FILE
    with pytest.raises(ConfigError) as refused:
        read(FILE.replace(was, now))
    assert words in str(refused.value)
    assert CANARY not in str(refused.value)


def test_without_a_rule_nobody_could_do_anything() -> None:
    with pytest.raises(ConfigError, match="there is no"):
        read(FILE.partition("[[sso.rule]]")[0])


def test_the_address_is_what_the_console_speaks() -> None:
    with pytest.raises(ConfigError, match="and it speaks http: see tls"):
        read(before="")
    with pytest.raises(ConfigError, match="and it speaks https"):
        read(FILE.replace("https://kavka.example.com/", "http://127.0.0.1:8090"))
    assert not read(FILE.replace("https://kavka.example.com/", "http://127.0.0.1:8090"), before="").is_https


def test_the_secret_may_stand_elsewhere(tmp_path: Path) -> None:
    table = {"issuer": "https://a.example", "client_id": "c", "address": "https://k.example"}
    rule = {"rule": [{"group": "g", "rights": ["viewer on *"]}]}
    by_variable = parse_sso({**table, **rule, "client_secret": "env:SECRET"}, "x", {"SECRET": CANARY})
    (tmp_path / "secret").write_text(f"{CANARY}\n", encoding="utf-8")
    by_file = parse_sso({**table, **rule, "client_secret": f"file:{tmp_path / 'secret'}"}, "x")
    assert by_variable.secret == by_file.secret
    assert by_file.secret.reveal() == CANARY
    assert not parse_sso({**table, **rule, "public": True}, "x").secret


def test_rights_are_those_of_all_rules_that_fit() -> None:
    found = read()
    assert found.rights_of("u-2", ["staff"]) == ()
    assert found.rights_of("u-2", ["staff", "kafka-ops"]).highest is Role.OPERATOR
    assert found.rights_of("u-1", []).highest is Role.ADMIN
    assert found.rights_of("", ["u-1"]) == (), "a group is no subject"
    assert found.rights_of("kafka-ops", [""]) == ()
    assert found.counted(["kafka-ops", "staff", ""]) == ("kafka-ops",)


def test_two_people_of_one_name_are_two() -> None:
    names = {Identity("i", subject, "ada", ()).user_name for subject in ("u-1", "u-2")}
    assert len(names) == 2
    assert all(name.startswith("sso:ada#") for name in names)
