"""A wrong page is found, with its line; a block that says nothing of itself is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.documentation.page import NotAPage, blocks
from tests.integration.documentation.reader import LIVE, follow

CLUSTER = "```sh\nkavka up --no-console\n```\n\n"
ANSWER = CLUSTER + "```console\n$ kavka topics create orders\nTopic %s created.\n```\n"
WRONG = {
    "a command that is none": ("```sh\nkavka topic list\n```", 2, "status 2"),
    "an option that is none": (CLUSTER + "```sh\nkavka topics list\nkavka topics list --al\n```", 7, "status 2"),
    "a broker that does not start": ("```sh\nkavka up --set num.partitions=none\n```", 2, "status"),
    "another answer": (ANSWER % "bills", 7, "this does not come"),
    "an error that does not come": (CLUSTER + "```console\n$ kavka topics list\nError: no\n```", 6, "status 0"),
    "an output that differs": ("```sh\necho 12 apples\n```\n\n```text\n7 pears\n```", 6, "this does not come"),
    "a line too many": ("```sh\nprintf 'a\\nb\\nc\\n'\n```\n\n```text\na\nc\n```", 6, "this does not come"),
    "a program that fails": ("```python\nfrom kavka import nothing\n```", 2, "the program fails"),
    "a test that fails": ("```python\ndef test_it():\n    assert False\n```", 2, "its tests fail"),
    "settings that are none": ("```properties\nlisteners=CLIENTS://:9092\n```", 2, "status"),
    "a language that nobody runs": ("```sql\nSELECT 1\n```", 2, "nothing here runs sql"),
    "a text out of nowhere": ("Hello.\n\n```text\nhello\n```", 4, "the output of nothing"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_page_is_found_with_its_line(fault: str, room: None, tmp_path: Path) -> None:
    text, line, why = WRONG[fault]
    page = tmp_path / "page.md"
    page.write_text(text + "\n")
    reader = follow(page, patience_s=60)
    assert reader.returncode == 1, reader.stdout + reader.stderr
    assert f"page.md:{line}: " in reader.stdout
    assert why in reader.stdout


def test_numbers_widths_and_dots_may_differ(room: None, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\nprintf 'at 10:42  7 apples\\nx\\nlast one\\n'\n```\n\n```text\nat 9:5 12 apples\n...\nlast ...\n```\n"
    )
    reader = follow(page, patience_s=60)
    assert reader.returncode == 0, reader.stdout


@pytest.mark.parametrize(
    "text",
    [
        "A command:\n\n    kavka up\n",
        "```\nkavka up\n```\n",
        "```cobol\nSTOP RUN.\n```\n",
        "<!-- not run: no wish -->\n```sh\nkavka up\n```\n",
        "<!-- not run: installs, line 3 -->\n```sh\nkavka up\n```\n",
        "<!-- not run: installs -->\nNo block.\n",
    ],
    ids=["indented", "no language", "unknown language", "no reason", "no such line", "no block"],
)
def test_a_page_whose_blocks_say_nothing_is_refused(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(NotAPage, match=r"page\.md:\d+: "):
        blocks(page)


@pytest.mark.parametrize("command", ["kavka topics create orders -p 4", "kavka top --once", "kavka pipeline run churn"])
def test_what_ends_by_itself_is_waited_for(command: str) -> None:
    """`kavka topics` began like `kavka top`: it was interrupted after three seconds, and the reader went on without
    the topic."""
    assert LIVE.match(command) is None


@pytest.mark.parametrize("command", ["kavka top", "kavka top -b h:9092", "kavka pipeline watch"])
def test_what_shows_something_live_is_ended(command: str) -> None:
    assert LIVE.match(command) is not None
