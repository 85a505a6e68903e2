"""Chaos: a cluster of real processes under faults, and a checker of what its clients saw. `make chaos`, or `PYTHONPATH=tests python -m chaos.run`."""
