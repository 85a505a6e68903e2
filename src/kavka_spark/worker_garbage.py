"""What a Python process of Spark's has loaded is kept out of garbage collection.

Spark's daemon collects garbage after everything that a worker does: each task, and, of a sink in Python, each plan and
each commit of a micro-batch. With pyarrow, numpy and pandas loaded one collection takes 10 to 55 ms of processor time,
with nothing frozen. Decides when what is there is frozen: when kavka's code is reached, if modules were loaded since it
was last. The first task loads much only once it has rows (pandas), so that the second one freezes again. It must not
import anything heavy.

Invariant
  I1  Only what a worker holds while kavka's code begins is frozen, and garbage is collected before: what a task makes
      is collected as ever.
"""

from __future__ import annotations

import gc
import os
import sys

_RUNTIME = ("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
"""A variable that Spark sets in its Python workers, and its value."""
_modules_frozen = 0


def in_worker() -> bool:
    """Whether this process is one of Spark's Python workers; the driver's own Python is none."""
    name, value = _RUNTIME
    return os.environ.get(name) == value


def freeze_what_is_loaded() -> None:
    """Does nothing in a process that is no worker, or has loaded nothing since."""
    global _modules_frozen
    if not in_worker() or len(sys.modules) == _modules_frozen:
        return
    gc.collect()
    gc.freeze()
    _modules_frozen = len(sys.modules)
