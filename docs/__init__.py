"""The documentation, and what keeps it true: see `docs/build.py`."""
