"""Apart: expressions that could take long are worked out in processes of their own, so that the console goes on.

Decides how many such processes there are, and when one is given up. Must not know what an expression says; what one
may take of the machine is the process's (expression_process.py).

I1  At most `PROCESSES` run, for all searches and live tails of a console together; the first when it is needed.
I2  A process that ends, or does not answer within `ANSWER_S`, or whose search was called off while it worked, is
    killed, and the next record gets a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kavka.console.messages.expression_process import CPU_S

PROCESSES: Final = 2
ANSWER_S: Final = 20.0
"""With its start. Its processor time takes longer where others have the machine."""
_PROGRAM: Final = Path(__file__).with_name("expression_process.py")


class Answer(NamedTuple):
    """is_true: None where the expression failed, `why` says how. is_given_up: it took too long, or too much memory."""

    is_true: bool | None
    why: str
    took_s: float
    is_given_up: bool = False


GIVEN_UP: Final = Answer(None, "", CPU_S, is_given_up=True)


class Apart:
    """The processes of one console. Of one event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(PROCESSES)
        self._idle: list[asyncio.subprocess.Process] = []
        self.processes = 0

    async def work_out(self, text: str, known: Mapping[str, object]) -> Answer:
        async with self._turns:
            process = self._idle.pop() if self._idle else await self._started()
            is_kept = False
            try:
                async with asyncio.timeout(ANSWER_S):
                    answer = await _asked(process, pickle.dumps((text, dict(known))))
                is_kept = True
            except (OSError, EOFError, TimeoutError):
                return GIVEN_UP
            finally:
                if is_kept:
                    self._idle.append(process)
                else:
                    await self._end(process)
            return answer

    async def close(self) -> None:
        for process in self._idle:
            await self._end(process)
        self._idle.clear()

    async def _started(self) -> asyncio.subprocess.Process:
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", str(_PROGRAM), stdin=pipe, stdout=pipe, stderr=nothing
        )
        self.processes += 1
        return process

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        self.processes -= 1
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


async def _asked(process: asyncio.subprocess.Process, question: bytes) -> Answer:
    """Raises OSError and EOFError (asyncio.IncompleteReadError) where the process ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(len(question).to_bytes(4) + question)
    await process.stdin.drain()
    size = int.from_bytes(await process.stdout.readexactly(4))
    is_true, why, took_s = json.loads(await process.stdout.readexactly(size))
    return Answer(is_true, why, took_s)
