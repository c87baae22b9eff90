"""The engine's promises (`docs`: reliability), held against killed, raced and starved real runs."""

import pytest

pytest.register_assert_rewrite("tests.promises.judging", "tests.promises.trials")
