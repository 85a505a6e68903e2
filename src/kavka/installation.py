"""Installation: the command that adds one of kavka's extras to this installation.

Decides where the extra comes from: the folder that kavka was installed from, as long as it is there, else the package
index. An installer writes that down beside the package (PEP 610, direct_url.json).
"""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """For example `pip install '/home/ada/kavka[console]'`."""
    folder = _installed_from()
    what = f"{folder or 'kavka'}[{extra}]"
    return f"pip install {shlex.quote(what)}"


def _installed_from() -> Path | None:
    """The folder that kavka was installed from; None where it came from an index or an archive, or is gone."""
    try:
        text = distribution("kavka").read_text("direct_url.json")
        address = urlsplit(str(json.loads(text)["url"])) if text else None
    except (PackageNotFoundError, ValueError, LookupError, TypeError):
        return None
    if address is None or address.scheme != "file":
        return None
    folder = Path(unquote(address.path))
    return folder if (folder / "pyproject.toml").is_file() else None
