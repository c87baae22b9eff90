"""Options and profiles that every test may use."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from orchestrate.state import clock
from orchestrate.testing import Project
from tests.commands import CHANGED, SPAWNS, Command
from tests.cpu_listing import CpuListing
from tests.promises.processes import folder_in_memory, memory_with_room

Project.start = Command
# So many programs are started that compiling our modules for each would take half of the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Until all tests are collected: what is made by then stays.
gc.disable()

# The check of a change tries the same examples each time, so that it judges the change; new ones
# are looked for by `make test` at a developer's place, and by the thousand in `make soak`.
settings.register_profile(
    "default", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)  # fmt: skip
settings.register_profile(
    "soak", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


_HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="write what the tests see as the new golden files (then read the diff)",
    )
    parser.addoption(
        "--cpu",
        metavar="N",
        type=int,
        nargs="?",
        const=60,
        help="list the N files and tests that took the most processor time",
    )


# All that is in these folders has the marker `faults`; elsewhere a file says so itself.
_OF_FAULTS = {"fuzz", "hostile", "mutants", "process", "promises", "truth"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(_HERE / folder) for folder in _OF_FAULTS):
            item.add_marker(pytest.mark.faults)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Each run has a temporary folder of its own.

    pytest numbers them in one place and each run tidies up after the others there, which ends the
    session when two runs tidy at once.
    """
    if not hasattr(config, "workerinput") and not config.option.basetemp:
        is_named = SPAWNS or "TMPDIR" in os.environ
        place = None if is_named else memory_with_room()
        config.option.basetemp = tempfile.mkdtemp(prefix="orchestrate-tests-", dir=place)
        config.stash[_OWN_FOLDER] = Path(config.option.basetemp)
    if config.option.cpu is not None:
        config.pluginmanager.register(CpuListing(config.option.cpu))


def pytest_collection_finish() -> None:
    """The garbage collector need not walk through all tests and modules again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """What a failed test left behind stays to be looked at."""
    folder = session.config.stash.get(_OWN_FOLDER, None)
    if folder is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(folder, ignore_errors=True)


_OWN_FOLDER = pytest.StashKey[Path]()


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


@pytest.fixture
def quick_top() -> Iterator[Path]:
    """A folder in memory where there is one; keepers that are left in it end with the test."""
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def repository() -> Path:
    """The top of the checkout."""
    return Path(__file__).resolve().parent.parent


TimePasses = Callable[[float], None]


@pytest.fixture
def time_passes(monkeypatch: pytest.MonkeyPatch) -> TimePasses:
    """Let seconds pass for the commands that are run in this process, without waiting for them."""

    def skip(seconds: float) -> None:
        since_boot = clock.since_boot
        monkeypatch.setattr(clock, "since_boot", lambda: since_boot() + seconds)

    return skip


Quicker = Callable[[str, float], None]


@pytest.fixture
def quicker(monkeypatch: pytest.MonkeyPatch) -> Quicker:
    """Let commands wait less: a value of a module, by `module:NAME`. `make soak` waits for all."""

    def change(place: str, value: float) -> None:
        if not SPAWNS:
            monkeypatch.setitem(CHANGED, place, value)
            monkeypatch.setattr(place.replace(":", "."), value)

    return change


@pytest.fixture(scope="session", autouse=True)
def own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs note their workspaces in the user's state folder: not in that of whoever tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def hearing_commands() -> Iterator[None]:
    """Whoever started the tests may ignore signals (nohup, `&`); commands would inherit that."""
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, reaction in before.items():
        if reaction == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    yield
    for number, reaction in before.items():
        signal.signal(number, reaction)
