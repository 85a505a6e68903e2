"""The playground's pages, built once for all tests of this folder, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.kit.browser import chromium
from tests.kit.playground_site import built, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as driven:
        yield driven


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the pages."""
    with served(built(tmp_path_factory.mktemp("playground"))) as address:
        yield address
