"""Canaries in whole processes: a broker, a schema registry, a console and commands, each with secrets of its own.

The console names a Kafka Connect, a schema registry and receivers of alerts, none of which answers. What is looked
through is what others see of them: the list of processes with its environments, logs, why-records,
traces of requests, flight recordings (inflated), files, metrics, pages and answers over HTTP. The files with secrets
that the operator writes lie elsewhere, and are not looked through.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.flight.format import Block, blocks
from kavka.security.passwords import password_text
from kavka.security.plain import client_token
from kavka.security.scram_credentials import ScramMechanism
from tests.kit.command_server import PROGRAM
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import answers_metadata
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually
from tests.kit.registry_process import RegistryProcess
from tests.kit.sasl_script import LISTENER, PLAIN_LOGIN, Wire, settings

pytestmark = pytest.mark.thorough
CANARY = "yellow-bird"
HOST = "127.0.0.1"
NOBODY = 1
"""A port on which nobody listens: failures are told, with the addresses that did not answer."""
FEWEST_PAGES, MOST_PAGES = 25, 120
SERVICES = ("/c/live/connect", "/c/live/schemas", "/c/live/alerts", "/c/live/requests")


def canaries_in(content: bytes) -> list[bytes]:
    """What stands around each, as it is or in base64, wherever it begins in it."""
    forms = [CANARY.encode()]
    forms += [b64encode(b"x" * shift + CANARY.encode())[4:12] for shift in range(3)]
    return [content[max(0, at.start() - 80) : at.end() + 40] for form in forms for at in re.finditer(form, content)]


def test_a_canary_is_found_wherever_it_begins() -> None:
    for shift in range(4):
        assert canaries_in(b64encode(b"-" * shift + f"user\0{CANARY}-1".encode()))
    assert not canaries_in(b"a bird")


class Cage:
    """The processes. `own` has the operator's files, `directory` what the processes write."""

    def __init__(self, path: Path) -> None:
        self.own, self.directory = path / "own", path / "theirs"
        self.own.mkdir()
        self.directory.mkdir()
        self.port, self.plain, self.metrics = free_port(), free_port(), free_port()
        self.shown: dict[str, bytes] = {}
        """By what it is."""

    def broker_file(self) -> Path:
        login = PLAIN_LOGIN.replace("alice-secret", f"{CANARY}-alice").replace("admin-secret", f"{CANARY}-admin")
        texts = {
            **settings(self.port, self.plain),
            "broker.id": "1",
            "log.dirs": str(self.directory / "logs"),
            f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": login,
            "delegation.token.secret.key": f"{CANARY}-tokens",
            "password.encoder.secret": f"{CANARY}-encoder",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            "kavka.request.trace.sample": "1",
            "kavka.slow.request.ms": "1",
            "kavka.metrics.port": str(self.metrics),
            "kavka.otlp.traces.endpoint": f"http://{HOST}:{NOBODY}/v1/traces",
            "offsets.topic.replication.factor": "1",
        }
        return self.write("broker.properties", "\n".join(f"{name}={text}" for name, text in texts.items()))

    def client_file(self, user: str, password: str) -> Path:
        return self.write(
            f"{user}.properties",
            f"bootstrap.servers={HOST}:{self.port}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{user}" password="{password}";\n',
        )

    def write(self, name: str, text: str) -> Path:
        file = self.own / name
        file.write_text(text)
        file.chmod(0o600)
        return file

    @contextlib.contextmanager
    def running(self, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([str(PROGRAM), *words], stdout=log, stderr=subprocess.STDOUT)
            try:
                yield process
            finally:
                process.terminate()
                process.wait(60)

    def command(self, *words: str) -> int:
        """What it says is looked through later."""
        ended = subprocess.run([str(PROGRAM), *words], capture_output=True, timeout=100, check=False)
        self.shown[f"kavka {' '.join(words)}"] = ended.stdout + ended.stderr
        return ended.returncode

    def get(self, address: str, login: str | None = None) -> int:
        request = urllib.request.Request(address)
        if login is not None:
            request.add_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as refused:
            answer = refused
        with answer:
            self.shown[f"GET {address}"] = str(answer.headers).encode() + answer.read()
            return int(answer.status)

    def look_at_processes(self) -> int:
        """All that descend from this one, and what the kernel shows of them."""
        found = descendants(os.getpid())
        for pid in found:
            for file in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    self.shown[f"/proc/{pid}/{file}"] = Path(f"/proc/{pid}/{file}").read_bytes()
        return len(found)

    def look_at_files(self) -> list[str]:
        """Flight recordings as they are inflated."""
        for file in self.directory.rglob("*"):
            if file.is_file():
                content = file.read_bytes()
                self.shown[str(file)] = content
                parts = [part.entries for part in blocks(content) if isinstance(part, Block)]
                if parts:
                    self.shown[f"{file}, inflated"] = b"".join(bytes(part) for part in parts)
        return [name for name in self.shown if name.endswith("inflated")]


def descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in children for each in (int(child), *descendants(int(child)))]


def attack(port: int) -> None:
    """Right and wrong logins, and passwords that were typed where a name belongs."""
    for said in (
        client_token("alice", f"{CANARY}-alice"),
        client_token("alice", f"{CANARY}-wrong"),
        client_token(f"{CANARY}-as-a-name", "x"),
        f"{CANARY}-no-message".encode(),
    ):
        with Wire(port) as wire:
            wire.handshake("PLAIN")
            wire.token(said)
    for user, password in (("carol", f"{CANARY}-wrong"), (f"{CANARY}-as-a-name", "x")):
        with Wire(port) as wire:
            wire.handshake("SCRAM-SHA-256")
            wire.scram(ScramMechanism.SHA_256, user, password)


def ask_registry(cage: Cage, registry: RegistryProcess) -> None:
    for login in (f"ada:{CANARY}-ada", f"ada:{CANARY}-wrong", f"{CANARY}-as-a-name:x", None):
        statuses = [
            cage.get(f"{registry.address}{path}", login)
            for path in ("/", "/subjects", "/config", "/mode", "/schemas/types", "/metrics", "/nowhere")
        ]
        assert (200 in statuses) == (login == f"ada:{CANARY}-ada"), (login, statuses)


def follow_pages(cage: Cage, console: ConsoleProcess) -> None:
    """As somebody who mistypes, and then as the administrator, along the console's own links."""
    browser = ConsoleClient(console.address)
    for name, password in (("ada", f"{CANARY}-wrong"), (f"{CANARY}-as-a-name", "x")):
        page = browser.login(name, password)
        # The form keeps what was typed into the field for names; nobody else sees that.
        cage.shown[f"console, {name} refused"] = page.html.replace(f'value="{CANARY}-as-a-name"', "").encode()
    assert browser.login("ada", f"{CANARY}-console").path == "/"
    eventually(
        "the console sees the topic", lambda: "orders" in browser.get("/c/live/topics").html, timeout_s=60, every_s=0.5
    )
    told = browser.post(
        "/c/live/alerts/test", {**browser.get("/c/live/alerts").form("/alerts/test").fields, "rule": "hook"}
    )
    assert told.status == 200, told.html
    seen: set[str] = set()
    ahead = ["/", "/audit", *SERVICES, "/c/live/why", "/c/live/brokers", "/c/live/topics", "/c/live/access"]
    while ahead and len(seen) < MOST_PAGES:
        address = ahead.pop(0)
        if address in seen:
            continue
        seen.add(address)
        page = browser.get(address)
        cage.shown[f"console {address}"] = page.body
        links = [html.unescape(link) for link in re.findall(r'href="(/[^"#]*)', page.html)]
        ahead += [link for link in links if not link.startswith(("/static", "/logout"))]
    assert len(seen) >= FEWEST_PAGES, seen
    for address in SERVICES[:2]:
        assert "does not answer" in cage.shown[f"console {address}"].decode(), address


def test_no_canary_is_seen_from_outside(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    cage = Cage(tmp_path)
    admin, wrong = cage.client_file("admin", f"{CANARY}-admin"), cage.client_file("alice", f"{CANARY}-wrong")
    users = cage.write(
        "users.toml", f'[[user]]\nname = "ada"\nrole = "admin"\npassword = "{password_text(f"{CANARY}-ada")}"\n'
    )
    password = cage.write("carol.password", f"{CANARY}-carol\n")
    bootstrap = f"{HOST}:{cage.port}"
    console_settings = (
        f'login = true\npoll_ms = 300\n[[user]]\nname = "ada"\nrights = ["admin on *, values, unmasked"]\n'
        f'password = "{password_text(f"{CANARY}-console")}"\n[[cluster]]\nname = "live"\nbootstrap = "{bootstrap}"\n'
        f'sasl = {{ mechanism = "PLAIN", username = "admin", password = "{CANARY}-admin" }}\n'
        f'connect = "http://ada:{CANARY}-connect@{HOST}:{NOBODY}"\n'
        f'schema_registry = "http://ada:{CANARY}-registry@{HOST}:{NOBODY}"\n'
        # A test of it is sent, and nobody takes it.
        f'[[alert]]\nname = "hook"\nseverity = "warning"\nlag = 1\nwebhook = "http://{HOST}:{NOBODY}/{CANARY}-hook"\n'
        f'slack = "http://ada:{CANARY}-slack@{HOST}:{NOBODY}/"\npagerduty = "{CANARY}-routing-key"\n'
        f'pagerduty_address = "http://{HOST}:{NOBODY}/"\n'
        f'mail = {{ server = "{HOST}:{NOBODY}", sender = "k@example.com", to = ["o@example.com"], username = "ada", '
        f'password = "{CANARY}-mail" }}\n'
    )
    console = ConsoleProcess(console_settings, cage.own / "console")
    registry = RegistryProcess(bootstrap, cage.directory, "--client-config", str(admin), "--users", str(users))
    with cage.running("broker", "server", str(cage.broker_file())) as broker:
        eventually("the broker answers", lambda: broker.poll() is None and answers_metadata(cage.plain), timeout_s=60)
        own = ("--client-config", str(admin))
        assert cage.command("topics", "create", "orders", *own) == 0
        assert cage.command("users", "add", "carol", "--password-file", str(password), *own) == 0
        attack(cage.port)
        with console, registry:
            assert cage.look_at_processes() >= 3
            ask_registry(cage, registry)
            follow_pages(cage, console)
            for words in (
                ("topics", "list"),
                ("users", "list"),
                ("brokers", "describe", "1"),
                ("configs", "describe", "--broker", "1"),
                ("why",),
                ("why", "--json"),
                ("why", "slow"),
                ("why", "denied"),
                ("health", "--json"),
                ("security", "check", bootstrap),
                ("trace", "orders-0@0"),
            ):
                cage.command(*words, *own)
            assert "authenticate" in cage.shown[f"kavka why {' '.join(own)}"].decode()
            assert cage.command("topics", "list", "--client-config", str(wrong)) != 0
            assert cage.get(f"http://{HOST}:{cage.metrics}/metrics") == 200
            cage.look_at_processes()
        cage.shown["the console's log"] = console.log.encode()
    inflated = cage.look_at_files()
    assert inflated, "the broker records its flight"
    assert b"SaslAuthenticate" in cage.shown[f"kavka why slow {' '.join(own)}"] or any(
        b"authenticate" in cage.shown[name] for name in inflated
    )
    told = {name: found[:2] for name, content in cage.shown.items() if (found := canaries_in(content))}
    assert told == {}, told
