"""`kavka console rights`: what it prints is what the console does, and names the line that decides."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from kavka.cli.app import run
from kavka.console.access.auth import Users
from kavka.console.ledger import LEDGER, open_ledger
from kavka.console.rights import Role
from kavka.security import passwords

FILE = """\
data = "DATA"
secure_cookies = true
[[cluster]]
name = "prod"
bootstrap = "127.0.0.1:1"
[[cluster]]
name = "archive"
bootstrap = "127.0.0.1:1"
read_only = true
[[user]]
name = "ada"
rights = [
    "operator on prod, topics payments-*, values",
    "admin on archive",
]
[[user]]
name = "eve"
password = "scrypt:AAAA:AAAA"
rights = ["viewer on *, topics orders, values, unmasked"]
[[user]]
name = "none"
[[mask]]
topics = ["payments-*"]
fields = ["value.iban", "key"]
[[ mask ]]
cluster = "prod"
fields = ["value.email"]
[sso]
issuer = "https://login.example.com"
client_id = "c"
client_secret = "canary"
address = "https://kavka.example.com"
[[sso.rule]]
group = "ops"
rights = ["admin on *"]
[[sso.rule]]
subject = "u-1"
rights = ["viewer on prod, values"]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("console.toml").write_text(FILE.replace("DATA", str(tmp_path / "data")), encoding="utf-8")
    return Path("console.toml")


def printed(capfd: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert run(["console", "rights", *words]) == status
    sys.stdout.flush()
    said = capfd.readouterr()
    assert "canary" not in said.out + said.err
    return said.out if status == 0 else said.err


def test_each_right_stands_with_its_line_and_the_clusters_that_it_is_about(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capfd, "ada", "--settings", str(file)).splitlines()
    assert lines == [
        "RIGHT\tDECIDED BY\tCLUSTERS",
        "operator on prod, topics payments-*, values\tconsole.toml:13\tprod",
        "admin on archive\tconsole.toml:14\tarchive",
    ]


def test_about_a_topic_each_question_has_an_answer(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, "ada", "--settings", str(file), "--topic", "payments-card")
    right = "console.toml:13: operator on prod, topics payments-*, values"
    for line in (
        f"prod\tpayments-card\tsee it\tyes\t{right}",
        f"prod\tpayments-card\tchange it\tyes\t{right}",
        "prod\tpayments-card\tdelete it\tno\tno right gives it",
        f"prod\tpayments-card\tread its messages\tyes\t{right}",
        "prod\tpayments-card\tread what is masked in them\tno\tno right gives it",
        "archive\tpayments-card\tsee it\tyes\tconsole.toml:14: admin on archive",
        "archive\tpayments-card\tread its messages\tno\tno right gives it",
        "archive\tpayments-card\tdelete it\tno\tconsole.toml:14: admin on archive; the cluster is read_only: "
        "nobody changes it",
        "prod\tpayments-card\tvalue.iban\tconsole.toml:24",
        "prod\tpayments-card\tvalue.email\tconsole.toml:27",
        "archive\tpayments-card\tkey\tconsole.toml:24",
    ):
        assert line in out.splitlines(), line
    assert "archive\tpayments-card\tvalue.email" not in out


def test_whoever_reads_what_is_masked_is_told_of_no_mask(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, "eve", "--settings", str(file), "--topic", "orders", "--cluster", "prod")
    assert "prod\torders\tread what is masked in them\tyes\tconsole.toml:19" in out
    assert "MASKED FOR THEM" not in out
    assert "archive" not in out


def test_by_what_a_provider_says(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, "--group", "ops", "--group", "x", "--subject", "u-1", "--settings", str(file))
    assert "admin on *\tconsole.toml:35, group ops\tprod, archive" in out
    assert "viewer on prod, values\tconsole.toml:38, subject u-1\tprod" in out
    assert run(["console", "rights", "--group", "u-1", "--settings", str(file)]) == 0
    assert "No rule fits" in capfd.readouterr().err


def test_as_json(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capfd, "ada", "--settings", str(file), "-t", "payments-card", "--json"))
    assert found["answers"][0] == {
        "cluster": "prod",
        "topic": "payments-card",
        "may": "see it",
        "answer": True,
        "right": "operator on prod, topics payments-*, values",
        "decided_by": "console.toml:13",
        "note": "",
    }
    assert found["masked"][0]["field"] == "value.iban"
    rights = json.loads(printed(capfd, "ada", "--settings", str(file), "--json"))
    assert rights[1] == {"right": "admin on archive", "decided_by": "console.toml:14", "clusters": ["archive"]}


def test_users_of_the_database_have_their_role_everywhere(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "COST", 2)
    (tmp_path / "data").mkdir()
    Users(open_ledger(tmp_path / "data" / LEDGER)).add("root", "correct horse battery", Role.ADMIN)
    out = printed(capfd, "root", "--settings", str(file))
    assert "admin on *, values\tkavka console user add\tprod, archive" in out
    assert "admin on *, values" in printed(capfd, "root", "--data", str(tmp_path / "data"))


def test_who_has_no_right_or_no_password_is_told_so(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["console", "rights", "none", "--settings", str(file)]) == 0
    sys.stdout.flush()
    said = capfd.readouterr()
    assert "none has no right" in said.err
    assert "none has no password" in said.err
    assert said.out == "RIGHT\tDECIDED BY\tCLUSTERS\n"


def test_where_no_login_is_needed_everybody_is_local(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = printed(capfd, "local", "--data", str(tmp_path / "data"))
    assert "admin on *, values\tno login is needed\tnone of the settings" in out
    assert "there is no user local" in printed(capfd, "local", "--settings", str(file), status=1)


def test_tables_written_in_another_way_have_no_line(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = 'user = [{ name = "ada", rights = ["viewer on *"] }]\n[[cluster]]\nname = "prod"\nbootstrap = "h:1"\n'
    file.write_text(text, encoding="utf-8")
    assert "viewer on *\tconsole.toml\tprod" in printed(capfd, "ada", "--settings", str(file))


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["eva"], 1, "there is no user eva"),
        ([], 2, "no user is named"),
        (["ada", "--group", "ops"], 2, "no user is named"),
        (["ada", "--topic", "t", "--cluster", "nowhere"], 2, "the settings have no cluster nowhere"),
    ],
)
def test_a_question_without_an_answer(
    file: Path, capfd: pytest.CaptureFixture[str], words: list[str], status: int, why: str
) -> None:
    assert why in printed(capfd, *words, "--settings", str(file), status=status)


def test_settings_that_cannot_be_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "cannot read" in printed(capfd, "ada", "--settings", str(tmp_path / "no"), status=1)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("prot = 1", encoding="utf-8")
    assert "unknown setting 'prot'" in printed(capfd, "ada", "--settings", str(wrong), status=1)
    assert "no login provider" in printed(capfd, "--group", "x", status=2)
