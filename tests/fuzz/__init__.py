"""Random input: only our own faults come out, and two ways to an answer always agree."""
