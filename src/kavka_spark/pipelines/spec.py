"""PipelineSpec: pipeline.yml, which is SDP's spec with a key of kavka's own; or SDP's spec as it is, and beside it
kavka.yml with what stands under that key, so that plain spark-pipelines takes the same folder.

Decides what the file means and refuses what it does not know, with the line where YAML tells one. Must not know Spark.

    name: orders
    storage: storage                    a folder beside the file, or a URI
    libraries: [{glob: {include: transformations/**}}]
    configuration: {orders.window: 1 hour}      SDP's; texts, which definitions read by spark.conf.get
    kavka:
      bootstrap: 127.0.0.1:9092         spark.conf.get("spark.kavka.bootstrap.servers") in definitions
      master: local[*]
      every: 10s                        `kavka pipeline watch`: from the end of a run to the next
      trigger: 1s                       `run --continuous`: how often a stream looks for new records
      refresh: 30s                      `run --continuous`: how often materialized views are computed again
      metrics: 127.0.0.1:9405           for Prometheus: an address to ask, or the path of a file, while a command runs
      alerts: {webhook: URL, lag: 100000, for: 5m, broken: 1%}      who is told of failed runs, and of what else
      lineage: URL                      OpenLineage; true: as its client is configured

I1  What SDP gets has no key of kavka's, and its storage is an absolute URI, in the letters of the path: Hadoop takes
    none for an escape. SDP turns it into one and back again before a query gets its checkpoint, so a path that this
    changes is refused. The checkpoint would lie elsewhere, where a full refresh does not find it: a table without rows
I2  Text from --set and -b goes over what the file says; nothing else does.

Source: pyspark/pipelines/cli.py of Spark 4.3 (which keys, which globs).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import urlparse

from kavka.installation import install_command
from kavka_spark.pipelines.monitor import Limits
from kavka_spark.pipelines.progress import USUAL_HOME

FILE_NAME: Final = "pipeline.yml"
_ESCAPED: Final = re.compile(r"""[\x00-\x20"#%<>?\[\\\]^`{|}\x7f-\xa0]|\s""")
"""What Java's URI does not leave as it is."""
OWN_FILE: Final = "kavka.yml"
SDP_KEYS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
OWN_KEY: Final = "kavka"
BOOTSTRAP: Final = "spark.kavka.bootstrap.servers"
"""The setting in which definitions find the brokers."""
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class SpecError(Exception):
    """A pipeline.yml that cannot be run. `next_step` says what to write instead."""

    def __init__(self, problem: str, next_step: str = "") -> None:
        super().__init__(problem)
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """What stands under `kavka:`. Times in seconds."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    master: str = "local[*]"
    every_s: float = 10.0
    trigger_s: float = 1.0
    refresh_s: float = 30.0
    metrics: str = ""
    """HOST:PORT, or a path (it has a slash); empty: none."""
    webhook: str = ""
    limits: Limits = field(default_factory=Limits)
    lineage: str = ""
    """A URL, or `client` for what OpenLineage's client is configured to; empty: none."""


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A pipeline as its file says. `storage` is an absolute URI."""

    path: Path
    name: str
    storage: str
    globs: tuple[str, ...] = ("transformations/**",)
    catalog: str | None = None
    database: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    own: OwnSettings = field(default_factory=OwnSettings)

    @property
    def root(self) -> Path:
        """The folder to which globs and relative paths refer."""
        return self.path.parent

    @property
    def home(self) -> tuple[str, str]:
        """The catalog and the database of tables that are named without one."""
        return self.catalog or USUAL_HOME[0], self.database or USUAL_HOME[1]

    @property
    def state(self) -> Path:
        """Where kavka keeps the journals of runs and the catalog: in the storage where that is a folder of this
        machine, else beside the file."""
        local = local_path(self.storage)
        return self.root / f".kavka-{self.name}" if local is None else local / "_kavka"

    def spark_configuration(self) -> dict[str, str]:
        """The settings that Spark takes when it starts: names that begin with `spark.`."""
        ours = {name: value for name, value in self.configuration.items() if name.startswith("spark.")}
        return {**ours, BOOTSTRAP: self.own.bootstrap}

    def session_configuration(self) -> dict[str, str]:
        """The settings that only a session takes: the pipeline's own names."""
        return {name: value for name, value in self.configuration.items() if not name.startswith("spark.")}

    def files(self) -> list[Path]:
        """The definition files, in a fixed order. Raises SpecError.

        Hidden ones are none: a folder that Kubernetes mounts has all of its files a second time below `..data`."""
        found: list[Path] = []
        for glob in self.globs:
            pattern = f"{glob}/*" if glob.endswith("/**") else glob
            below = sorted(path for path in self.root.glob(pattern) if path.is_file() and not self._is_hidden(path))
            found += [path for path in below if "__pycache__" not in path.parts and path not in found]
        strange = [path for path in found if path.suffix not in (".py", ".sql")]
        if strange:
            raise SpecError(f"{strange[0]} is neither Python nor SQL", "definitions are .py and .sql files")
        if not found:
            raise SpecError(
                f"{self.path}: no definition matches {', '.join(self.globs)}",
                "put a .py or .sql file there, or begin with `kavka pipeline init`",
            )
        return found

    def _is_hidden(self, path: Path) -> bool:
        return any(part.startswith(".") and part != ".." for part in path.relative_to(self.root).parts)

    def with_changes(self, bootstrap: str | None, settings: Sequence[str]) -> PipelineSpec:
        """With the command line's -b and --set NAME=VALUE. Raises SpecError."""
        configuration = dict(self.configuration)
        for text in settings:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise SpecError(f"--set {text} is not NAME=VALUE", "name a setting and its value")
            configuration[name] = value
            if name == BOOTSTRAP and bootstrap is None:
                bootstrap = value
        own = self.own if bootstrap is None else replace(self.own, bootstrap=bootstrap)
        return replace(self, configuration=configuration, own=own)


def find_spec(path: Path) -> Path:
    """The file itself, or pipeline.yml in a folder. Raises SpecError."""
    try:
        return _find_spec(path)
    except OSError as problem:
        raise SpecError(
            f"{problem.filename} cannot be read: {problem.strerror}", "name a pipeline.yml that you may read"
        ) from problem


def _find_spec(path: Path) -> Path:
    if path.is_dir():
        for name in (FILE_NAME, "pipeline.yaml", "spark-pipeline.yml", "spark-pipeline.yaml"):
            if (path / name).is_file():
                return path / name
        raise SpecError(f"no {FILE_NAME} in {path}", "name one, or begin with `kavka pipeline init`")
    if not path.is_file():
        raise SpecError(f"{path} does not exist", "name a pipeline.yml, or begin with `kavka pipeline init`")
    return path


def read_spec(path: Path) -> PipelineSpec:
    """Raises SpecError, which names the file and, of broken YAML, the line."""
    file = find_spec(path).resolve()
    fields = _read_yaml(file)
    own = file.with_name(OWN_FILE)
    return parse_spec(file, _with_own_file(file, fields, own) if own.is_file() else fields)


def _read_yaml(file: Path) -> object:
    try:
        import yaml
    except ModuleNotFoundError:
        raise SpecError("PyYAML is not installed", install_command("spark")) from None

    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise SpecError(
            f"{file} cannot be read: {problem.strerror}", "name a pipeline.yml that you may read"
        ) from problem
    except UnicodeDecodeError as problem:
        raise SpecError(f"{file} is not text in UTF-8: {problem}", "save it as UTF-8") from problem
    except (yaml.YAMLError, ValueError, RecursionError) as problem:  # ValueError: a day that no month has
        mark = getattr(problem, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        what = getattr(problem, "problem", None) or str(problem)
        raise SpecError(f"{file}{line} is not valid YAML: {what}", "write texts in quotes") from problem


def _with_own_file(file: Path, fields: object, own: Path) -> object:
    """SDP's spec with the settings of kavka.yml under kavka's key."""
    if not isinstance(fields, dict):
        return fields
    if OWN_KEY in fields:
        raise SpecError(f"{file} has a key {OWN_KEY}, and {own.name} is beside it", "keep the settings in one of them")
    return {**fields, OWN_KEY: _read_yaml(own) or {}}


def parse_spec(file: Path, fields: object) -> PipelineSpec:
    """The spec from parsed YAML. Raises SpecError."""
    if not isinstance(fields, dict):
        raise SpecError(f"{file} does not hold keys and values", "name: and storage: are needed")
    _refuse_unknown(file, fields, (*SDP_KEYS, OWN_KEY))
    for key in ("name", "storage"):
        if not isinstance(fields.get(key), str) or not fields[key]:
            raise SpecError(f"{file}: {key} is missing", f"write `{key}: ...`, a text")
    for key in ("catalog", "database", "schema"):
        if not isinstance(fields.get(key, ""), str):
            raise SpecError(f"{file}: {key} is {fields[key]}", "write a name, in quotes")
    return PipelineSpec(
        file,
        fields["name"],
        _storage(file, fields["storage"]),
        _globs(file, fields.get("libraries")),
        fields.get("catalog"),
        fields.get("database", fields.get("schema")),
        _configuration(file, fields.get("configuration")),
        _own_settings(file, fields.get(OWN_KEY), _configuration(file, fields.get("configuration")).get(BOOTSTRAP)),
    )


def _storage(file: Path, storage: str) -> str:
    try:
        uri = storage_uri(file.parent, storage)
        urlparse(uri)
    except ValueError as problem:
        raise SpecError(f"{file}: storage is {storage}: {problem}", "write a folder or a URI") from problem
    escaped = sorted(set(_ESCAPED.findall(uri)))
    if escaped:
        raise SpecError(
            f"{file}: storage is {uri}, and Spark does not find again what it stores below a path with "
            f"{' or '.join(map(repr, escaped))}",
            "move the pipeline, or let storage name a folder elsewhere, without spaces, % and brackets in its path",
        )
    return uri


def storage_uri(root: Path, storage: str) -> str:
    """The absolute URI of a folder below `root`; a URI is returned as it is."""
    if re.match(r"[a-z][a-z0-9+.-]+:", storage):
        return storage
    return f"file://{(root / os.path.expanduser(storage)).resolve()}"


def local_path(uri: str) -> Path | None:
    """The folder of a file: URI; None for other file systems."""
    parts = urlparse(uri)
    return Path(parts.path) if parts.scheme == "file" else None


def _globs(file: Path, libraries: object) -> tuple[str, ...]:
    if libraries is None:
        return ("transformations/**",)
    example = "libraries: [{glob: {include: transformations/**}}]"
    try:
        globs = tuple(str(each["glob"]["include"]) for each in libraries)  # type: ignore[attr-defined]  # told below
    except (TypeError, KeyError):
        raise SpecError(f"{file}: libraries does not have the form that SDP expects", f"write {example}") from None
    for glob in globs:
        prefix = glob.removesuffix("/**")
        if any(letter in prefix for letter in "*?["):
            raise SpecError(f"{file}: {glob} is neither a file nor a folder with /**", f"write {example}")
        if not prefix.strip("/") or os.path.isabs(prefix):
            raise SpecError(f"{file}: {glob!r} is no path from {file.parent}", f"write {example}")
        if (file.parent / glob).is_dir():
            raise SpecError(f"{file}: {glob} is a folder", f"write {glob.rstrip('/')}/** for what is in it")
    return globs


def _configuration(file: Path, fields: object) -> dict[str, str]:
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise SpecError(f"{file}: configuration does not hold keys and values", "write {spark.some.setting: 'text'}")
    for name, value in fields.items():
        if not isinstance(value, str):
            raise SpecError(
                f"{file}: configuration {name} is {value!r}, and SDP takes texts only", f'write {name}: "{value}"'
            )
    return {str(name): value for name, value in fields.items()}


def _own_settings(file: Path, fields: object, configured: str | None) -> OwnSettings:
    """`configured` are the brokers among SDP's settings, for definitions under plain spark-pipelines."""
    usual = OwnSettings() if configured is None else OwnSettings(configured)
    if fields is None:
        return usual
    if not isinstance(fields, dict):
        raise SpecError(f"{file}: kavka does not hold keys and values", "write kavka: {bootstrap: HOST:PORT}")
    known = ("bootstrap", "master", "every", "trigger", "refresh", "metrics", "alerts", "lineage")
    _refuse_unknown(file, fields, known, within="kavka.")
    webhook, limits = _alerts(file, fields.get("alerts"))
    return OwnSettings(
        _text(file, fields, "bootstrap", usual.bootstrap),
        _text(file, fields, "master", usual.master),
        _seconds(file, fields, "every", usual.every_s),
        _seconds(file, fields, "trigger", usual.trigger_s),
        _seconds(file, fields, "refresh", usual.refresh_s),
        _metrics(file, fields.get("metrics")),
        webhook,
        limits,
        _lineage(file, fields.get("lineage")),
    )


def _text(file: Path, fields: Mapping[str, object], name: str, usual: str) -> str:
    text = fields.get(name, usual)
    if not isinstance(text, str) or not text.strip():
        example = "HOST:PORT,HOST:PORT" if name == "bootstrap" else f'"{usual}"'
        raise SpecError(
            f"{file}: kavka.{name} is {'empty' if text in (None, '') else text}", f"write {name}: {example}"
        )
    return text


def _metrics(file: Path, value: object) -> str:
    if value is None:
        return ""
    text = str(value)
    if "/" in text:
        return str((file.parent / os.path.expanduser(text)).resolve())
    if not re.fullmatch(r"[^:]*:\d{1,5}|\[[0-9a-fA-F:.]+\]:\d{1,5}", text):
        raise SpecError(f"{file}: kavka.metrics is {value}", "write HOST:PORT, or the path of a file, with a slash")
    return text


def _alerts(file: Path, fields: object) -> tuple[str, Limits]:
    if fields is None:
        return "", Limits()
    example = "write kavka: {alerts: {webhook: http://HOST/PATH}}"
    if not isinstance(fields, dict) or not str(fields.get("webhook", "")).startswith(("http://", "https://")):
        raise SpecError(f"{file}: kavka.alerts names no webhook", example)
    _refuse_unknown(file, fields, ("webhook", "lag", "for", "broken"), within="kavka.alerts.")
    usual, lag = Limits(), fields.get("lag")
    if lag is not None and (not isinstance(lag, int) or isinstance(lag, bool) or lag < 0):
        raise SpecError(f"{file}: kavka.alerts.lag is {lag}", "write a number of records")
    if "for" in fields and lag is None:
        raise SpecError(f"{file}: kavka.alerts.for is about a lag", "write lag, too, or leave it out")
    lag_for_s = _seconds(file, fields, "for", usual.lag_for_s, within="kavka.alerts.")
    return str(fields["webhook"]), Limits(lag, lag_for_s, _share(file, fields.get("broken")))


def _share(file: Path, value: object) -> float | None:
    """`1%` or 0.01."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", str(value))
    share = None if match is None else float(match[1]) / (100 if match[2] else 1)
    if share is None or share > 1:
        raise SpecError(f"{file}: kavka.alerts.broken is {value}", "write a share of the rows, such as 1%")
    return share


def _lineage(file: Path, value: object) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "client"
    if not str(value).startswith(("http://", "https://")):
        raise SpecError(
            f"{file}: kavka.lineage is {value}", "write http://HOST:PORT, or true for the client's own settings"
        )
    return str(value)


def _seconds(file: Path, fields: Mapping[str, object], name: str, usual: float, *, within: str = "kavka.") -> float:
    if name not in fields:
        return usual
    seconds = parse_seconds(str(fields[name]))
    if seconds is None:
        raise SpecError(f"{file}: {within}{name} is {fields[name]}", "write 500ms, 10s, 5m or 1h")
    return seconds


def parse_seconds(text: str) -> float | None:
    """Seconds of `500ms`, `10s`, `5m`, `1h`; None of anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)", text.strip())
    return None if match is None else float(match[1]) * _UNITS_S[match[2]]


def _refuse_unknown(file: Path, fields: Mapping[object, object], known: Sequence[str], *, within: str = "") -> None:
    for key in fields:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean {within}{near[0]}?" if near else f"known are {', '.join(known)}"
            raise SpecError(f"{file}: unknown key {within}{key}", hint)
