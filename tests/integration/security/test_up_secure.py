"""`kavka up --secure`: the files that it writes let real clients in as they are, and nobody else gets in."""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.config.properties import parse_properties
from tests.kit.command_line import PROGRAM, run_alone
from tests.kit.process_cluster import eventually

COUNT = 20
MOST_PAGES = 120


def processes(pid: int) -> list[int]:
    """A process and those that it started, as the console."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in processes(int(child)))]


@contextmanager
def up(data: Path, *words: str, kill: bool = False) -> Iterator[dict[str, Any]]:
    """A running `kavka up`; what it told when it was ready. At the end it is stopped, or killed."""
    command = [str(PROGRAM), "up", "--port", "0", "--data", str(data), "--json", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield json.loads(line)
            password = (data / "security" / "admin.password").read_text().strip().encode()
            for each in processes(process.pid):
                for file in ("cmdline", "environ"):
                    assert password not in Path(f"/proc/{each}/{file}").read_bytes(), (each, file)
        finally:
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            rest, errors = process.communicate(timeout=60)
            password = (data / "security" / "admin.password").read_text().strip()
            for text in (line, rest, errors, " ".join(command)):
                assert password not in text


def librdkafka(data: Path) -> dict[str, Any]:
    return dict(parse_properties((data / "security" / "admin.librdkafka.conf").read_text()))


def python(data: Path) -> dict[str, str]:
    lines = (data / "security" / "admin.env").read_text().splitlines()
    return {name: shlex.split(value)[0] for name, _, value in (line.partition("=") for line in lines)}


def write_and_read(settings: dict[str, Any], topic: str) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer(settings)
    failures: list[object] = []
    for number in range(COUNT):
        producer.produce(topic, f"{number}", on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(60) == 0
    assert not failures
    consumer = Consumer({**settings, "group.id": f"readers-of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        for _ in range(600):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value())
            if len(found) == COUNT:
                break
    finally:
        consumer.close()
    assert sorted(found) == sorted(f"{number}".encode() for number in range(COUNT))


def test_real_clients_get_in_with_the_files_as_they_are_before_and_after_kill_9(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--brokers", "3", "--secure", kill=True) as ready:
        first = {path.name: path.read_text() for path in (data / "security").iterdir()}
        assert len(ready["brokers"]) == 3
        assert ready["zookeeper"] is None
        made = run_alone(
            "topics", "create", "orders", "-r", "3", KAVKA_CLIENT_CONFIG=str(data / "security/admin.properties")
        )
        assert made.returncode == 0, made.stderr
        write_and_read(librdkafka(data), "orders")
        kafka_python_and_aiokafka(python(data))
        open_to_nobody_else(ready["bootstrap"], data)
    # Without the option: the directory says that it is secured.
    with up(data, "--brokers", "3") as ready:
        second = {path.name: path.read_text() for path in (data / "security").iterdir()}
        same = [name for name in first if name.startswith(("ca", "authority", "broker", "admin.password"))]
        assert {name: second[name] for name in same} == {name: first[name] for name in same}
        write_and_read(librdkafka(data), "invoices")
        a_user_with_rights_and_files(data, tmp_path / "hers", ready["bootstrap"].split(","))


def a_user_with_rights_and_files(data: Path, hers: Path, addresses: list[str]) -> None:
    admin = {"KAVKA_CLIENT_CONFIG": str(data / "security/admin.properties")}
    words = ["--allow", "all:alice-*", "--allow", "read:invoices", "--group", "readers-of-*", "--files", str(hers)]
    added = run_alone("users", "add", "alice", *words, **admin)
    assert added.returncode == 0, added.stderr
    settings: dict[str, Any] = dict(parse_properties((hers / "alice.librdkafka.conf").read_text()))
    assert settings["sasl.password"].encode() not in added.stdout + added.stderr
    assert {path.stat().st_mode & 0o777 for path in hers.iterdir()} == {0o600}
    alice = {"KAVKA_CLIENT_CONFIG": str(hers / "alice.properties")}

    def lists_on(address: str) -> list[Any]:
        found: list[Any] = json.loads(run_alone("acls", "list", "--json", "-b", address, **admin).stdout)
        return found

    # One broker made the change, and the others hear of it from ZooKeeper, as Apache Kafka's do.
    for each in addresses:
        eventually(f"{each} lets her in", lambda: run_alone("topics", "list", "-b", each, **alice).returncode == 0)  # noqa: B023
        eventually(f"{each} knows her rights", lambda: len(lists_on(each)) == 3)  # noqa: B023
    write_and_read(settings, "alice-own")
    read = run_alone("consume", "invoices", "-o", "beginning", "-e", **alice)
    assert len(read.stdout.splitlines()) == COUNT, read.stderr
    refused = run_alone("produce", "invoices", given=b"x", **alice)
    assert refused.returncode == 1
    assert run_alone("users", "list", **alice).returncode == 1
    left = json.loads(run_alone("users", "remove", "alice", "--yes", "--json", **admin).stdout)
    assert len(left["acls_left"]) == 3
    again = json.loads(run_alone("users", "remove", "alice", "--yes", "--json", "--acls", **admin).stdout)
    assert again["acls_removed"] == left["acls_left"]
    for each in addresses:
        eventually(f"{each} knows of no right", lambda: lists_on(each) == [])  # noqa: B023


def kafka_python_and_aiokafka(variables: dict[str, str]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.helpers import create_ssl_context
    from kafka import KafkaProducer

    shared: dict[str, Any] = {
        "bootstrap_servers": variables["KAFKA_BOOTSTRAP_SERVERS"].split(","),
        "security_protocol": variables["KAFKA_SECURITY_PROTOCOL"],
        "sasl_mechanism": variables["KAFKA_SASL_MECHANISM"],
        "sasl_plain_username": variables["KAFKA_SASL_USERNAME"],
        "sasl_plain_password": variables["KAFKA_SASL_PASSWORD"],
    }
    producer = KafkaProducer(**shared, ssl_cafile=variables["KAFKA_SSL_CAFILE"])
    assert producer.send("from-python", b"hello").get(60).offset == 0
    producer.close()

    async def read() -> bytes | None:
        context = create_ssl_context(cafile=variables["KAFKA_SSL_CAFILE"])
        consumer = AIOKafkaConsumer("from-python", **shared, ssl_context=context, auto_offset_reset="earliest")
        async with consumer:
            record = await asyncio.wait_for(consumer.getone(), 60)
            value: bytes | None = record.value
            return value

    assert asyncio.run(read()) == b"hello"


def open_to_nobody_else(bootstrap: str, data: Path) -> None:
    first = bootstrap.split(",")[0]
    anonymous = run_alone("topics", "list", "-b", first)
    assert anonymous.returncode == 1
    wrong = data / "wrong.properties"
    right = (data / "security" / "admin.properties").read_text()
    password = (data / "security" / "admin.password").read_text().strip()
    wrong.write_text(right.replace(password, "x" * len(password)))
    refused = run_alone("topics", "list", "--client-config", str(wrong))
    assert refused.returncode == 1
    assert password.encode() not in refused.stderr


@pytest.mark.thorough
def test_with_certificates_instead_of_passwords(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--secure", "--mtls") as ready:
        (address,) = ready["listeners"].values()
        settings = librdkafka(data)
        assert settings["bootstrap.servers"] == address
        assert "sasl.password" not in settings
        write_and_read(settings, "orders")
        listed = run_alone("acls", "list", KAVKA_CLIENT_CONFIG=str(data / "security/admin.properties"))
        assert listed.returncode == 0, listed.stderr
        assert run_alone("topics", "list", "-b", address).returncode == 1


def secrets_of(data: Path) -> list[str]:
    """The password, and a line of each private key."""
    files = (file.read_text() for file in (data / "security").iterdir() if file.is_file())
    keys = [text.split("PRIVATE KEY-----")[1].split()[0] for text in files if "PRIVATE KEY-----" in text]
    found = [(data / "security" / "admin.password").read_text().strip(), *keys]
    assert len(found) >= 3, "the authority, a broker and the console have keys"
    return found


def require_no_secret_on_any_page(browser: Any, console: str, secrets: list[str]) -> None:
    """Follows the console's own links, and looks at what is shown to its administrator."""
    seen: set[str] = set()
    ahead = ["/", "/c/local/topics", "/c/local/brokers", "/audit"]
    while ahead and len(seen) < MOST_PAGES:
        address = ahead.pop(0)
        if address in seen:
            continue
        seen.add(address)
        try:
            answer = browser.open(f"{console}{address}", timeout=60)
        except urllib.error.HTTPError as refused:
            answer = refused
        if "text/html" not in answer.headers.get("content-type", ""):
            continue
        page = answer.read().decode(errors="replace")
        assert not [secret for secret in secrets if secret in page], address
        ahead += [
            html.unescape(link) for link in re.findall(r'href="(/[^"#]*)', page) if not link.startswith("/static")
        ]
    assert len(seen) >= 15, seen


@pytest.mark.thorough
def test_the_console_beside_asks_for_a_login_and_reaches_the_cluster(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    data = tmp_path / "data"
    command = [str(PROGRAM), "up", "--port", "0", "--data", str(data), "--json", "--secure", "--console-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = [json.loads(process.stdout.readline()) for _ in range(2)]
            (console,) = [each["address"].rstrip("/") for each in told if each["event"] == "console"]
            assert console.startswith("https://127.0.0.1:")
            trust = urllib.request.HTTPSHandler(
                context=ssl.create_default_context(cafile=str(data / "security" / "ca.pem"))
            )
            password = (data / "security" / "admin.password").read_text().strip()
            made = run_alone("topics", "create", "invoices", "--client-config", str(data / "security/admin.properties"))
            assert made.returncode == 0, made.stderr
            with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
                urllib.request.urlopen(console, timeout=60)
            browser = urllib.request.build_opener(trust, urllib.request.HTTPCookieProcessor())
            assert "/login" in browser.open(console, timeout=60).url
            with pytest.raises(urllib.error.HTTPError, match="401"):
                browser.open(f"{console}/metrics", timeout=60)
            login_page = browser.open(f"{console}/login", timeout=60).read().decode()
            fields = dict(re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', login_page))
            form = urllib.parse.urlencode({**fields, "name": "admin", "password": password}).encode()
            page = browser.open(urllib.request.Request(f"{console}/login", form, {"Origin": console}), timeout=60)
            assert "/login" not in page.url
            for _ in range(300):
                overview = browser.open(f"{console}/", timeout=60).read().decode()
                assert password not in overview
                if "invoices" in browser.open(f"{console}/c/local/topics", timeout=60).read().decode():
                    break
                time.sleep(0.1)
            else:
                raise AssertionError("the console does not see the cluster")
            require_no_secret_on_any_page(browser, console, secrets_of(data))
            for each in processes(process.pid):
                for file in ("cmdline", "environ"):
                    content = Path(f"/proc/{each}/{file}").read_bytes().decode(errors="replace")
                    assert not [secret for secret in secrets_of(data) if secret in content], (each, file)
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.mark.thorough
def test_insecure_says_so_and_fails_a_health_check(tmp_path: Path) -> None:
    host = "127.0.0.1"
    data = tmp_path / "data"
    command = [str(PROGRAM), "up", "--port", "0", "--data", str(data), "--json", "--insecure", "--no-console"]
    command += ["--host", "0.0.0.0", "--advertise", host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            (address,) = ready["listeners"].values()
            found = run_alone("health", "-b", address)
            assert found.returncode == 1
            assert b"in clear" in found.stdout, found
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=60)
    assert "Insecure: whoever reaches PLAINTEXT://:0" in errors
    assert os.path.isdir(data / "logs")
