"""The entry of the program `kavka`.

Decides one thing: whether a command line is a plain `kavka up` or `kavka server`, which then starts without typer
(its import costs a tenth of a broker's start), or anything else, help and mistakes included, which typer handles.

I1. The short way takes exactly what typer would take, and does the same (tests/unit/cli/test_start.py).
"""

from __future__ import annotations

import os
import sys


def main(arguments: list[str] | None = None) -> int:
    """Runs one command line and returns the exit status."""
    from kavka.cli.run.start import quick_start, start

    _open_closed_streams()
    words = sys.argv[1:] if arguments is None else arguments
    plan = quick_start(words)
    if plan is not None:
        status = start(plan)
        if arguments is None:
            from kavka.runtime.process import leave

            leave(status)
        return status
    from kavka.cli.app import run

    return run(words)


def _open_closed_streams() -> None:
    """Puts /dev/null in the place of standard streams that are closed (`>&-`, or a daemon's parent closed them).

    Else the first file or socket that is opened becomes standard output: libuv aborts the program when it closes one.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open until the end


if __name__ == "__main__":
    sys.exit(main())
