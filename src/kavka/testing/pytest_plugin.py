"""The pytest plugin: clusters as fixtures, in every project where kavka is installed.

    kavka_cluster          a cluster of its own for each test
    kavka_secure_cluster   the same with TLS, users and access control lists
    kavka_module_cluster   one for all tests of a module; faults that a test leaves stay until `restore`

`@pytest.mark.kavka_cluster(brokers=1, settings={...})` on a test, a class or (as `pytestmark`) a module says which
cluster; without it there are three brokers. If a test fails, the report has the last lines of its brokers.

Imports nothing of kavka before a fixture is used: pytest loads this module in every run.

    I1  pytest does not rewrite kavka's modules (it would, for all that comes with a plugin). Brokers import late, in
        threads of their own, and rewriting parses the source: 1. two brokers import at once; 2. Python up to 3.12
        counts the depth of both parses in one place; 3. an import fails with "AST constructor recursion depth
        mismatch", and the broker with it (seen on 3.11.7)
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from kavka.testing.cluster import Cluster
    from kavka.testing.secure_cluster import SecureCluster

MARKER = "kavka_cluster"
REPORTED_LINES = 60
Running = TypeVar("Running", bound="Cluster")
_cluster_of: pytest.StashKey[Cluster] = pytest.StashKey()


class _Unrewritten:
    """Finds kavka's modules before pytest's own finder does (I1)."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in ("kavka", "kavka_spark"):
            return None
        return PathFinder.find_spec(name, path, target)


sys.meta_path.insert(0, _Unrewritten())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=3, settings={{}}): what cluster the fixtures kavka_cluster, kavka_module_cluster and "
        "kavka_secure_cluster give",
    )


@pytest.fixture
def kavka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running `kavka.testing.Cluster` in this process, for this test alone."""
    from kavka.testing.cluster import Cluster

    yield from _running(request, Cluster)


@pytest.fixture
def kavka_secure_cluster(request: pytest.FixtureRequest) -> Iterator[SecureCluster]:
    """A running `kavka.testing.SecureCluster` in this process, for this test alone."""
    from kavka.testing.secure_cluster import SecureCluster

    yield from _running(request, SecureCluster)


@pytest.fixture(scope="module")
def kavka_module_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running `kavka.testing.Cluster` in this process for all tests of the module. Use different topics in each
    test."""
    from kavka.testing.cluster import Cluster

    yield from _running(request, Cluster)


def _running(request: pytest.FixtureRequest, kind: type[Running]) -> Iterator[Running]:
    marker = request.node.get_closest_marker(MARKER)
    arguments: dict[str, Any] = {} if marker is None else dict(marker.kwargs)
    cluster = kind(*(() if marker is None else marker.args), **arguments)
    with cluster:
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
