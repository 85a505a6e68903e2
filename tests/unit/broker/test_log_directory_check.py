"""Where a broker's logs are: when one that would begin without them refuses to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kavka.broker.membership.adoption import Claims
from kavka.broker.membership.log_directory_check import require_logs
from kavka.config.broker import BrokerConfig
from kavka.errors import ConfigError, LogsElsewhere
from kavka.log.decide.checkpoint import META_PROPERTIES, MetaProperties, format_meta_properties
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.znodes import LogDirectories, MalformedZNode, TopicAssignment

TOPIC = TopicAssignment("t", {0: (1,), 1: (1, 2), 2: (2,)}, None)
CLAIMS = Claims(1, {"t": TOPIC})


def directory(path: Path, *logs: str, broker_id: int | None = 1) -> str:
    for log in logs:
        (path / log).mkdir(parents=True)
    path.mkdir(exist_ok=True)
    if broker_id is not None:
        (path / META_PROPERTIES).write_bytes(format_meta_properties(MetaProperties(broker_id, "c")))
    return str(path)


def require(former: list[str], present: list[str], *, abandoned: tuple[str, ...] = (), claims: Claims = CLAIMS) -> None:
    require_logs(LocalFileSystem(), broker_id=1, former=former, present=present, abandoned=abandoned, claims=claims)


def test_only_new_directories_are_refused_whether_the_former_are_there_or_not(tmp_path: Path) -> None:
    there, gone, new = directory(tmp_path / "there", "t-0"), str(tmp_path / "gone"), str(tmp_path / "new")
    for former in (there, gone):
        with pytest.raises(LogsElsewhere, match=f"broker 1 has its logs in {former}, and log.dirs={new} is new"):
            require([former], [new])
        require([former], [new], abandoned=(former,))
    assert not Path(new).exists()


def test_a_broker_without_partitions_may_begin_anywhere(tmp_path: Path) -> None:
    require([str(tmp_path / "gone")], [str(tmp_path / "new")], claims=Claims(3, {"t": TOPIC}))


def test_the_same_directories_may_be_empty_and_more_may_be_added(tmp_path: Path) -> None:
    former = directory(tmp_path / "disk", broker_id=None)
    require([former], [former, str(tmp_path / "more")])
    require([], [str(tmp_path / "new")])


def test_a_directory_left_out_is_refused_only_while_it_has_logs_that_are_nowhere_else(tmp_path: Path) -> None:
    first, second = directory(tmp_path / "a", "t-0"), directory(tmp_path / "b", "t-1", "t-2", "old-0")
    with pytest.raises(LogsElsewhere, match=rf"its log of t-1 in {second}, which log.dirs={first} leaves out"):
        require([first, second], [first])
    require([first, second], [first], abandoned=(second,))
    shutil.copytree(Path(second) / "t-1", Path(first) / "t-1")
    require([first, second], [first])


def test_a_directory_of_another_broker_or_that_is_gone_may_be_left_out(tmp_path: Path) -> None:
    first, others = directory(tmp_path / "a", "t-0"), directory(tmp_path / "b", "t-1", broker_id=2)
    require([first, others], [first])
    require([first, str(tmp_path / "gone")], [first])


def test_a_moved_directory_is_taken_as_it_is(tmp_path: Path) -> None:
    require([str(tmp_path / "former")], [directory(tmp_path / "moved", "t-0")])


def test_log_directories_are_absolute_and_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = BrokerConfig.from_properties({"log.dirs": "logs, /data/ ", "kavka.abandoned.log.dirs": "old"})
    assert config.log_directories == (f"{tmp_path}/logs", "/data")
    assert config.abandoned_log_directories == (f"{tmp_path}/old",)
    with pytest.raises(ConfigError, match="Each log directory may be named once"):
        BrokerConfig.from_properties({"log.dirs": f"logs,{tmp_path}/logs"})


def test_what_is_written_down_is_read_again() -> None:
    assert LogDirectories.decode(1, LogDirectories(("/a", "/b")).encode()) == LogDirectories(("/a", "/b"))
    for data in (b"", b"[]", b'{"version":1}', b'{"version":1,"directories":[1]}'):
        with pytest.raises(MalformedZNode):
            LogDirectories.decode(1, data)
