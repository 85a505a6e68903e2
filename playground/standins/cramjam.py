"""Stands in for the package cramjam, which is Rust, where none can be loaded: it has no codec.

The page's clients send uncompressed records, so none is asked for; who asks all the same is told so.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    raise NotImplementedError(f"cramjam.{name}: there is no snappy, lz4 or zstd in a web page; gzip and none work")
