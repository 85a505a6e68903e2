"""`kavka users`: adds, lists and removes users who can then log in, or not any more. Passwords are no arguments."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.command_line import run_alone
from tests.kit.sasl_script import LISTENER, settings, wait_for_user, wait_until_out


def test_users_are_added_listed_and_removed(tmp_path: Path) -> None:
    own = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}
    file = tmp_path / "password"
    file.write_text("from a file\n")

    def run(port: int, *words: str, text: str = "") -> subprocess.CompletedProcess[bytes]:
        return run_alone("users", *words, "--bootstrap", f"127.0.0.1:{port}", given=text.encode())

    def listed(port: int) -> dict[str, dict[str, int]]:
        done = run(port, "list", "--json")
        assert done.returncode == 0, done.stderr
        return {each["user"]: each["iterations"] for each in json.loads(done.stdout)}

    def work(port: int, plaintext: int) -> None:
        assert listed(plaintext) == {}
        done = run(plaintext, "add", "dave", "--password-file", "-", text="typed in\n")
        assert done.returncode == 0, done.stderr
        wait_for_user(port, "dave", "typed in")
        one = ("--mechanism", "SCRAM-SHA-512", "--iterations", "8192")
        done = run(plaintext, "add", "al ice", "--password-file", str(file), *one)
        assert done.returncode == 0, done.stderr
        wait_for_user(port, "al ice", "from a file")
        assert listed(plaintext) == {
            "al ice": {"SCRAM-SHA-512": 8192},
            "dave": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096},
        }
        assert run(plaintext, "add", "dave", "--password-file", str(tmp_path / "none")).returncode != 0
        assert run(plaintext, "add", "dave").returncode != 0, "nobody is there to be asked"
        assert run(plaintext, "add", "dave", "--password-file", "-", text="\n").returncode != 0
        assert run(plaintext, "remove", "mallory", "--yes").returncode != 0
        done = run(plaintext, "remove", "dave", "--yes")
        assert done.returncode == 0, done.stderr
        assert list(listed(plaintext)) == ["al ice"]
        wait_until_out(port, "dave", "typed in")

    async def scenario() -> None:
        async with InProcessCluster(tmp_path / "kavka", count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            ((_host, plaintext),) = cluster.bootstrap
            await asyncio.to_thread(work, cluster.ports_of[LISTENER][1], plaintext)

    asyncio.run(asyncio.wait_for(scenario(), 280))
