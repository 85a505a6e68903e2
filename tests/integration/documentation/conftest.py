"""The room in which pages are followed: namespaces for network and processes."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.documentation.reader import in_a_room_of_its_own


@pytest.fixture(scope="session")
def room() -> None:
    """Skips where the system gives no namespaces."""
    tried = subprocess.run(in_a_room_of_its_own("true"), capture_output=True, text=True, timeout=200, check=False)
    if tried.returncode != 0:
        pytest.skip(f"namespaces for network and processes cannot be made here: {tried.stderr.strip()}")
