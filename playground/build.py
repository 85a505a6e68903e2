"""Builds the playground: static files from which a browser runs a simulated cluster.

    python playground/build.py [TARGET]

    TARGET/play/        the page to play with; TARGET/learn/ the lessons
    TARGET/cluster/     what both load: scripts, styles, Pyodide, and kavka.zip

kavka.zip has kavka as the wheel has it (without its command line and its console, which no page can run), the
playground's own package, structlog, and the stand-ins for crc32c and cramjam. Modules that the first run needs, also
those of Python's own library, are compiled by Pyodide itself, if Node.js is there: a page that has to compile them
takes several times as long to start.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kavka_playground.lessons import Part

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
TARGET: Final = ROOT / "build" / "site"
NOT_IN_A_PAGE: Final = ("cli", "console", "testing")
"""Rooms of kavka that need sockets, processes or packages that a page has not."""
OF_THE_CONSOLE: Final = (
    "__init__.py",
    "look/__init__.py",
    "look/sentence_translation.py",
    "translations/sentences_zh.json",
    "translations/former_sentences_zh.json",
)
"""What a page needs of the console's all the same: why-records in Chinese."""
LIBRARY: Final = "python_stdlib.zip"
PYODIDE: Final = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", LIBRARY, "pyodide-lock.json")
CODE: Final = re.compile(
    r"((?<![\w/.])/controller\b|\bkavka elect --unclean|\backs=\w+|\b[a-z]+(?:\.[a-z]+){2,}\b|\b[A-Z]+_[A-Z_]+\b)"
)
LEARN: Final = "Learn how a cluster decides"
DECIDES: Final = "How a cluster decides"
LEAD: Final = (
    "Five lessons about replication in Apache Kafka's classic design. Beside each claim is a cluster that shows it: "
    "kavka's own brokers and controller, in your browser. You break it, and the trace of your run is the proof."
)
COUNT: Final = "Lesson {number} of {of}"
NEXT: Final = "Next: {title}"
NOW_PLAY: Final = "Now play with a cluster of your own"
WORDS: Final = (
    LEARN,
    DECIDES,
    LEAD,
    COUNT,
    NEXT,
    NOW_PLAY,
    "Pages",
    "Play",
    "Learn",
    "A hint",
    "Start this run",
    "Start it again",
)
"""What stands on pages of lessons besides the lessons."""
MARKED: Final = re.compile(r"\{\{(.+?)\}\}")
"""A text of the page to play with."""
DATE: Final = (2020, 1, 1, 0, 0, 0)
"""Of every file in the archive: the same sources make the same bytes."""
MISSING: Final = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", nargs="?", type=Path, default=TARGET)
    target = parser.parse_args().target
    found = subprocess.run([ROOT / "tools" / "setup_pyodide.sh"], capture_output=True, text=True, check=False)
    if found.returncode:
        print(found.stderr.strip(), file=sys.stderr)
        return found.returncode
    build(target, Path(found.stdout.strip()))
    size = sum(file.stat().st_size for room in ("play", "learn", "cluster") for file in (target / room).rglob("*"))
    print(f"{target}: play, learn and cluster, {size / 1e6:.1f} MB")
    return 0


def build(target: Path, pyodide: Path, *, compiled: bool = True) -> None:
    """Writes all files in place of an earlier build's. `compiled`: with the first run's modules compiled."""
    cluster = target / "cluster"
    for room in ("play", "learn", "cluster"):
        shutil.rmtree(target / room, ignore_errors=True)
    (cluster / "pyodide").mkdir(parents=True)
    for name in PYODIDE:
        shutil.copyfile(pyodide / name, cluster / "pyodide" / name)
    for file in sorted((HERE / "page").glob("*.*")):
        if file.suffix in (".js", ".css"):
            shutil.copyfile(file, cluster / file.name)
    (cluster / "zh.json").write_text(json.dumps(words_of_scripts(), ensure_ascii=False), encoding="utf-8")
    write_play(target / "play")
    write_lessons(target / "learn")
    write_archive(cluster / "kavka.zip", dict(sources()))
    if compiled:
        modules = compile_with(pyodide, cluster / "kavka.zip")
        library = cluster / "pyodide" / LIBRARY
        with zipfile.ZipFile(library) as found:
            python = {name: found.read(name) for name in found.namelist() if not name.endswith("/")}
        for place, archive, files in (("kavka", cluster / "kavka.zip", dict(sources())), ("python", library, python)):
            own = {name.partition("/")[2]: code for name, code in modules.items() if name.startswith(f"{place}/")}
            others = {name: content for name, content in files.items() if f"{name}c" not in own}
            write_archive(archive, {**others, **own})


@dataclass(frozen=True, slots=True)
class Language:
    """What pages of lessons are written in: English, or its `texts` in another language. `here`: where its list of them
    is, below learn/. `up`: from there to the playground's root."""

    code: str
    texts: Mapping[str, str]
    here: str
    up: str
    other: tuple[str, str]
    """The other language's name, and the way there from this one's list."""

    def say(self, text: str) -> str:
        return self.texts[text] if self.texts and text else text

    @property
    def folder(self) -> str:
        """Where its pages are, below those in English."""
        return f"{self.code}/" if self.texts else ""


def languages(file: Path = HERE / "kavka_playground" / "lessons" / "zh.json") -> tuple[Language, Language]:
    chinese = json.loads(file.read_text(encoding="utf-8"))
    return (
        Language("en", {}, ".", "../", ("中文", "zh/")),
        Language("zh", chinese, "zh", "../../", ("English", "../")),
    )


def words_of_scripts() -> dict[str, str]:
    """English to Chinese: what the pages' scripts say, and the kinds of decisions as the console has them."""
    sys.path[:0] = [str(ROOT / "src")]
    from kavka.decisions import DecisionKind

    console: dict[str, str] = {}
    for file in (ROOT / "src" / "kavka" / "console" / "translations").glob("zh*.json"):
        console.update(json.loads(file.read_text(encoding="utf-8")))
    own: dict[str, str] = json.loads((HERE / "page" / "zh.json").read_text(encoding="utf-8"))
    return {**{kind.value: console[kind.value] for kind in DecisionKind}, **own}


def write_play(room: Path) -> None:
    """The page to play with, in each language: what stands in {{ }} is said in it."""
    template = (HERE / "page" / "play.html").read_text(encoding="utf-8")
    for language in languages(HERE / "page" / "zh.json"):
        place = room / language.here
        place.mkdir(exist_ok=True)
        name, way = language.other
        filled = {
            "language": language.code,
            "up": language.up,
            "learn_at": f"{language.up}learn/{language.folder}",
            "other": f'<a href="{way}" lang="{"en" if language.texts else "zh"}">{name}</a>',
        }
        page = MARKED.sub(lambda match, say=language.say: say(match[1]), template)  # type: ignore[misc]
        for each, value in filled.items():
            page = page.replace(f"@@{each}@@", value)
        (place / "index.html").write_text(page, encoding="utf-8")


def write_lessons(room: Path) -> None:
    """In each language a page for each lesson, and one that lists them: whoever reads without scripts has the text."""
    sys.path[:0] = [str(HERE), str(ROOT / "src")]
    from kavka_playground.lessons import LESSONS

    for language in languages():
        place, say = room / language.here, language.say
        place.mkdir()
        items = (
            f'<li><a href="{each.id}/"><b>{number}</b>'
            f"<span><strong>{escape(say(each.title))}</strong>{escape(say(each.lead))}</span></a></li>"
            for number, each in enumerate(LESSONS, 1)
        )
        index = {"title": say(LEARN), "heading": say(DECIDES), "lead": say(LEAD), "lessons": "\n".join(items)}
        write_page(place, "learn.html", language, "", index)
        for number, each in enumerate(LESSONS, 1):
            following = LESSONS[number] if number < len(LESSONS) else None
            onward = (
                f'<a href="../{following.id}/">{escape(say(NEXT).format(title=say(following.title)))}</a>'
                if following is not None
                else f'<a href="{language.up}../play/{language.folder}">{escape(say(NOW_PLAY))}</a>'
            )
            filled = {
                "count": say(COUNT).format(number=number, of=len(LESSONS)),
                "id": each.id,
                "title": escape(say(each.title)),
                "lead": prose(say(each.lead)),
                "parts": "\n".join(part_html(part, language) for part in each.parts),
                "onward": onward,
            }
            (place / each.id).mkdir()
            write_page(place / each.id, "lesson.html", language, each.id, filled)


def write_page(place: Path, template: str, language: Language, lesson: str, filled: Mapping[str, str]) -> None:
    """`lesson`: whose page it is; empty for the list."""
    down, below = ("../", f"{lesson}/") if lesson else ("", "")
    name, way = language.other
    common = {
        "language": language.code,
        "up": down + language.up,
        "list": down or "./",
        "play_at": f"{down}{language.up}play/{language.folder}",
        "pages": language.say("Pages"),
        "play": language.say("Play"),
        "learn": language.say("Learn"),
        "other": f'<a href="{down}{way}{below}" lang="{"en" if language.texts else "zh"}">{name}</a>',
    }
    page = (HERE / "page" / template).read_text(encoding="utf-8")
    for each, value in {**common, **filled}.items():
        page = page.replace(f"@@{each}@@", value)
    (place / "index.html").write_text(page, encoding="utf-8")


def part_html(part: Part, language: Language) -> str:
    say = language.say
    goals = "\n".join(
        f'<li data-goal="{goal.id}"{" class=ask" if goal.ask else ""}><p>{prose(say(goal.do))}</p>'
        + (
            f"<details><summary>{escape(say('A hint'))}</summary><p>{prose(say(goal.hint))}</p></details>"
            if goal.hint
            else ""
        )
        + '<p class="proof" role="status"></p></li>'
        for goal in part.goals
    )
    boards = [{**board.as_json(), "title": say(board.title)} for board in part.boards]
    buttons = [(say(label), what, target) for label, what, target in part.buttons]
    return (
        f'<section class="part" data-part="{part.id}" data-boards="{escape(json.dumps(boards), quote=True)}" '
        f'data-buttons="{escape(json.dumps(buttons), quote=True)}"'
        f"{' data-closely' if part.closely else ''}>\n<h2>{escape(say(part.title))}</h2>\n"
        + "".join(f"<p>{prose(say(paragraph))}</p>\n" for paragraph in part.text)
        + f'<ol class="goals">\n{goals}\n</ol>\n<p><button type="button" class="start" '
        f'data-again="{escape(say("Start it again"))}">{escape(say("Start this run"))}</button> '
        '<span class="note" role="status"></span></p>\n<div class="boards"></div>\n</section>'
    )


def prose(text: str) -> str:
    """Settings, commands and codes in a typewriter's letters."""
    return CODE.sub(r"<code>\1</code>", escape(text, quote=False))


def sources() -> Iterator[tuple[str, bytes]]:
    """What goes into the archive, by its name there."""
    kavka = ROOT / "src" / "kavka"
    for file in sorted(kavka.rglob("*")):
        inside = file.relative_to(kavka.parent)
        if file.is_file() and "__pycache__" not in inside.parts and inside.parts[1] not in NOT_IN_A_PAGE:
            yield inside.as_posix(), file.read_bytes()
    for name in OF_THE_CONSOLE:
        yield f"kavka/console/{name}", (kavka / "console" / name).read_bytes()
    for file in sorted((HERE / "kavka_playground").rglob("*.py")):
        yield file.relative_to(HERE).as_posix(), file.read_bytes()
    yield "kavka_playground/said_zh.json", (HERE / "kavka_playground" / "said_zh.json").read_bytes()
    for file in sorted((HERE / "standins").glob("*.py")):
        yield file.name, file.read_bytes()
    found = importlib.util.find_spec("structlog")
    assert found is not None and found.origin is not None, "kavka needs structlog"  # noqa: PT018 - for mypy
    for file in sorted(Path(found.origin).parent.rglob("*.py")):
        yield f"structlog/{file.relative_to(Path(found.origin).parent).as_posix()}", file.read_bytes()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    yield f"kavka-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: kavka\nVersion: {version}\n".encode()


def write_archive(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files.items()):
            # Python's importer takes the compiled module first.
            archive.writestr(zipfile.ZipInfo(name, DATE), content, zipfile.ZIP_DEFLATED)


def compile_with(pyodide: Path, archive: Path) -> dict[str, bytes]:
    """The modules of a first run, as Pyodide's Python compiles them, below kavka/ and python/. None without Node.js."""
    node = shutil.which("node")
    if node is None:
        print("no node: the page will compile kavka itself, each time that it is opened", file=sys.stderr)
        return {}
    compiled = archive.with_suffix(".compiled.zip")
    subprocess.run([node, HERE / "compile.mjs", pyodide, archive, compiled], check=True, timeout=600)
    with zipfile.ZipFile(compiled) as found:
        files = {name: found.read(name) for name in found.namelist()}
    compiled.unlink()
    return files


if __name__ == "__main__":
    sys.exit(main())
