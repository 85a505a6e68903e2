"""`kavka console`: from options, environment and settings file to a running console.

Decides which source of a setting wins (console.settings says the order) and what is said when it is ready or cannot
start. Must not know what the console shows.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kavka.cli.console_beside import NICENESS
from kavka.cli.output import Failure
from kavka.cli.session import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from kavka.console.settings import ConsoleSettings

NEEDED = ("starlette", "uvicorn", "jinja2", "multipart", "itsdangerous")
"""What the console cannot start without."""
MISSING = 'the console needs packages that are not installed: pip install "kavka[console]"'


def is_installed() -> bool:
    """Whether the console's extra is there."""
    return all(find_spec(name) is not None for name in NEEDED)


def console(
    bootstraps: Sequence[str],
    *,
    file: str | None,
    host: str | None,
    port: int | None,
    data: str | None,
    zookeeper: str | None,
    login: bool,
    log_level: str,
    as_json: bool,
    beside: bool,
) -> None:
    """Serves until a signal ends it. `beside`: it ends with its standard input, and takes another port where its own is
    taken. Raises Failure."""
    if not is_installed():
        raise Failure(MISSING)
    from kavka.console.server import bind, serve
    from kavka.errors import ConfigError, KavkaError
    from kavka.runtime.log_output import configure

    try:
        settings = _settings(bootstraps, file, zookeeper)
        chosen = {"host": host, "port": port, "data_directory": data, "login": True if login else None}
        settings = replace(settings, **{name: value for name, value in chosen.items() if value is not None})  # type: ignore[arg-type]  # each is of its field's type
        configure(log_level, as_json=as_json)
        if beside:
            os.nice(NICENESS)
        bound = bind(settings.host, settings.port, elsewhere=beside)
        serve(settings, bound, on_ready=lambda address: _tell(settings, address, as_json), while_input=beside)
    except ConfigError as problem:
        raise Failure(str(problem), "docs/console.md has all settings") from problem
    except KavkaError as problem:
        raise Failure(str(problem), "stop what listens there, or choose another port with --port") from problem
    except (OSError, sqlite3.Error) as problem:
        where = settings.data_directory
        raise Failure(f"{where}: {problem}", "choose a directory that can be written, with --data") from problem


def _settings(bootstraps: Sequence[str], file: str | None, zookeeper: str | None) -> ConsoleSettings:
    """Raises ConfigError, Failure."""
    from kavka.console.settings import ConsoleSettings, parse_settings, with_bootstrap, with_environment

    settings = ConsoleSettings()
    if file is not None:
        try:
            with open(file, encoding="utf-8") as stream:
                settings = parse_settings(stream.read(), where=file)
        except (OSError, UnicodeDecodeError) as problem:
            raise Failure(f"cannot read {file}: {problem}", "name a file of settings that you may read") from problem
    settings = with_environment(settings, os.environ)
    named = list(bootstraps)
    if not named and os.environ.get(BOOTSTRAP_VARIABLE):
        named = [os.environ[BOOTSTRAP_VARIABLE]]
    if named or not settings.clusters:
        settings = with_bootstrap(settings, named or [DEFAULT_BOOTSTRAP])
    if zookeeper:
        settings = replace(settings, clusters=tuple(replace(each, zookeeper=zookeeper) for each in settings.clusters))
    return settings


def _tell(settings: ConsoleSettings, address: str, as_json: bool) -> None:
    if as_json:
        facts = {"event": "console", "address": address, "clusters": [each.name for each in settings.clusters]}
        print(json.dumps(facts), flush=True)
    else:
        print(f"The console is ready: {address}", flush=True)
