"""The scripts of a release's bin/, for who follows a page that calls them: each runs the class that the original runs.

Their names and arguments are those of the release; heaps are a test's, and the logs' form is this folder's.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from tests.apache_kafka.release import SMALL_FLAGS, Release

SERVERS: Final = {
    "zookeeper-server-start.sh": ("org.apache.zookeeper.server.quorum.QuorumPeerMain", "-Xmx128M"),
    "kafka-server-start.sh": ("kafka.Kafka", "-Xmx256M"),
}


def lay_scripts(directory: Path, mode: str) -> None:
    """Writes bin/ of the release of `mode` into a directory. Raises PeerMissing."""
    release = Release.named(mode)
    release.installed()
    place = directory / "bin"
    place.mkdir()
    for name, (main, heap) in SERVERS.items():
        options = [heap, *SMALL_FLAGS, "-Dzookeeper.admin.enableServer=false"]
        _write(place / name, release.server_command(main, options=options))
    for tool in release.tools():
        _write(place / f"kafka-{tool}.sh", release.tool_command(tool))


def _write(path: Path, command: list[str]) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)
