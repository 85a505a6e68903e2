"""Which modules are changed, and which tests are asked about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOURCES: Final = Path("src/kavka")
TESTS: Final = Path("tests")


@dataclass(frozen=True, slots=True)
class Room:
    """`modules`: patterns below src/kavka. `tests`: files and folders below tests."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]

    def module_paths(self) -> list[Path]:
        found = {path for pattern in self.modules for path in SOURCES.glob(pattern)}
        return sorted(path for path in found if path.name != "__init__.py")

    def test_paths(self) -> list[Path]:
        places = [TESTS / name for name in self.tests]
        assert all(place.exists() for place in places), f"{self.name}: one of {self.tests} is not there"
        files = (place.rglob("test_*.py") if place.is_dir() else (place,) for place in places)
        return sorted({file for several in files for file in several})


ROOMS: Final = (
    Room("replication", ("replication/**/*.py",), ("unit/replication", "property/replication")),
    Room("log", ("log/**/*.py",), ("unit/log", "property/log")),
    Room("records", ("records/*.py",), ("unit/records", "property/records")),
    Room("controller", ("controller/decide/*.py",), ("unit/controller", "property/controller")),
    Room(
        "groups",
        ("coordinator/groups/**/*.py", "coordinator/shared/**/*.py"),
        ("unit/coordinator", "property/coordinator"),
    ),
    Room(
        "transactions",
        ("coordinator/transactions/**/*.py",),
        (
            "unit/coordinator/test_transaction_coordinator.py",
            "unit/coordinator/test_transaction_edges.py",
            "unit/coordinator/test_transaction_ends.py",
            "unit/coordinator/test_transaction_numbers.py",
            "unit/coordinator/test_transaction_state.py",
            "property/coordinator/test_transactions_walk.py",
        ),
    ),
    Room(
        "share", ("share/**/*.py", "coordinator/share_state/**/*.py"), ("unit/share", "unit/coordinator", "unit/broker")
    ),
)
