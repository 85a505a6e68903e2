"""The page of a share group: where it is, which records are in flight, and who holds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.share_group import ShareGroup
from tests.kit.share_member import ACCEPT, ShareMember


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KavkaProcess]:
    with KavkaProcess(tmp_path / "broker") as running:
        yield running


def test_records_in_flight_are_on_the_page_with_their_holders(broker: KavkaProcess, tmp_path: Path) -> None:
    settings = f'poll_ms = 300\n[[cluster]]\nname = "one"\nbootstrap = "{broker.bootstrap}"\n'
    with ConsoleProcess(settings, tmp_path / "console") as console:
        client = ConsoleClient(console.address)
        group = ShareGroup(broker.port)
        path = f"/c/one/groups/{group.name}"

        def page_with(text: str) -> Page:
            page = client.get(path)
            assert text in page.text, page.text
            return page

        with ShareMember(broker.port, group.name, "reader") as member:
            member.join_assigned(group.name)
            assert eventually("records come", lambda: member.fetch(group.topic_id)) == [(0, 9, 1)]
            assert member.acknowledge(group.topic_id, (0, 2, [ACCEPT]), (5, 7, [ACCEPT])) == 0
            stored = f"{group.name}-0 5 – 7 3 acknowledged 1"
            page = eventually("the page knows of them, and that they are stored", lambda: page_with(stored))
            assert f"{group.name}-0 4 " in page.text, "four records are not done"
            assert f"{group.name}-0 3 – 4 2 acquired 1" in page.text
            assert page.html.count('<rect class="led"') == 3, "two runs are held, and the legend has one"
            assert f"kavka groups describe {group.name} --in-flight" in page.text
            chinese = ConsoleClient(console.address, {"Accept-Language": "zh"}).get(path)
            assert "在途的记录" in chinese.text
            assert "已取得" in chinese.text
            refused = client.preview("one", "reset-offsets", {"group": group.name}, way="latest")
            assert "Stop its consumers first" in refused.text
            member.leave()
        eventually("its member is gone", lambda: page_with("It has no members."))
        preview = client.preview("one", "reset-offsets", {"group": group.name}, way="latest")
        assert "kafka-share-groups.sh" in preview.text
        assert "Done." in client.confirm(preview, "reset-offsets").text
        eventually("it is at the end", lambda: page_with("No record is in flight."))
        done = client.do("one", "delete-group", {"group": group.name}, typed=group.name)
        assert "Done." in done.text
        assert not console.failures, console.failures
