"""The files of a run folder, sealed and opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.errors import ConfigError
from orchestrate.fleet.keys import Keys, SealError
from orchestrate.fleet.sealed import open_files, seal_files

FILES = {"state.json": b"{}", "logs/a": b"a" * 5000, "logs/empty": b"", "odd é": b"x"}


def _folder(path: Path) -> list[str]:
    for name, content in FILES.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return [str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()]


def _bytes(path: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()
    }


@pytest.fixture
def keys() -> Keys:
    return Keys({"new": b"n" * 32, "old": b"o" * 32}, "the file")


def test_sealed_files_are_opened_as_they_were(tmp_path: Path, keys: Keys) -> None:
    names = _folder(tmp_path / "run")
    before = _bytes(tmp_path / "run")
    old = Keys({"old": b"o" * 32}, "the file")
    seal_files(tmp_path / "run", names, old, tmp_path / "sealed")
    assert all(b"aaa" not in content for content in _bytes(tmp_path / "sealed").values())
    open_files(tmp_path / "sealed", keys, is_ours_alone=True)
    assert _bytes(tmp_path / "sealed") == before


def test_what_has_not_changed_is_sealed_to_the_same_bytes(tmp_path: Path, keys: Keys) -> None:
    names = _folder(tmp_path / "run")
    for target in ("one", "two"):
        seal_files(tmp_path / "run", names, keys, tmp_path / target)
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")
    (tmp_path / "run" / "logs" / "a").unlink()
    seal_files(tmp_path / "run", [n for n in names if n != "logs/a"], keys, tmp_path / "one")
    assert _bytes(tmp_path / "two").keys() - _bytes(tmp_path / "one").keys() == {"logs/a"}


def test_what_was_changed_swapped_or_never_sealed_is_refused(tmp_path: Path, keys: Keys) -> None:
    names = _folder(tmp_path / "run")
    sealed = tmp_path / "sealed"
    seal_files(tmp_path / "run", names, keys, sealed)
    (sealed / "state.json").write_bytes((sealed / "logs" / "a").read_bytes())
    with pytest.raises(SealError, match="does not open it"):
        open_files(sealed, keys, is_ours_alone=True)
    with pytest.raises(SealError, match="is not encrypted"):
        open_files(tmp_path / "run", keys, is_ours_alone=True)
    open_files(tmp_path / "run", keys, is_ours_alone=False)
    with pytest.raises(ConfigError, match="with the key 'new'"):
        open_files(sealed, None, is_ours_alone=False)
