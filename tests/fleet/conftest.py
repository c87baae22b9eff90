"""What the tests of runs on other machines share."""

from tests.fleet.temporal_server import temporal_server

__all__ = ["temporal_server"]
