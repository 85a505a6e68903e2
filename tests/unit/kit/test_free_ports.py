"""A port for a server of a test is handed out once, also where several runs of the tests share a machine."""

from __future__ import annotations

import random
import subprocess
import sys

from tests.kit.ports import free_port

SAME_PICKS = 7
ANOTHER_RUN = f"import random; from tests.kit.ports import free_port; random.seed({SAME_PICKS}); print(free_port())"


def test_no_port_is_handed_out_twice_in_a_process() -> None:
    random.seed(SAME_PICKS)
    first = free_port(following=[1, 2])
    random.seed(SAME_PICKS)
    assert free_port() not in range(first, first + 3)


def test_a_port_of_another_run_is_left_alone_though_nobody_listens_there_yet() -> None:
    random.seed(SAME_PICKS + 1)
    ours = free_port()
    another = ANOTHER_RUN.replace(f"seed({SAME_PICKS})", f"seed({SAME_PICKS + 1})")
    theirs = subprocess.run([sys.executable, "-c", another], capture_output=True, text=True, check=True, timeout=60)
    assert int(theirs.stdout) != ours
