"""Whether what would be published can be installed and used: python tools/release_check.py (`make release-check`).

1. Builds the wheel and the source distribution twice, and the wheel once more from the source distribution: the same
   bytes each time, with the time of the last commit in them.
2. Looks into them: the licence, no tests in the wheel, the version that CHANGELOG.md begins with.
3. Installs the wheel, alone and with each extra, into an empty environment of the oldest and the newest Python here,
   and uses it as a newcomer does: `kavka up`, produce, consume, a pytest fixture, the console, a secured broker, Spark.
4. Types what README.md's first part says, in an empty environment: a topic is written and read within a minute.
5. Writes a bill of materials (CycloneDX) of all that the extras bring along.

What it makes stands in dist/ (the wheel, the source distribution, the bill) and build/release/ (the environments). It
ends at the first thing that does not hold, and says which.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist"
WORK: Final = ROOT / "build" / "release"
PYTHONS: Final = ("python3.14", "python3.13", "python3.12", "python3.11")
TOOLS: Final = ("build>=1.2", "cyclonedx-bom>=6")
READY_S: Final = 60
FIRST_PAGE_S: Final = 60
RECIPE: Final = ROOT / "recipes" / "pytest"
"""What a user copies, with tests that get clusters from the installed plugin."""
SSO: Final = """
[[cluster]]
name = "nobody"
bootstrap = "127.0.0.1:1"
[sso]
issuer = "https://127.0.0.1:1/realm"
client_id = "kavka-console"
client_secret = "secret"
address = "http://127.0.0.1:8090"
[[sso.rule]]
group = "operators"
rights = ["operator on *"]
"""


class NotReleasable(Exception):
    """Something that must hold before kavka is published does not."""


def say(text: str) -> None:
    print(text, flush=True)


def run(*words: str | Path, cwd: Path = ROOT, given: str | None = None, **variables: str) -> str:
    """What a program prints. Raises NotReleasable with the end of it where it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAVKA_"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**environment, **variables},
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode != 0:
        raise NotReleasable(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def must(holds: bool, sentence: str) -> None:
    if not holds:
        raise NotReleasable(sentence)


# -- 1. the files


def environment(python: str, directory: Path, *packages: str | Path) -> Path:
    """An empty environment with these packages; returns its folder of programs."""
    run(python, "-m", "venv", "--clear", directory)
    run(directory / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return directory / "bin"


def build(tools: Path, source: Path, place: Path, *what: str) -> list[Path]:
    """The files that are made from `source`, in `place`, by name."""
    shutil.rmtree(place, ignore_errors=True)
    seconds = run("git", "log", "-1", "--format=%ct").strip()
    run(tools / "python", "-m", "build", *what, "--outdir", place, source, SOURCE_DATE_EPOCH=seconds)
    return sorted(place.iterdir())


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_files(tools: Path) -> tuple[Path, Path]:
    """The source distribution and the wheel, in dist/."""
    first, second = (build(tools, ROOT, WORK / name) for name in ("first", "second"))
    for one, again in zip(first, second, strict=True):
        must(digest(one) == digest(again), f"{one.name} has other bytes when it is built again")
    wheel = next(path for path in first if path.suffix == ".whl")
    sdist = next(path for path in first if path.name.endswith(".tar.gz"))
    unpacked = WORK / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (from_source,) = build(tools, next(unpacked.iterdir()), WORK / "from-source", "--wheel")
    must(digest(from_source) == digest(wheel), "the wheel that is built from the source distribution is another one")
    DIST.mkdir(exist_ok=True)
    for path in (sdist, wheel):
        shutil.copy(path, DIST / path.name)
        say(f"  {path.name}: {path.stat().st_size / 1e6:.2f} MB, sha256 {digest(path)}")
    return DIST / sdist.name, DIST / wheel.name


# -- 2. what is in them


def look_into(sdist: Path, wheel: Path, version: str) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    wrong = [name for name in names if name.startswith(("tests/", "benchmarks/", "tools/", "src/"))]
    must(not wrong, f"the wheel has {wrong[:3]}")
    for name in ("kavka/py.typed", "kavka_spark/py.typed", "kavka/testing/pytest_plugin.py"):
        must(name in names, f"the wheel lacks {name}")
    must(any(name.endswith("/licenses/LICENSE") for name in names), "the wheel lacks its licence")
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "tests/conftest.py", "Makefile"):
        must(name in sources, f"the source distribution lacks {name}")
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    must(heading is not None and heading[1] == version, f"CHANGELOG.md does not begin with {version}")


# -- 3. in use


@contextmanager
def up(programs: Path, directory: Path, *options: str) -> Iterator[dict[str, Any]]:
    """A running `kavka up`; what it says when it is ready."""
    words = [str(programs / "kavka"), "up", "--port", "0", "--data", str(directory), "--json", *options]
    process = subprocess.Popen(words, cwd=directory.parent, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told: dict[str, Any] = {}
        events = {"ready"} if "--no-console" in options else {"ready", "console"}
        while events and (line := process.stdout.readline()):
            event = json.loads(line)
            events.discard(event["event"])
            told.update(event)
        must(not events, f"{' '.join(words)} ended before it said: {', '.join(events)}")
        (told["bootstrap"],) = told["listeners"].values()
        yield told
    finally:
        process.terminate()
        status = process.wait(READY_S)
        must(status == 0, f"kavka up ended with {status} when it was told to stop")


def base(programs: Path, place: Path) -> None:
    """A record goes in and comes out, and a test gets a cluster."""
    kavka = programs / "kavka"
    with up(programs, place / "data", "--no-console") as ready:
        broker = ready["bootstrap"]
        run(kavka, "produce", "greetings", "-b", broker, given="hello\n")
        must("hello" in run(kavka, "consume", "greetings", "-e", "-b", broker), "the record did not come back")
        run(kavka, "health", "-b", broker)
        run(kavka, "why", "-b", broker)
    copy = shutil.copytree(RECIPE, place / "recipe")
    wanted = copy / "requirements.txt"  # kavka is there.
    run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted)
    run(programs / "python", "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", copy, cwd=copy)


def console(programs: Path, place: Path) -> None:
    with up(programs, place / "data", "--console-port", "0") as ready:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                with urllib.request.urlopen(ready["address"], timeout=10) as answer:
                    page = answer.read().decode()
                break
            except OSError as error:
                must(time.monotonic() < deadline, f"the console does not answer: {error}")
                time.sleep(0.2)
        must("kavka" in page.lower(), "the console's first page does not name kavka")


def single_sign_on(programs: Path, place: Path) -> None:
    """A console with a provider of logins starts; the provider is not there, which its page says."""
    settings = place / "console.toml"
    settings.write_text(SSO, encoding="utf-8")
    words = [str(programs / "kavka"), "console", "--settings", str(settings), "--port", "0", "--json"]
    process = subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        with urllib.request.urlopen(f"{address}login", timeout=READY_S) as answer:
            must("/login/sso" in answer.read().decode(), "the page to log in has no way to the provider")
    finally:
        process.terminate()
        process.wait(READY_S)


def security(programs: Path, place: Path) -> None:
    with up(programs, place / "data", "--no-console", "--secure") as ready:
        login = ("-b", ready["bootstrap"], "--client-config", str(place / "data" / "security" / "admin.properties"))
        run(programs / "kavka", "produce", "secrets", *login, given="hush\n")
        must("hush" in run(programs / "kavka", "consume", "secrets", "-e", *login), "the record did not come back")


def kerberos(programs: Path, place: Path) -> None:
    run(programs / "python", "-c", "import gssapi, kavka.broker.authentication", cwd=place)


def schema_registry(programs: Path, place: Path) -> None:
    with up(programs, place / "data", "--no-console") as ready:
        words = [programs / "kavka", "schema-registry", "-b", ready["bootstrap"], "--port", "0", "--json"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                address = json.loads(process.stdout.readline())["address"]
                body = json.dumps({"schema": '"string"'}).encode()
                with urllib.request.urlopen(f"{address}/subjects/s/versions", body, timeout=30) as answer:
                    must(json.loads(answer.read())["id"] == 1, "the first schema has not the id 1")
            finally:
                process.terminate()


def otel(programs: Path, place: Path) -> None:
    """A broker that is to export its traces starts, serves and stops while its collector is away."""
    traces = (
        "--set",
        "kavka.otlp.traces.endpoint=http://127.0.0.1:9/v1/traces",
        "--set",
        "kavka.request.trace.sample=1",
    )
    with up(programs, place / "data", "--no-console", *traces) as ready:
        run(programs / "kavka", "produce", "greetings", "-b", ready["bootstrap"], given="hello\n")


def spark(programs: Path, place: Path) -> None:
    run(programs / "kavka", "spark", "doctor", cwd=place)


def delta(programs: Path, place: Path) -> None:
    target = "from kavka_spark.lakehouse.delta_format import DeltaFormat as Format; given = {'path': 'table'}"
    make_table(programs, place, target)


def iceberg(programs: Path, place: Path) -> None:
    catalog = (
        "{'catalog.type': 'sql', 'catalog.uri': 'sqlite:///catalog.db', 'catalog.warehouse': 'file://' + os.getcwd()}"
    )
    given = f"given = {{'table': 'shop.orders', **{catalog}}}"
    make_table(programs, place, f"from kavka_spark.lakehouse.iceberg_format import IcebergFormat as Format; {given}")


def lineage(programs: Path, place: Path) -> None:
    """The client's own transport into a file gets a run that began and ended."""
    script = (
        "from pathlib import Path; from kavka_spark.pipelines.lineage import Lineage\n"
        "from kavka_spark.pipelines.spec import parse_spec\n"
        "spec = parse_spec(Path('p.yml'), {'name': 'p', 'storage': 's', 'kavka': {'lineage': True}})\n"
        "with Lineage(spec, print) as told:\n"
        "    told.take({'at': 0, 'event': 'run began', 'run': 1})\n"
        "    told.take({'at': 1, 'event': 'run ended', 'run': 1, 'outcome': 'completed'})\n"
    )
    (place / "openlineage.yml").write_text("transport: {type: file, log_file_path: told.json, append: true}\n")
    run(programs / "python", "-c", script, cwd=place)
    must((place / "told.json").read_text().count("eventType") == 2, "a run was not told of")


def make_table(programs: Path, place: Path, target: str) -> None:
    """By the code that a query's first batch runs."""
    script = (
        f"import os, pyarrow as pa; {target}\n"
        "table = Format(given).target(streaming=False)(pa.schema([('id', pa.int64())]))\n"
        "print(table.layout.columns.names)\n"
    )
    must("['id']" in run(programs / "python", "-c", script, cwd=place), "no table was made")


USES: Final[dict[str, Callable[[Path, Path], None]]] = {
    "": base,
    "console": console,
    "console,sso": single_sign_on,
    "security": security,
    "kerberos": kerberos,
    "otel": otel,
    "schema-registry": schema_registry,
    "spark": spark,
    "delta": delta,
    "iceberg": iceberg,
    "spark,lineage": lineage,
}
"""By extra; "" is kavka alone."""


def use(python: str, wheel: Path, extra: str) -> None:
    place = WORK / python / (extra or "alone")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    began_s = time.monotonic()
    programs = environment(python, place / "environment", f"{wheel}[{extra}]" if extra else wheel)
    run(programs / "python", "-m", "pip", "check", "--disable-pip-version-check")
    USES[extra](programs, place)
    size = sum(path.stat().st_size for path in (place / "environment").rglob("*") if path.is_file())
    say(f"  {python}, {extra or 'alone'}: {time.monotonic() - began_s:.0f} s, {size / 1e6:.0f} MB installed")


def pythons() -> list[str]:
    """The oldest Python that kavka takes, and the newest that is here."""
    here = [name for name in PYTHONS if _answers(name)]
    must(bool(here), "no Python from 3.11 on is here")
    return list(dict.fromkeys((here[-1], here[0])))


def _answers(name: str) -> bool:
    """Whether this is an interpreter; some tools put a program of its name there that only says where to find one."""
    return (
        shutil.which(name) is not None
        and subprocess.run([name, "-V"], capture_output=True, check=False).returncode == 0
    )


# -- 4. the first page, word by word


def follow_the_first_page(python: str) -> None:
    """Its blocks of the shell in order, in a checkout; those behind the one that serves are "another terminal"."""
    place = WORK / "first-page"
    shutil.rmtree(place, ignore_errors=True)
    run("git", "clone", "--quiet", ROOT, place / "kavka")
    run(python, "-m", "venv", place / "environment")
    checkout = place / "kavka"
    part = re.search(
        r"^## Start$(.*?)^## ", (checkout / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    must(part is not None, "README.md has no part Start")
    assert part is not None
    install, serve, use = re.findall(r"^```sh\n(.*?)^```", part[1], re.DOTALL | re.MULTILINE)
    path = f"{place / 'environment' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    began_s = time.monotonic()
    run("sh", "-ec", install, cwd=checkout, PATH=path)
    path = f"{checkout / '.venv' / 'bin'}{os.pathsep}{path}"
    with subprocess.Popen(
        ["sh", "-ec", f"exec {serve}"],
        cwd=checkout,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            must(ready.startswith("kavka is ready"), f"{serve.strip()} said: {ready}")
            must("hello" in run("sh", "-ec", use, cwd=checkout, PATH=path), "the record did not come back")
        finally:
            process.terminate()
    took_s = time.monotonic() - began_s
    must(took_s < FIRST_PAGE_S, f"the first page took {took_s:.0f} s, not {FIRST_PAGE_S}")
    say(f"  {python}: installed, written and read in {took_s:.0f} s")


# -- 5. the bill of materials


def write_bill(tools: Path, python: str, wheel: Path, extras: Sequence[str], version: str) -> None:
    all_extras = ",".join(extra for extra in extras if extra)
    environment(python, WORK / "all", f"{wheel}[{all_extras}]" if all_extras else wheel)
    bill = DIST / f"kavka-{version}.cdx.json"
    run(
        tools / "cyclonedx-py", "environment", "--output-reproducible", "--pyproject", ROOT / "pyproject.toml",
        "--output-file", bill, WORK / "all" / "bin" / "python",
    )  # fmt: skip
    components = json.loads(bill.read_text(encoding="utf-8"))["components"]
    must(any(each["name"] == "cramjam" for each in components), "the bill of materials lacks what kavka needs")
    say(f"  {bill.name}: {len(components)} components")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--extra", action="append", choices=list(USES), help="only this one; '' is kavka alone")
    extras = parser.parse_args(argv).extra or list(USES)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    missing = project["optional-dependencies"].keys() - {each for used in USES for each in used.split(",")} - {"dev"}
    try:
        must(not missing, f"tools/release_check.py does not use the extra {', '.join(missing)}")
        must(not run("git", "status", "--porcelain").strip(), "there are changes that are not committed")
        say("Building")
        tools = environment(pythons()[0], WORK / "tools", *TOOLS)
        sdist, wheel = make_files(tools)
        look_into(sdist, wheel, project["version"])
        say("Using")
        for python in pythons():
            for extra in extras:
                use(python, wheel, extra)
        say("Following the first page")
        follow_the_first_page(pythons()[0])
        say("Listing")
        write_bill(tools, pythons()[0], wheel, extras, project["version"])
    except NotReleasable as problem:
        print(f"Not releasable: {problem}", file=sys.stderr)
        return 1
    say(f"Releasable: {sdist.relative_to(ROOT)}, {wheel.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
