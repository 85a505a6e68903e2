"""The demo: `python -m demo.demo` (or `make demo`)."""
