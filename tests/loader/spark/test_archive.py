"""Archives: the same bytes for the same files, whole or not there, and none for ever."""

import os
import zipfile
from pathlib import Path

import pytest

from loader.spark.packing import (
    ABANDONED_SECONDS,
    PREFIX,
    UNUSED_SECONDS,
    PackedFile,
    forget_old,
    write_archive,
)

NOW = 1_800_000_000.0


def some_files(directory: Path) -> list[PackedFile]:
    directory.mkdir()
    found = []
    for name, content in (("a/b.py", b"b = 1\n"), ("c.so", b"\x7fELF" * 1000)):
        source = directory / name.replace("/", "-")
        source.write_bytes(content)
        found.append(PackedFile(name, source, "digest"))
    return found


def quiet(done: int, total: int) -> None:
    pass


def test_bytes_follow_from_contents(tmp_path: Path) -> None:
    first, second = some_files(tmp_path / "first"), some_files(tmp_path / "second")
    os.utime(second[0].source, (NOW, NOW))
    second[1].source.chmod(0o600)
    for files, name in ((first, "1.zip"), (second, "2.zip")):
        write_archive(files, tmp_path / name, quiet)
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def test_what_is_packed_comes_out(tmp_path: Path) -> None:
    files = some_files(tmp_path / "files")
    write_archive(files, tmp_path / "1.zip", quiet)
    with zipfile.ZipFile(tmp_path / "1.zip") as archive:
        assert archive.namelist() == ["a/b.py", "c.so"]
        assert [archive.read(file.name) for file in files] == [
            file.source.read_bytes() for file in files
        ]


def test_progress_counts_bytes(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write_archive(
        some_files(tmp_path / "files"),
        tmp_path / "1.zip",
        lambda done, total: told.append((done, total)),
    )
    assert told == [(6, 4006), (4006, 4006)]


def test_a_broken_off_pack_leaves_nothing(tmp_path: Path) -> None:
    files = some_files(tmp_path / "files")
    target = tmp_path / "packs" / "1.zip"
    target.parent.mkdir()

    def vanish(done: int, total: int) -> None:
        files[1].source.unlink(missing_ok=True)

    with pytest.raises(FileNotFoundError):
        write_archive(files, target, vanish)
    assert list(target.parent.iterdir()) == []


def test_packs_that_nobody_uses_are_removed(tmp_path: Path) -> None:
    def aged(name: str, seconds: float) -> Path:
        path = tmp_path / name
        path.write_bytes(b"")
        os.utime(path, (NOW - seconds, NOW - seconds))
        return path

    kept = [
        aged(f"{PREFIX}fresh.zip", UNUSED_SECONDS - 1),
        aged(f".{PREFIX}1.zip.77.1", ABANDONED_SECONDS - 1),
        aged("somebody-else.zip", 10 * UNUSED_SECONDS),
    ]
    aged(f"{PREFIX}old.zip", UNUSED_SECONDS + 1)
    aged(f".{PREFIX}2.zip.77.1", ABANDONED_SECONDS + 1)
    forget_old(tmp_path, PREFIX, ".zip", now=NOW)
    assert sorted(tmp_path.iterdir()) == sorted(kept)
