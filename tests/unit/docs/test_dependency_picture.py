"""The picture in ARCHITECTURE.md is drawn from the imports, and one that the imports have left behind is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.dependency_picture import BEGIN, END, PAGE, current, layers, main, picture, with_picture

LAYERS = [["top"], ["left", "right"], ["bottom"]]


def test_a_mark_stands_where_the_room_of_the_column_imports_the_room_of_the_row() -> None:
    drawn = picture(LAYERS, frozenset({("top", "left"), ("right", "bottom")}))
    assert drawn.splitlines() == ["top", "", "● left", "· · right", "", "· · ● bottom"]


def test_an_import_that_goes_up_has_no_place_in_the_picture() -> None:
    with pytest.raises(ValueError, match="bottom imports top, which does not stand below it"):
        picture(LAYERS, frozenset({("bottom", "top")}))


def test_every_folder_of_the_package_has_a_row() -> None:
    folders = {each.parent.name for each in (PAGE.parent / "src/kavka").glob("*/__init__.py")}
    assert folders <= {room for layer in layers() for room in layer}


def test_a_picture_that_the_imports_have_left_behind_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "ARCHITECTURE.md"
    page.write_text(f"# Rooms\n\n{BEGIN}\nan older picture\n{END}\n\nThe end.\n", encoding="utf-8")
    monkeypatch.setattr("tools.dependency_picture.PAGE", page)
    assert main(["--check"]) == 1
    assert "run `make picture`" in capsys.readouterr().out
    assert main([]) == 0
    assert page.read_text(encoding="utf-8") == f"# Rooms\n\n{current()}\n\nThe end.\n"
    assert main(["--check"]) == 0


def test_a_page_without_a_place_for_the_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="must have the lines"):
        with_picture("# Rooms\n", "a picture")
