"""The order in which a HashMap of Java's has its keys: what Java 21 answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kavka.coordinator.groups.streams.decide.hash_order import in_hash_order


@pytest.mark.parametrize(
    ("came", "order"),
    [
        ([], []),
        (["b", "a"], ["a", "b"]),
        (["AaAa", "BBBB", "AaBB", "c"], ["c", "AaAa", "BBBB", "AaBB"]),
        (["BBBB", "AaAa", "c", "AaBB"], ["c", "BBBB", "AaAa", "AaBB"]),
        (
            ["\U0001f600", "\xfc", "x", "zz", "Zebra", "store-1", "store-2"],
            ["zz", "Zebra", "store-1", "store-2", "\U0001f600", "x", "\xfc"],
        ),
        (
            ["KSTREAM-AGGREGATE-0000000003", "KSTREAM-JOIN-0000000017", "by-word", "counts"],
            ["counts", "KSTREAM-AGGREGATE-0000000003", "KSTREAM-JOIN-0000000017", "by-word"],
        ),
    ],
)
def test_keys_come_in_the_order_of_their_hashes(came: Sequence[str], order: Sequence[str]) -> None:
    """AaAa, BBBB and AaBB have one hash: they stay in the order in which they came."""
    assert in_hash_order(came) == order


@pytest.mark.parametrize(
    "order",
    [
        "0 77 56 35 14 49 28 7 70 63 42 21",
        "77 56 35 14 49 28 0 7 70 84 63 42 21",
        "77 56 35 14 49 28 161 140 0 154 133 112 147 126 105 7 91 70 119 84 63 42 21 98",
        "49 28 154 133 112 91 70 119 98 77 56 35 14 161 140 0 168 147 126 105 7 84 63 42 21",
        "49 28 294 196 273 175 252 154 231 133 210 112 259 238 315 91 217 70 119 98 77 56 35 14 280 182 161 140 0 "
        "287 189 266 168 245 322 147 224 301 126 203 105 7 329 308 84 63 42 21",
        "49 196 273 154 231 112 238 315 91 119 98 56 14 280 161 0 287 168 245 322 126 203 7 329 63 21 28 294 175 252 "
        "133 210 259 336 217 70 77 35 182 140 189 266 147 224 301 105 308 84 42",
    ],
    ids=lambda order: str(len(order.split())),
)
def test_a_map_has_more_buckets_from_three_quarters_of_them_on(order: str) -> None:
    keys = order.split()
    assert in_hash_order(str(7 * number) for number in range(len(keys))) == keys


def test_hashes_of_long_keys_are_cut_to_32_bits() -> None:
    squares = [576, 256, 64, 81, 49, 25, 361, 225, 324, 169, 400, 100, 144, 441, 121, 484, 289, 529, 4, 16, 0, 1, 36]
    order = [f"a long name {square}" for square in (*squares, 196, 9)]
    assert in_hash_order(f"a long name {number * number}" for number in range(25)) == order
