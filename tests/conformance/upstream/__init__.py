"""The clients' own integration tests, run against kavka: `python -m conformance.upstream.run`."""
