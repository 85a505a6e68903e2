"""Builds the documentation's site: python tools/site.py [--serve] (`make site`, `make serve-site`).

1. Lays the pages out for MkDocs: README.md is the first page, docs/ keeps its place. Links to code, which is not on the
   site, become the file's name.
2. Writes the pages that come from the code: every command's help, and the Python interfaces (mkdocstrings).
3. Builds with warnings as errors: a link or an anchor that leads nowhere ends the build. Search works offline.
4. Puts the playground beside it: build/site/play and build/site/learn.

MkDocs and its parts are the dependency group `site` in pyproject.toml; what of them is missing is installed into .venv.
Status 3: they are missing and cannot be installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from kavka.cli.app import TABLE, Commands

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = ROOT / "build" / "site-pages"
SITE: Final = ROOT / "build" / "site"
ADDRESS: Final = ("127.0.0.1", "8000")
TOOLCHAIN_MISSING: Final = 3
BESIDE: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
EMPTY_HEADINGS: Final = re.compile(r"<thead>\s*<tr>\s*(?:<th(?: [^>]*)?></th>\s*)+</tr>\s*</thead>\s*")
EMPTY_HEADING: Final = re.compile(r"<th(?: [^>]*)?></th>")
FENCE: Final = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
INTERFACES: Final = {
    "testing": ("kavka.testing", "Clusters inside tests", "kavka.testing"),
    "client": ("kavka.client", "The client", "kavka.client"),
    "spark": ("kavka_spark", "Spark", "kavka_spark"),
}
"""Pages of Python interfaces: package, title, where it is imported from."""
PLAYGROUND: Final = """
## On this site

<p><a href="../../play/">Play with a cluster</a> · <a href="../../learn/">Five lessons</a></p>
"""
"""These two are no pages of MkDocs', which would call a link to them dead."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--serve", action="store_true", help="shows the site on http://127.0.0.1:8000 afterwards")
    parser.add_argument("--without-playground", action="store_true", help="builds the pages alone")
    parser.add_argument("--target", type=Path, default=SITE, help="where to, instead of build/site")
    wishes = parser.parse_args()
    target: Path = wishes.target.resolve()
    if not can_be_built():
        print("MkDocs is not installed, and pip cannot install it: see what it says above", file=sys.stderr)
        return TOOLCHAIN_MISSING
    lay_out()
    # MkDocs' own word for what it found; NO_MKDOCS_2_WARNING is material's word about another program.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    if subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode:
        return 1
    for file in target.rglob("*.html"):
        file.write_text(without_empty_headings(file.read_text(encoding="utf-8")), encoding="utf-8")
    if not wishes.without_playground:
        subprocess.run([sys.executable, ROOT / "playground" / "build.py", target], check=True)
    print(f"{target}: {sum(1 for _ in target.rglob('*.html'))} pages")
    if wishes.serve:
        host, port = ADDRESS
        print(f"http://{host}:{port}/", flush=True)
        subprocess.run([sys.executable, "-m", "http.server", "--bind", host, "--directory", target, port], check=False)
    return 0


def can_be_built() -> bool:
    """Installs what is missing."""
    if all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings_handlers")):
        return True
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *groups["site"]]
    return subprocess.run(pip, check=False).returncode == 0


def lay_out() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    sources = {Path("index.md"): ROOT / "README.md", **{Path(name): ROOT / name for name in BESIDE}}
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.is_file():
            sources[file.relative_to(ROOT)] = file
    for place, source in sources.items():
        target = PAGES / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(on_the_site(source.read_text(encoding="utf-8"), source), encoding="utf-8")
        else:
            shutil.copyfile(source, target)
    shutil.copytree(ROOT / "tools" / "site_look", PAGES / "site_look")
    with (PAGES / "docs" / "playground.md").open("a", encoding="utf-8") as page:
        page.write(PLAYGROUND)
    (PAGES / "docs" / "commands.md").write_text(command_page(), encoding="utf-8")
    (PAGES / "docs" / "python").mkdir()
    for name, (package, title, imported) in INTERFACES.items():
        (PAGES / "docs" / "python" / f"{name}.md").write_text(
            f"# {title}\n\nEverything below is imported from `{imported}`.\n\n::: {package}\n", encoding="utf-8"
        )


def on_the_site(text: str, source: Path) -> str:
    """A page whose links lead to other pages of the site. Blocks of code stay as they are."""

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        file = (source.parent / target).resolve()
        if file == ROOT / "README.md":
            return f"[{words}]({os.path.relpath(ROOT / 'index.md', source.parent)}{anchor})"
        if (
            file.suffix in (".md", ".png")
            and file.is_file()
            and (file.parent == ROOT or file.is_relative_to(ROOT / "docs"))
        ):
            return found[0]
        return words if "`" in words else f"`{words}`" if words == target else words

    pieces = FENCE.split(text)
    return "".join(piece if piece.startswith("```") else LINK.sub(link, piece) for piece in pieces)


def without_empty_headings(html: str) -> str:
    """Markdown has no table without a line of headings. Where all are empty the line goes. A single empty one is
    a cell like others: a screen reader would announce the heading for each cell below it."""
    return EMPTY_HEADING.sub("<td></td>", EMPTY_HEADINGS.sub("", html))


def command_page() -> str:
    """Every command's help, as the program has it."""
    lines = [
        "# Commands, with their options",
        "",
        "What `kavka COMMAND --help` says. [Command line](command-line.md) says what all commands have in common.",
        "",
    ]
    commands = Commands()
    for section in dict.fromkeys(entry.section for entry in TABLE):
        lines += [f"## {section}", ""]
        for entry in TABLE:
            if entry.section == section:
                lines += command_help(commands[entry.name], ("kavka", entry.name), depth=3)
    return "\n".join(lines)


def command_help(command: Any, words: tuple[str, ...], *, depth: int) -> Iterator[str]:
    context = click.Context(command, info_name=words[-1])
    yield from (f"{'#' * depth} {' '.join(words)}", "", "```text")
    yield (command.help or "").replace("\b", "").strip()
    yield from ("```", "")
    rows = [
        (", ".join([*each.opts, *each.secondary_opts]), (getattr(each, "help", "") or "").replace("|", "\\|"))
        for each in command.get_params(context)
        if not getattr(each, "hidden", False)
    ]
    if rows and not hasattr(command, "commands"):
        yield from ("| | |", "|--|--|")
        yield from (f"| `{names}` | {' '.join(said.split())} |" for names, said in rows)
        yield ""
    for name in getattr(command, "commands", {}):
        if not command.commands[name].hidden:
            yield from command_help(command.commands[name], (*words, name), depth=depth + 1)


if __name__ == "__main__":
    sys.exit(main())
