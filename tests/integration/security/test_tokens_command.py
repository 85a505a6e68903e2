"""`kavka tokens`: makes, lists, renews and ends tokens, and what it writes lets a client in. HMACs are no arguments."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from kavka.security.delegation_tokens import TokenKey, password
from kavka.security.secret import Secret
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.command_line import run_alone
from tests.kit.token_script import LISTENER, SECRET, settings


@pytest.mark.thorough
def test_tokens_are_made_used_listed_renewed_and_ended(tmp_path: Path) -> None:
    own = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}
    key = TokenKey(Secret(SECRET))

    def run(user: str, port: int, *words: str) -> Any:
        login = tmp_path / f"{user}.properties"
        if not login.exists():
            login.write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                f"sasl.username={user}\nsasl.password={user}-secret\n"
            )
        done = run_alone(*words, "--json", "-b", f"127.0.0.1:{port}", "--client-config", str(login))
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr.decode()

    def work(port: int) -> None:
        shown = run("alice", port, "tokens", "create", "--renewer", "User:bob")
        assert shown["hmac"] == password(key.hmac(shown["token"]))
        file = tmp_path / "job.properties"
        made = run("alice", port, "tokens", "create", "--max-life", "1h", "--file", str(file))
        assert "hmac" not in made
        assert made["max_ms"] - made["issued_ms"] == 3_600_000
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "cannot be created" in run("alice", port, "tokens", "create", "--file", str(file))
        assert "is not a principal" in run("alice", port, "tokens", "create", "--renewer", "bob")
        file.write_text(f"security.protocol=SASL_PLAINTEXT\n{file.read_text()}")
        assert "NOT_ALLOWED" in run("job", port, "tokens", "list"), "it came in, but by a token"
        for_others = tmp_path / "others.properties"
        assert "AUTHORIZATION_FAILED" in run("bob", port, "tokens", "create", "--owner", "User:carol")
        assert "AUTHORIZATION_FAILED" in run(
            "bob", port, "tokens", "create", "--owner", "User:carol", "--file", str(for_others)
        )
        assert not for_others.exists()
        listed = run("alice", port, "tokens", "list")
        assert [each["token"] for each in listed] == [shown["token"], made["token"]]
        assert [each["token"] for each in run("bob", port, "tokens", "list")] == [shown["token"]]
        assert run("bob", port, "tokens", "list", "--owner", "User:carol") == []
        until_ms = run("bob", port, "tokens", "renew", shown["token"], "--for", "5m")["expires_ms"]
        assert abs(until_ms - shown["issued_ms"] - 300_000) < 120_000
        assert "there is no token" in run("bob", port, "tokens", "renew", made["token"])
        assert "expires_ms" in run("alice", port, "tokens", "expire", made["token"], "--yes")
        assert "refused SCRAM-SHA-512" in run("job", port, "topics", "list")

    async def scenario() -> None:
        async with InProcessCluster(tmp_path / "kavka", count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            await asyncio.to_thread(work, cluster.ports_of[LISTENER][1])

    asyncio.run(asyncio.wait_for(scenario(), 280))
