"""The pytest plugin: clusters as fixtures, in every project where kavka is installed.

    kavka_cluster          a cluster of its own for each test
    kavka_module_cluster   one for all tests of a module; faults that a test leaves stay until `restore`

`@pytest.mark.kavka_cluster(brokers=1, settings={...})` on a test, a class or (as `pytestmark`) a module says which
cluster; without it there are three brokers. If a test fails, the report has the last lines of its brokers.

Imports nothing of kavka before a fixture is used: pytest loads this module in every run.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kavka.testing.cluster import Cluster

MARKER = "kavka_cluster"
REPORTED_LINES = 60
_cluster_of: pytest.StashKey[Cluster] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=3, settings={{}}): what cluster the fixtures kavka_cluster and kavka_module_cluster give",
    )


@pytest.fixture
def kavka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running `kavka.testing.Cluster` in this process, for this test alone."""
    yield from _cluster(request)


@pytest.fixture(scope="module")
def kavka_module_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running `kavka.testing.Cluster` in this process for all tests of the module. Use different topics in each
    test."""
    yield from _cluster(request)


def _cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    from kavka.testing.cluster import Cluster

    marker = request.node.get_closest_marker(MARKER)
    arguments: dict[str, Any] = {} if marker is None else dict(marker.kwargs)
    with Cluster(*(() if marker is None else marker.args), **arguments) as cluster:
        request.node.stash[_cluster_of] = cluster
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for node in item.listchain():
            cluster = node.stash.get(_cluster_of, None)
            if cluster is not None:
                report.sections.append(("kavka brokers", "\n".join(cluster.log(REPORTED_LINES))))
    return report
