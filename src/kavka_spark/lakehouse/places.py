"""Place: a directory of a local disk, or of a store that PyArrow reaches, by its path or address.

Decides how a path becomes a file system and a path in it. Must not know what lies there.

Tried with local paths, and with a store that has S3's interface. Others (gs://, abfs://, hdfs://) go through PyArrow's
file systems, too, which take their logins from the environment. Hadoop's names for S3 are taken for S3: a checkpoint
has the address that Spark needs.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyarrow import fs

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+):/")
_HADOOPS_S3 = re.compile(r"^s3[an]:", re.I)


@dataclass(frozen=True, slots=True)
class Place:
    """`address` is absolute: it travels to tasks, which run in other directories."""

    address: str

    @classmethod
    def at(cls, given: str) -> Place:
        """Out of a path, relative ones below the working directory, or an address such as s3://bucket/table. Hadoop's
        file:/path is a path, too."""
        scheme = _SCHEME.match(given)
        if scheme is not None and scheme[1].lower() != "file":
            return cls(given.rstrip("/"))
        path = given if scheme is None else "/" + unquote(given[len("file:") :]).lstrip("/")
        return cls(os.path.abspath(path))

    @classmethod
    def of_location(cls, given: str) -> Place:
        """Out of a table's location in Iceberg, which is no URI: a % in it is one on the disk, too."""
        scheme = _SCHEME.match(given)
        if scheme is None or scheme[1].lower() != "file":
            return cls.at(given)
        return cls(os.path.abspath("/" + given[len("file:") :].lstrip("/")))

    @property
    def is_local(self) -> bool:
        return self.address.startswith("/")

    def open(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        if self.is_local:
            return fs.LocalFileSystem(), self.address
        found, path = fs.FileSystem.from_uri(_HADOOPS_S3.sub("s3:", self.address))
        return found, path.rstrip("/")

    def read(self, name: str) -> str:
        """A small file's text. Raises OSError, and ValueError for an address that PyArrow does not know."""
        files, path = self.open()
        with files.open_input_stream(f"{path}/{name}") as stream:
            return str(stream.read().decode())

    def names(self, directory: str) -> list[str]:
        """The names of what is in a directory; none if it is not there."""
        files, path = self.open()
        chosen = fs.FileSelector(f"{path}/{directory}", allow_not_found=True)
        return [each.base_name for each in files.get_file_info(chosen)]

    def remove(self, names: list[str]) -> None:
        """Removes files that nobody refers to. One that is gone already is no error."""
        files, path = self.open()
        for name in names:
            try:
                files.delete_file(f"{path}/{name}")
            except OSError:
                continue

    def missing(self, names: list[str]) -> list[str]:
        """Those of the files that are not there."""
        files, path = self.open()
        found = files.get_file_info([f"{path}/{name}" for name in names])
        return [name for name, each in zip(names, found, strict=True) if each.type is fs.FileType.NotFound]

    def make(self) -> None:
        """Makes the directory where directories are made."""
        if self.is_local:
            Path(self.address).mkdir(parents=True, exist_ok=True)
