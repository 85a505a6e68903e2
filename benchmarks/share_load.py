"""ShareLoad: Java's share consumers as load; load/ShareLoad.java takes commands and answers each with what it measured.

Kafka's own client, of the release that is compared with: librdkafka's is a preview, and kavka's is kavka's.
"""

from __future__ import annotations

import json
import select
import subprocess
from types import TracebackType
from typing import Final

from tests.apache_kafka.release import Release, java

from benchmarks import PROJECT
from benchmarks.load_generator import LoadFailed

SOURCE: Final = PROJECT / "benchmarks" / "load" / "ShareLoad.java"
CLASSES: Final = PROJECT / "build" / "share-load"
ANSWER_S: Final = 200.0
"""The program ends a command that does not come to its end earlier, and says why."""


def build() -> str:
    """Compiles the program where it is missing or older than its source; returns its class path. Raises LoadFailed."""
    release = Release.named("kraft")
    release.installed()
    compiled = CLASSES / "ShareLoad.class"
    if not compiled.exists() or compiled.stat().st_mtime < SOURCE.stat().st_mtime:
        CLASSES.mkdir(parents=True, exist_ok=True)
        command = ["javac", "-nowarn", "-d", str(CLASSES), "-cp", release.class_path, str(SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise LoadFailed("needs a JDK (javac): apt-get install default-jdk-headless") from None
        if done.returncode:
            raise LoadFailed(f"could not compile {SOURCE}: {done.stderr}")
    return f"{CLASSES}:{release.class_path}"


class ShareLoad:
    """The program, which runs while this is entered."""

    def __init__(self, bootstrap: str) -> None:
        options = ["-XX:+UseSerialGC", "-Xms256M", "-Xmx512M"]
        self._command = [java(), *options, "-cp", build(), "ShareLoad", bootstrap]

    def ask(self, *words: object) -> dict[str, float]:
        """What a command has measured. Raises LoadFailed."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        line = " ".join(map(str, words))
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        # Each command has one line for an answer, and none is asked before the one before is read: nothing is buffered.
        is_there = select.select([process.stdout], [], [], ANSWER_S)[0]
        answer = process.stdout.readline() if is_there else ""
        if not answer:
            process.kill()
            raise LoadFailed(f"{line}: {process.communicate()[1][-1000:] or f'no answer in {ANSWER_S:.0f} s'}")
        found: dict[str, float] = json.loads(answer)
        return found

    def __enter__(self) -> ShareLoad:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
