from __future__ import annotations

import asyncio
import resource

import pytest

from kavka.runtime.loop import (
    LOOP_VARIABLE,
    MOST_OPEN_SEGMENTS,
    OTHER_FILES,
    new_event_loop,
    raise_file_limit,
    run,
    share_files,
)


@pytest.mark.parametrize(("wanted", "module"), [("asyncio", "asyncio"), ("uvloop", "uvloop"), ("", "uvloop")])
def test_the_loop_is_the_one_that_was_asked_for(monkeypatch: pytest.MonkeyPatch, wanted: str, module: str) -> None:
    pytest.importorskip("uvloop")
    monkeypatch.setenv(LOOP_VARIABLE, wanted)
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.startswith(module)


def test_an_unknown_loop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOP_VARIABLE, "trio")
    with pytest.raises(ValueError, match="KAVKA_LOOP=trio"):
        new_event_loop()


def test_run_gives_what_its_coroutine_returns() -> None:
    async def main() -> str:
        await asyncio.sleep(0)
        return "done"

    assert run(main()) == "done"


def test_the_limit_of_open_files_is_raised_as_far_as_it_may() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard) - 1, hard))
        assert raise_file_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("limit", [66, 100, 1024, 4096, 1 << 20])
def test_connections_and_segments_never_want_more_files_than_there_are(limit: int) -> None:
    shares = share_files(limit)
    assert shares.connections + shares.segments + OTHER_FILES <= limit
    assert 1 <= shares.segments <= MOST_OPEN_SEGMENTS
    assert shares.connections >= shares.segments
