"""What a reader does to play each part of each lesson to its end: a number waits so many virtual milliseconds, anything
else is a click."""

from __future__ import annotations

from typing import Final, TypeAlias

Script: TypeAlias = tuple["int | tuple[str, str]", ...]

SCRIPTS: Final[dict[tuple[str, str], Script]] = {
    ("in-sync", "shrink"): (
        3_000,
        ("pause", "3"),
        5_000,
        ("resume", "3"),
        2_000,
        ("pause", "2"),
        ("pause", "3"),
        5_000,
    ),
    ("crashes", "leader"): (("kill", "1"), 1_000),
    ("crashes", "one-by-one"): (
        ("kill", "1"),
        1_000,
        ("kill", "2"),
        2_500,
        ("start", "1"),
        3_000,
        ("start", "2"),
        2_000,
    ),
    ("crashes", "at-once"): (("kill", "1"), ("kill", "2"), 2_500, ("start", "2"), 2_000),
    ("crashes", "unclean"): (("kill", "1"), 1_000, ("kill", "2"), 1_000, ("unclean", ""), 1_000),
    ("controller", "watch"): (("kill", "4"), 3_000, ("kill", "1"), 2_000),
    ("controller", "zombie"): (("pause", "4"), 500, ("kill", "1"), 6_000, ("resume", "4"), 2_000),
    ("lag", "burst"): (("rate", "40"), 15_000),
    ("lag", "slow"): (("slow", "1-3"), 6_000),
    ("request", "way"): (("write", "1"), 1_500),
    ("request", "one"): (
        ("write", "1"),
        1_500,
        ("cut", "1-2"),
        ("cut", "1-3"),
        100,
        ("write", "1"),
        200,
        ("kill", "1"),
        1_500,
    ),
}
