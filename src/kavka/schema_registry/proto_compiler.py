"""Protobuf's own compiler: the text of a .proto file to its descriptor.

Decides how the compiler is run. Must not know what is done with a descriptor.

I1  The text is anybody's: the compiler runs in a process of its own, for `COMPILE_S` at most, in a directory that holds
    the text and its references and nothing else.

grpcio-tools brings the compiler along as a Python package, with Google's own files (google/protobuf/*.proto).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from kavka.schema_registry.schemas import SchemaProblem

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

COMPILE_S: Final = 20.0
MOST_MESSAGE: Final = 1_000
"""Characters of what the compiler says."""
NAMES: Final = ("schema.proto", "kavka-schema.proto")
"""Of the text itself: the second where a reference has the first."""


def compile_proto(text: str, references: Mapping[str, str]) -> list[FileDescriptorProto]:
    """The descriptors of a text and of all that it imports; its own is the last. Raises SchemaProblem."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    own = next(each for each in NAMES if each not in references)
    with tempfile.TemporaryDirectory(prefix="kavka-proto-") as place:
        for name, content in {**references, own: text}.items():
            file = Path(place) / _inside(name)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
            except (FileExistsError, IsADirectoryError, NotADirectoryError) as problem:
                raise SchemaProblem(f"{name!r} cannot be imported: another name is the beginning of it") from problem
        _run(place, own)
        found = FileDescriptorSet.FromString((Path(place) / "out").read_bytes())
    return list(found.file)


def _run(place: str, own: str) -> None:
    specification = find_spec("grpc_tools")
    if specification is None or specification.origin is None:
        raise SchemaProblem("schemas of Protobuf need the package grpcio-tools, which is not installed")
    own_files = Path(specification.origin).parent / "_proto"
    words = [sys.executable, "-I", "-m", "grpc_tools.protoc", f"-I{place}", f"-I{own_files}"]
    words += ["--include_imports", f"--descriptor_set_out={place}/out", own]
    try:
        ended = subprocess.run(
            words, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMPILE_S, check=False
        )
    except subprocess.TimeoutExpired as problem:
        raise SchemaProblem(f"the compiler is not done with it after {COMPILE_S:g} s") from problem
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", "replace").replace(f"{place}/", "").strip()
        raise SchemaProblem(said[:MOST_MESSAGE] or f"the compiler ended with {ended.returncode}")


def _inside(name: str) -> str:
    """The name of a file, as it is imported, below the directory. Raises SchemaProblem."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name or len(os.fsencode(name)) > 200:
        raise SchemaProblem(f"{name[:100]!r} cannot be imported: a reference is a relative path without ..")
    return str(path)
