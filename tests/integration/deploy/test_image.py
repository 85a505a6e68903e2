"""The image of deploy/container/Dockerfile is built, and takes the place of apache/kafka: with Podman, if that is here.

Its base is Debian with Debian's Python (tools/setup_podman.sh), not the one that the Dockerfile names. Containers run
without rights, as the image's own user, and with a root that cannot be written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.clients.check_program import TOOLCHAIN_MISSING
from tests.integration.cli.test_container import CLUSTER_ID, RUNNING, write_and_read
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually

ROOT = Path(__file__).resolve().parents[3]
IMAGE = "localhost/kavka-tested"
BUILD_S, RUN_S, STOP_S = 1_800, 120, 60
CERTIFICATES = Path("/etc/ssl/certs")
CONFINED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges")
PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(BUILD_S + 600)]


class Podman:
    def __init__(self, program: str) -> None:
        self.program = program

    def __call__(self, *words: str, timeout_s: float = RUN_S) -> str:
        done = subprocess.run(
            [self.program, *words], capture_output=True, text=True, timeout=timeout_s, cwd=ROOT, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, name: str, variables: Mapping[str, str], *options: str) -> Iterator[str]:
        """A container that serves; it stops in order at the end."""
        given = [word for each in variables.items() for word in ("--env", "=".join(each))]
        self("run", "--detach", "--name", name, *CONFINED, *given, *options, IMAGE)
        try:
            eventually("it serves", lambda: RUNNING in self("logs", name), timeout_s=RUN_S)
            yield name
            self("stop", "--time", str(STOP_S), name, timeout_s=STOP_S + 30)
            assert self("inspect", name, "--format", "{{.State.ExitCode}}").strip() == "0"
        finally:
            self("rm", "--force", name)


@pytest.fixture(scope="module")
def podman() -> Podman:
    """With the image built."""
    found = subprocess.run(
        [ROOT / "tools" / "setup_podman.sh"], capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if found.returncode == TOOLCHAIN_MISSING:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    assert found.returncode == 0, found.stderr
    podman = Podman(found.stdout.strip().splitlines()[-1])
    # The build reaches the package index as this machine does, with its authorities.
    pip = Path(podman.program).with_name("pip.conf")
    pip.write_text(f"[global]\ncert = {CERTIFICATES / 'ca-certificates.crt'}\n")
    as_here = (
        "--network",
        "host",
        "--volume",
        f"{CERTIFICATES}:{CERTIFICATES}:ro",
        "--volume",
        f"{pip}:/etc/pip.conf:ro",
    )
    podman(
        *("build", "--format", "docker", *as_here, "--build-arg", "BASE=localhost/kavka-base"),
        *("--file", "deploy/container/Dockerfile", "--tag", IMAGE, "."),
        timeout_s=BUILD_S,
    )
    return podman


class Compose:
    """Docker Compose, with Podman's service in the place of Docker's."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program = program
        self._socket = folder / "socket"

    @contextmanager
    def running(self, podman: Podman, file: Path, variables: Mapping[str, str], *, brokers: int) -> Iterator[None]:
        environment = {**os.environ, **variables, "DOCKER_HOST": f"unix://{self._socket}"}

        def compose(*words: str) -> str:
            command = [self.program, "--project-name", "kavka-tested", "--file", str(file), *words]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=RUN_S + STOP_S, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        with served([podman.program, "system", "service", "--time", "0", f"unix://{self._socket}"], self._socket):
            try:
                compose("up", "--detach", "--no-build")
                eventually("they serve", lambda: compose("logs").count(RUNNING) >= brokers, timeout_s=RUN_S)
                yield
            finally:
                compose("down", "--volumes")


@pytest.fixture
def compose(tmp_path: Path) -> Compose:
    found = subprocess.run(
        [ROOT / "tools" / "setup_compose.sh"], capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if found.returncode == TOOLCHAIN_MISSING:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    assert found.returncode == 0, found.stderr
    return Compose(found.stdout.strip().splitlines()[-1], tmp_path)


def test_a_single_node_is_nobody_in_particular_and_its_volume_outlives_it(podman: Podman) -> None:
    """As `docker run -p 9092:9092`, with another port on this side; then a new container on the same volume."""
    port = free_port()
    variables = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
    }
    options = ("--publish", f"127.0.0.1:{port}:9092", "--volume", "kavka-tested:/var/lib/kafka/data")
    podman("volume", "rm", "--force", "kavka-tested")
    with podman.running("kavka-tested", variables, *options) as name:
        assert write_and_read(f"localhost:{port}", "orders") == [b"one"]
        assert podman("exec", name, "id", "--user").strip() == "1000"
        podman("healthcheck", "run", name)
        with pytest.raises(AssertionError, match="Read-only file system"):
            podman("exec", name, "touch", "/opt/kavka/x")
    with podman.running("kavka-tested", variables, *options):
        assert "orders" in AdminClient({"bootstrap.servers": f"localhost:{port}"}).list_topics(timeout=30).topics
    podman("volume", "rm", "kavka-tested")


def test_three_nodes_as_a_file_for_apache_kafka_has_them(podman: Podman) -> None:
    """Brokers that are controllers, too, and find each other by the names of their containers."""
    names = {node: f"kafka-{node}" for node in (1, 2, 3)}
    ports = {node: free_port() for node in names}
    podman("network", "rm", "--force", "kavka-tested")
    podman("network", "create", "kavka-tested")
    with ExitStack() as stack:
        stack.callback(podman, "network", "rm", "--force", "kavka-tested")
        for node, name in names.items():
            variables = {
                "KAFKA_NODE_ID": str(node),
                "KAFKA_PROCESS_ROLES": "broker,controller",
                "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": PROTOCOLS,
                "KAFKA_CONTROLLER_QUORUM_VOTERS": ",".join(f"{each}@{host}:9093" for each, host in names.items()),
                "KAFKA_LISTENERS": "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092",
                "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
                "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{name}:19092,PLAINTEXT_HOST://localhost:{ports[node]}",
                "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
                "CLUSTER_ID": CLUSTER_ID,
            }
            stack.enter_context(
                podman.running(
                    name,
                    variables,
                    *("--hostname", name, "--network", "kavka-tested"),
                    *("--publish", f"127.0.0.1:{ports[node]}:9092"),
                )
            )
        admin = AdminClient({"bootstrap.servers": f"localhost:{ports[3]}"})
        for made in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            made.result(30)
        assert write_and_read(f"localhost:{ports[2]}", "orders") == [b"one"]
        assert sorted(admin.list_topics(timeout=30).brokers) == [1, 2, 3]


SINGLE_NODE = """
services:
  broker:
    image: ${IMAGE}
    hostname: broker
    ports: ["127.0.0.1:${PORT_1}:9092"]
    read_only: true
    tmpfs: [/tmp]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT_HOST://localhost:${PORT_1},PLAINTEXT://broker:19092
      KAFKA_LISTENERS: CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092
      KAFKA_INTER_BROKER_LISTENER_NAME: PLAINTEXT
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@broker:29093
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_LOG_DIRS: /tmp/kraft-combined-logs
      CLUSTER_ID: ${CLUSTER_ID}
"""
"""As people write it for apache/kafka in KRaft mode."""


def test_compose_starts_a_file_for_apache_kafka(podman: Podman, compose: Compose, tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(SINGLE_NODE)
    port = free_port()
    with compose.running(podman, file, {"IMAGE": IMAGE, "PORT_1": str(port), "CLUSTER_ID": CLUSTER_ID}, brokers=1):
        assert write_and_read(f"localhost:{port}", "orders") == [b"one"]


def test_compose_starts_the_three_brokers_that_we_publish(podman: Podman, compose: Compose, tmp_path: Path) -> None:
    """deploy/container/compose.yaml, with other ports on this side and the image that was built already."""
    ports = {published: free_port() for published in ("29092", "39092", "49092")}
    text = (ROOT / "deploy" / "container" / "compose.yaml").read_text().replace("image: kavka", f"image: {IMAGE}")
    for published, port in ports.items():
        text = text.replace(published, str(port))
    file = tmp_path / "compose.yaml"
    file.write_text(text)
    with compose.running(podman, file, {}, brokers=3):
        admin = AdminClient({"bootstrap.servers": f"localhost:{ports['39092']}"})
        eventually("three brokers", lambda: sorted(admin.list_topics(timeout=30).brokers) == [1, 2, 3])
        for made in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            made.result(30)
        assert write_and_read(f"localhost:{ports['49092']}", "orders") == [b"one"]


def test_testcontainers_module_for_apache_kafka_starts_it(podman: Podman, tmp_path: Path) -> None:
    """The recipe's test, unchanged: Java's Testcontainers, and Podman's service in the place of Docker's."""
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not installed")
    folder = Path(shutil.copytree(ROOT / "recipes" / "junit", tmp_path / "junit"))
    socket = tmp_path / "socket"
    with served([podman.program, "system", "service", "--time", "0", f"unix://{socket}"], socket):
        environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{socket}",
            # Its janitor is another image, which is not here.
            "TESTCONTAINERS_RYUK_DISABLED": "true",
            "KAVKA_IMAGE": IMAGE,
        }
        words = ["mvn", "-q", "-B", "test", "-Dtest=ShopInDockerTest"]
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    report = ElementTree.parse(folder / "target" / "surefire-reports" / "TEST-shop.ShopInDockerTest.xml").getroot()
    assert (report.get("tests"), report.get("skipped")) == ("1", "0")


@contextmanager
def served(command: Sequence[str], socket: Path) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + RUN_S
        while not socket.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(STOP_S)
