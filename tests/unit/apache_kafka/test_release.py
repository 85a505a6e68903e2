"""The cache of jars: fetched once, and again when the pom names others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache_kafka import PeerMissing, Release

MAVEN = """#!/bin/sh
for argument; do case "$argument" in -DoutputDirectory=*) directory="${argument#-DoutputDirectory=}";; esac; done
mkdir -p "$directory"
echo "$@" >> "$(dirname "$0")/calls"
touch "$directory/fetched-$(wc -l < "$(dirname "$0")/calls").jar"
"""


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose mvn makes one jar per call; its file `calls` has a line for each."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("mvn", MAVEN), ("java", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA", raising=False)
    monkeypatch.setenv("PEERS_HOME", str(tmp_path / "peers"))
    return programs


@pytest.fixture
def release(maven: Path, tmp_path: Path) -> Release:
    (tmp_path / "pom.xml").write_text("<project>one</project>")
    return Release("3.9.9", pom=tmp_path / "pom.xml")


def jars(release: Release) -> list[str]:
    return sorted(path.name for path in release.installed().glob("*.jar"))


def test_jars_are_fetched_once(release: Release, maven: Path) -> None:
    assert jars(release) == jars(release) == ["fetched-1.jar"]
    assert "-Dkafka.version=3.9.9" in (maven / "calls").read_text()


def test_jars_are_fetched_again_when_the_pom_names_others(release: Release, tmp_path: Path) -> None:
    assert jars(release) == ["fetched-1.jar"]
    (tmp_path / "pom.xml").write_text("<project>two</project>")
    assert jars(release) == ["fetched-2.jar"]
    assert sorted(path.name for path in (tmp_path / "peers").iterdir()) == [".install.lock", "kafka-3.9.9"]


def test_jars_that_cannot_be_fetched_leave_those_that_are_there(release: Release, maven: Path, tmp_path: Path) -> None:
    assert jars(release) == ["fetched-1.jar"]
    (tmp_path / "pom.xml").write_text("<project>three</project>")
    (maven / "mvn").write_text("#!/bin/sh\necho no such artifact\nexit 1\n")
    with pytest.raises(PeerMissing, match="no such artifact"):
        release.installed()
    assert [path.name for path in release.jars.glob("*.jar")] == ["fetched-1.jar"]
