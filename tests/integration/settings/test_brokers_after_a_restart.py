"""Settings of brokers that were changed at run time hold after the broker's next start, for all who obey them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.settings.running_broker import RunningBroker
from tests.kit.kavka_process import KavkaProcess


@pytest.mark.setting("max.connections.per.ip")
def test_a_limit_of_connections_is_in_force_again(tmp_path: Path) -> None:
    with KavkaProcess(tmp_path / "data") as first:
        running = RunningBroker(first.port, first.data_dir / "logs")
        running.set(max_connections_per_ip=1)
        assert not running.serves_another_connection()
        running.close()
    with KavkaProcess(tmp_path / "data") as second:
        running = RunningBroker(second.port, second.data_dir / "logs")
        assert running.value("max.connections.per.ip") == "1"
        assert not running.serves_another_connection()
        running.close()
