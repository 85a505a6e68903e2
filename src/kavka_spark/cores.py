"""How many tasks can run at the same time, for a source that plans in a process of its own.

Spark tells a source in Python neither its settings nor its executors. What planning processes inherit is the
environment of the driver's JVM, so a session that starts one leaves the number there. It must not import Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

VARIABLE: Final = "KAVKA_SPARK_CORES"
_LOCAL: Final = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,.*)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")


def task_slots() -> int:
    """What the session said, or else this machine's cores."""
    return _number(os.environ.get(VARIABLE, "")) or os.cpu_count() or 1


def known_cores(settings: Mapping[str, str]) -> int | None:
    """How many tasks a session with these settings runs at the same time; None where they do not say."""
    master = settings.get("spark.master", "local[*]")
    cores: int | None
    if found := _LOCAL.fullmatch(master):
        given = found[1] or "1"
        cores = (os.cpu_count() or 1) if given == "*" else int(given)
    elif found := _LOCAL_CLUSTER.fullmatch(master):
        cores = int(found[1]) * int(found[2])
    else:
        executors = _number(settings.get("spark.executor.instances", ""))
        cores = _number(settings.get("spark.cores.max", "")) or (
            executors * _number(settings.get("spark.executor.cores", ""))
        )
    return max(cores // (_number(settings.get("spark.task.cpus", "")) or 1), 1) if cores else None


@contextmanager
def told(settings: Mapping[str, str]) -> Iterator[None]:
    """A JVM that is started in here gives the number to its processes. A number that is there stays."""
    cores = known_cores(settings)
    if cores is None or VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = str(cores)
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
