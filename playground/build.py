"""Builds the playground: static files from which a browser runs a simulated cluster.

    python playground/build.py [TARGET]

    TARGET/play/        the page to play with; TARGET/learn/ the lessons
    TARGET/cluster/     what both load: scripts, styles, Pyodide, and kavka.zip

kavka.zip has kavka as the wheel has it (without its command line and its console, which no page can run), the
playground's own package, structlog, and the stand-ins for crc32c and cramjam. Modules that the first run needs are
compiled by Pyodide itself, if Node.js is there: the page then starts in less than half of the time.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
TARGET: Final = ROOT / "build" / "site"
NOT_IN_A_PAGE: Final = ("cli", "console", "testing")
"""Rooms of kavka that need sockets, processes or packages that a page has not."""
PYODIDE: Final = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
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
        if file.suffix != ".html":
            shutil.copyfile(file, cluster / file.name)
    (target / "play").mkdir()
    shutil.copyfile(HERE / "page" / "play.html", target / "play" / "index.html")
    write_archive(cluster / "kavka.zip", dict(sources()))
    if compiled:
        modules = compile_with(pyodide, cluster / "kavka.zip")
        others = {name: content for name, content in sources() if f"{name}c" not in modules}
        write_archive(cluster / "kavka.zip", {**others, **modules})


def sources() -> Iterator[tuple[str, bytes]]:
    """What goes into the archive, by its name there."""
    kavka = ROOT / "src" / "kavka"
    for file in sorted(kavka.rglob("*")):
        inside = file.relative_to(kavka.parent)
        if file.is_file() and "__pycache__" not in inside.parts and inside.parts[1] not in NOT_IN_A_PAGE:
            yield inside.as_posix(), file.read_bytes()
    for file in sorted((HERE / "kavka_playground").glob("*.py")):
        yield f"kavka_playground/{file.name}", file.read_bytes()
    for file in sorted((HERE / "standins").glob("*.py")):
        yield file.name, file.read_bytes()
    found = importlib.util.find_spec("structlog")
    assert found is not None and found.origin is not None, "kavka needs structlog"  # noqa: PT018
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
    """The modules of a first run, as Pyodide's Python compiles them; nothing where there is no Node.js."""
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
