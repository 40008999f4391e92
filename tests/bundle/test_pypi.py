"""What is fetched from PyPI is what the lock names, or nothing is made."""

from pathlib import Path

import pytest

from deploy.bundle import wheels
from deploy.bundle.archives import sha256
from deploy.bundle.downloads import pypi
from deploy.bundle.downloads.locks import lock_text, read_lock
from deploy.bundle.downloads.pypi import BUILDER, INSTALLER, LOCK, Fetcher, File
from deploy.bundle.targets import PROCESSORS, Target
from tests.bundle.made_wheels import made_wheel

ROOT = Path(__file__).resolve().parents[2]
TARGET = Target(PROCESSORS["aarch64"], "3.13")


def test_the_lock_has_the_versions_that_are_pinned() -> None:
    """Where this fails: `python -m deploy.bundle lock`."""
    files = read_lock(LOCK.read_text(), File)
    assert lock_text(pypi.COLUMNS, files) == LOCK.read_text()
    assert all(len(each.sha256) == 64 for each in files)
    pinned = wheels.pins((ROOT / "constraints.txt").read_text())
    tools = {BUILDER, INSTALLER}
    assert [f"{f.name}=={f.version}" for f in files if f.name not in tools] == [
        f"{each.name}=={pinned[each.name]}" for each in files if each.name not in tools
    ]
    assert tools <= {each.name for each in files}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip looks, instead of asking anybody."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    for folder in ("work", "into"):
        (tmp_path / folder).mkdir()
    return tmp_path / "shelf"


@pytest.mark.not_quick("runs pip")
def test_only_a_file_of_the_lock_is_taken(shelf: Path, tmp_path: Path) -> None:
    wheel = made_wheel(shelf, "one", "1")
    digest = sha256(wheel)
    row, cache = File("one", "1", wheel.name, digest), tmp_path / "cache"
    fetcher = Fetcher(tmp_path / "work", [row], cache)
    fetcher.fetch({"one": "1"}, TARGET, tmp_path / "into")
    assert sha256(tmp_path / "into" / wheel.name) == digest
    assert fetcher.seen == {row}

    # From then on it comes from the cache, and from there undamaged only.
    wheel.unlink()
    fetcher.fetch({"one": "1"}, TARGET, tmp_path / "again")
    assert sha256(tmp_path / "again" / wheel.name) == digest
    (cache / digest).write_bytes(b"something else")
    with pytest.raises(SystemExit, match="does not match the checksum in its name: remove it"):
        fetcher.fetch({"one": "1"}, TARGET, tmp_path / "third")

    (cache / digest).unlink()
    made_wheel(shelf, "one", "1", module="print()")
    with pytest.raises(SystemExit, match=r"no release was built:[^$]*DO NOT MATCH[^$]*one"):
        fetcher.fetch({"one": "1"}, TARGET, tmp_path / "third")
    assert list((tmp_path / "third").iterdir()) == []


def test_what_the_lock_has_not_is_not_asked_for(tmp_path: Path) -> None:
    rows = [File("one", "1", "one-1-py3-none-any.whl", "0" * 64)]
    fetcher = Fetcher(tmp_path, rows, tmp_path / "cache")
    with pytest.raises(SystemExit, match=r"wheels\.lock has no one 2: run"):
        fetcher.fetch({"one": "2"}, TARGET, tmp_path)
