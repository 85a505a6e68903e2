"""The end of standard input ends a start: `kavka up --stop-with-stdin`.

For programs that start kavka, as test suites do: the kernel closes their end of the pipe however they end, so that no
brokers stay behind one that was killed. PR_SET_PDEATHSIG would not do: it tells of the end of the thread that started
the process, and a test suite's thread may end long before it.
"""

from __future__ import annotations

import os
import signal
import threading

READ_BYTES = 4096


def stop_with_stdin() -> None:
    """From now on the end of standard input is this process's SIGTERM. What is written there is not looked at."""
    threading.Thread(target=_wait_for_the_end, name="kavka-stdin", daemon=True).start()


def _wait_for_the_end() -> None:
    try:
        while os.read(0, READ_BYTES):
            pass
    except OSError:
        pass  # It was closed before the start.
    os.kill(os.getpid(), signal.SIGTERM)
