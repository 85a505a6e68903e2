"""The programs of docs/clients.md do what it says, as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.clients.check_program import PROJECT, set_up
from tests.kit.kavka_process import KavkaProcess

TIMEOUT_S = 90
PAGE = (PROJECT / "docs" / "clients.md").read_text()
LEFT_OUT = r"(?<!installs -->\n)(?<!another machine -->\n)"
SECTION = re.compile(rf"^## ([\w-]+)(?:(?!^## ).)*?{LEFT_OUT}^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SNIPPETS = {name: (language, program) for name, language, program in SECTION.findall(PAGE)}


def python(program: str, directory: Path) -> list[str]:
    (directory / "letters.py").write_text(program)
    return [sys.executable, "letters.py"]


def sh(program: str, directory: Path) -> list[str]:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed: apt-get install kcat")
    return ["sh", "-e", "-c", program]


def java(program: str, directory: Path) -> list[str]:
    (directory / "Letters.java").write_text(program)
    return ["java", "-cp", set_up("setup_java_clients.sh", "4.3.1"), "Letters.java"]


def js(program: str, directory: Path) -> list[str]:
    (directory / "letters.js").write_text(program)
    os.symlink(Path(set_up("setup_kafkajs.sh")) / "node_modules", directory / "node_modules")
    return ["node", "letters.js"]


def go(program: str, directory: Path) -> list[str]:
    set_up("setup_go_client.sh", "franz-go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(Path(__file__).parent / "franz-go" / name, directory)
    (directory / "main.go").write_text(program)
    return ["go", "run", "-mod=mod", "."]


RUNNERS: dict[str, Callable[[str, Path], list[str]]] = {"python": python, "sh": sh, "java": java, "js": js, "go": go}


def test_every_client_is_found() -> None:
    assert list(SNIPPETS) == ["confluent-kafka", "aiokafka", "kafka-python", "kcat", "Java", "kafkajs", "franz-go"]


@pytest.mark.parametrize("client", SNIPPETS)
def test_a_documented_program_reads_back_what_it_sent(client: str, kavka_broker: KavkaProcess, tmp_path: Path) -> None:
    language, program = SNIPPETS[client]
    topic = f"letters-{uuid.uuid4().hex}"
    for documented, own in (("127.0.0.1:9092", kavka_broker.bootstrap), ("letters", topic), ("readers", topic)):
        assert documented in program or (client, documented) == ("kcat", "readers")
        program = program.replace(f'"{documented}', f'"{own}').replace(f"'{documented}", f"'{own}")
        program = program.replace(f" {documented} ", f" {own} ")
    result = subprocess.run(
        RUNNERS[language](program, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    # kafkajs logs to standard output, in lines of JSON.
    printed = [line for line in result.stdout.splitlines() if not line.startswith("{")]
    assert printed == ["you hello"], result.stderr
