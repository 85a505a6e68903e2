"""A number or a link that leads nowhere is named, with its file; so is a row that its file does not bear out."""

from __future__ import annotations

import pytest
from tools.references import ARTICLES, BUGS, INDEX, RULES, Text, problems, read

from kavka.simulator.scenarios import SCENARIOS

PAGES = {
    RULES: "| R1 | everything is there | since | log.py log/log.py |\n",
    BUGS: "## Logs (`log/log.py`)\n| S1 | a crash |\n| S2 | a flood |\n",
    ARTICLES: "## article 001: elections\n| a claim | log/log.py |\n",
    INDEX: "# Pages\n[a](design/rules.md) [b](design/known-bugs.md#logs-loglogpy) [c](design/articles.md)\n",
    "src/kavka/log/log.py": f'"""R1, S2 and article 001.\n\n    I{1}  it ends\n    I{2}. it begins\n"""\n',
}


def found(**changes: str) -> list[str]:
    """What is wrong with the pages above, with files (`a/b.py` is written a__b) changed or added."""
    named = {name.replace("__", "/") + ".py": content for name, content in changes.items() if not name.isupper()}
    texts = (
        PAGES
        | {
            {"RULES": RULES, "BUGS": BUGS, "INDEX": INDEX}[key]: value
            for key, value in changes.items()
            if key.isupper()
        }
        | named
    )
    return problems((Text(path, content, (content,)) for path, content in texts.items()), ["S1: a crash"])


@pytest.mark.thorough  # `make check` asks the same of every change.
def test_every_number_of_the_project_leads_somewhere() -> None:
    assert problems(read(), SCENARIOS) == []


def test_pages_that_bear_one_another_out_are_right() -> None:
    assert found() == []


@pytest.mark.parametrize("number", ["R2", "P1", "G6", "S3", "article 002"])
def test_a_number_without_a_row_is_named_with_its_file(number: str) -> None:
    assert found(src__kavka__new=f"# see {number}") == [f"src/kavka/new.py: {number} stands in no page of docs/design/"]


@pytest.mark.parametrize("text", ["as {} says", "(`log.log`, {})", "(log.py, {})"])
def test_an_invariant_is_the_module_s_own_or_of_one_that_is_named(text: str) -> None:
    own = f"    I{7 if 'log' in text else 2}  it is new\n"
    assert found(src__kavka__new=text.format(f"I{2}") + "\n" + own) == []


@pytest.mark.parametrize("text", ["see {}", "(`log.log`, {})", "(`log.nothing`, {})"])
def test_an_invariant_of_nobody_is_named(text: str) -> None:
    (problem,) = found(src__kavka__new=text.format(f"I{3}"))
    assert problem == f"src/kavka/new.py: I{3} is no invariant of this module, nor of one that is named before it"


def test_a_row_whose_file_is_not_there_or_does_not_cite_it_is_named() -> None:
    assert found(RULES="| R1 | all | since | log/other.py |\n") == [f"{RULES}: there is no log/other.py"]
    rows = "| R1 | all | since | log/log.py |\n| R2 | more | since | log/log.py |\n| R3 | most | since | |\n"
    assert found(RULES=rows) == [
        f"{RULES}: R2 names log/log.py, which does not cite it",
        f"{RULES}: R3 names no file that checks it",
    ]


def test_a_bug_that_nothing_plays_is_named() -> None:
    rows = PAGES[BUGS] + "| S3 | a fire |\n"
    assert found(BUGS=rows) == [f"{BUGS}: S3 is no scenario, and no file named in its heading cites it"]


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("design/none.md", "a link leads to docs/design/none.md, which does not exist"),
        ("#words", "a link leads to docs/index.md#words, but that page has no such heading"),
        ("design/rules.md#words", "a link leads to docs/design/rules.md#words, but that page has no such heading"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(link: str, problem: str) -> None:
    assert found(INDEX=PAGES[INDEX] + f"[a link]({link})\n") == [f"{INDEX}: {problem}"]


def test_links_in_blocks_of_code_and_to_other_places_are_nobody_s_business() -> None:
    others = "```text\n[a](none.md)\n```\n[b](https://example.org/a.md) [c](../src/kavka/log/log.py) [d](#pages)\n"
    assert found(INDEX=PAGES[INDEX] + others) == []


def test_a_file_that_a_guide_names_exists() -> None:
    page = "ARCHITECTURE.md"
    texts = PAGES | {page: "see log/log.py and log/gone.py"}
    assert problems((Text(path, text, (text,)) for path, text in texts.items()), ["S1: a crash"]) == [
        f"{page}: there is no log/gone.py"
    ]


def test_a_page_that_the_index_leaves_out_is_named() -> None:
    assert found(INDEX=PAGES[INDEX].replace("design/rules.md", "design/articles.md")) == [
        f"{INDEX}: no link leads to {RULES}"
    ]
