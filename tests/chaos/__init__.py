"""Chaos: a cluster of real processes under faults, and a checker of what its clients saw.

`make chaos`, or any length and mix by hand: `python -m tests.chaos.run --help`.
"""
