"""Alerts over a live cluster: a broker dies and returns, and somebody is told both; a test, a silence, a refusal."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from confluent_kafka.admin import AdminClient, NewTopic

from kavka.testing import Cluster
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.patience import PATIENT
from tests.kit.process_cluster import eventually


class Receiver(ThreadingHTTPServer):
    """Takes what is posted; refuses the next `refusals`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refusals = 0
        self.taken: list[tuple[str, Any]] = []
        """Paths and bodies."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def statuses(self, path: str, key: str) -> list[str]:
        return [body["status"] for where, body in self.taken if where == path and body["key"] == key]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.server.refusals > 0:
            self.server.refusals -= 1
            self.send_error(503, "not today")
            return
        self.server.taken.append((self.path, body))
        self.send_response(202)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


class _Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP as one letter needs."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                letter = b""
                while (part := self.rfile.readline()) not in (b".\r\n", b""):
                    letter += part
                self.server.letters.append(letter.decode())  # type: ignore[attr-defined]
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")
            if word == b"QUIT":
                return


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def test_somebody_is_told_when_a_broker_dies_and_when_it_is_back(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(brokers=2, settings=PATIENT))
        receiver = stack.enter_context(serving(Receiver()))
        mailbox = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mailbox)
        mailbox.letters = []  # type: ignore[attr-defined]
        stack.enter_context(serving(mailbox))
        port = mailbox.server_address[1]
        mail = f'server = "127.0.0.1:{port}", sender = "k@example.com", to = ["a@example.com"], tls = false'
        settings = (
            f'poll_ms = 300\n[health]\nunder_replicated_ms = 0\n[[cluster]]\nname = "live"\n'
            f'bootstrap = "{cluster.bootstrap_servers}"\n'
            f'[[alert]]\nname = "on call"\nchecks = ["*"]\nfor_s = 0\nwebhook = "{receiver.address}/hook"\n'
            f'slack = "{receiver.address}/slack-secret"\nconsole = "https://kavka.example.com"\n'
            f'[[alert]]\nname = "night"\nseverity = "critical"\nfor_s = 3600\npagerduty = "key-secret"\n'
            f'pagerduty_address = "{receiver.address}/pager"\nmail = {{ {mail} }}\n'
        )
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 2, 2)])["orders"].result(30)
        console = stack.enter_context(ConsoleProcess(settings, tmp_path))
        client, place = ConsoleClient(console.address), "/c/live/alerts"

        page = eventually("the rules are there", lambda: _shown(client, place, "on call"))
        assert "secret" not in page.html
        eventually("quiet", lambda: "Nothing fires" in client.get(place).text)
        receiver.taken.clear()
        assert _sent(client, place, "/alerts/test", rule="night", form=1).path == place
        (paged,) = [body for where, body in receiver.taken if where == "/pager"]
        assert paged["routing_key"] == "key-secret"
        assert "Subject: [test] live: test" in mailbox.letters[0]  # type: ignore[attr-defined]
        assert "delivered" in client.get(place).text

        key = "check under-replicated"
        receiver.refusals = 1
        cluster.kill(2)
        eventually("told", lambda: "firing" in receiver.statuses("/hook", key))
        (first,) = [body for where, body in receiver.taken if where == "/hook" and body["key"] == key]
        assert first["link"] == "https://kavka.example.com/c/live/#check-under-replicated"
        assert "orders" in first["text"]
        eventually("told in Slack, too", lambda: any(where == "/slack-secret" for where, _body in receiver.taken))
        page = eventually("shown", lambda: _shown(client, place, key))

        console.stop()
        console.start()
        eventually("shown again", lambda: _shown(client, place, key))
        cluster.start(2)
        eventually("told that it is over", lambda: "resolved" in receiver.statuses("/hook", key))
        assert receiver.statuses("/hook", key) == ["firing", "resolved"], "a restart tells nothing twice"

        page = client.submit(client.get(place), "/alerts/silences", pattern="check *", why="work", hours="1")
        assert "check * until" in page.text
        cluster.kill(2)
        eventually("silenced", lambda: _shown(client, place, "silenced"))
        assert receiver.statuses("/hook", key) == ["firing", "resolved"]
        assert client.submit(client.get(place), "/end").path == place
        eventually("told", lambda: receiver.statuses("/hook", key)[-1] == "firing")
        assert "work" in client.get("/audit").text or "silence" in client.get("/audit").text
        assert client.submit(client.get(place), "/alerts/silences", pattern="", hours="1").status == 400
        assert not console.failures, console.failures


def _shown(client: ConsoleClient, path: str, text: str) -> Any:
    page = client.get(path)
    return page if text in page.text else None


def _sent(client: ConsoleClient, path: str, action: str, *, rule: str, form: int) -> Any:
    found = [each for each in client.get(path).forms() if each.action.endswith(action)]
    return client.post(found[form].action, {**found[form].fields, "rule": rule})
