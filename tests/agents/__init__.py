"""Tests of the agents: parsers against recorded output, adapters against fake and real programs."""
