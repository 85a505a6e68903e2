"""Upgrades: what earlier builds left on disk opens with this one, and a running cluster goes from one to the other.

earlier_build    an earlier build of kavka from the repository's history, as a program
contents         what clients read of a cluster: records, settings, offsets, decisions
make_fixtures    writes fixtures/ anew with an earlier build: `python -m tests.upgrade.make_fixtures`
test_fixtures    opens each fixture and compares what clients read
rolling          a cluster under load goes from an earlier build to this one and back: `make upgrade`
"""
