"""The process in which an expression is worked out that could take long, or much memory. It runs as a file by itself.

Decides how much of the machine one record's expression gets: the kernel ends the process that takes more. Must not know
the console (apart.py starts it), so that it is small and there at once.

    in    4 bytes: how many follow; pickle of (the expression's text, the names it knows). The console writes it, nobody
          else.
    out   4 bytes: how many follow; JSON of (whether it is true, or null where it failed; why; seconds it took)

I1  One record gets CPU_S of a processor, however busy the machine is: SIGPROF then ends the process, also inside of
    CEL's own code, which nothing else interrupts.
I2  It holds MEMORY_BYTES at most: CEL's allocation fails, and that ends the process.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import resource
import signal
import sys
import time
from functools import lru_cache
from typing import Any, BinaryIO

CPU_S = 0.5
MEMORY_BYTES = 512 * 1024 * 1024
PROGRAMS = 32
FAILURES = (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError, IndexError)
"""What CEL raises for a record that an expression does not fit."""


@lru_cache(maxsize=PROGRAMS)
def program(text: str) -> Any:
    import cel  # late: the console imports this module for what stands above

    return cel.compile(text)


def short(failure: Exception) -> str:
    said = f"no such field: {failure}" if isinstance(failure, KeyError) else str(failure)
    return " ".join(said.split())[:300]


def answered(text: str, known: dict[str, object]) -> tuple[bool | None, str, float]:
    made = program(text)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        return made.execute(known) is True, "", time.process_time() - began
    except FAILURES as failed:
        return None, short(failed), time.process_time() - began
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def serve(asked: BinaryIO, told: BinaryIO) -> None:
    """Until nobody asks any more."""
    while head := asked.read(4):
        answer = json.dumps(answered(*pickle.loads(asked.read(int.from_bytes(head))))).encode()
        told.write(len(answer).to_bytes(4) + answer)
        told.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the console, and with it what is asked here.
    with contextlib.suppress(OSError, ValueError):  # Not every system has such a bound.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(sys.stdin.buffer, sys.stdout.buffer)
