"""Roots on a file system that is mounted here."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loader.errors import StoreError
from loader.store.local import LocalStore


@pytest.mark.parametrize(
    ("root", "folder"),
    [
        ("file:///a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a b%20c", "/a b%20c"),
        ("file:////a//b", "/a/b"),
    ],
)
def test_roots(root: str, folder: str) -> None:
    assert LocalStore(root).root == f"file://{folder}"
    assert LocalStore(root).uri("x/y") == f"file://{folder}/x/y"


@pytest.mark.parametrize("root", ["file://host/a", "file:a/b", "hdfs://a/b", "/a/b"])
def test_what_is_no_local_root(root: str) -> None:
    with pytest.raises(StoreError):
        LocalStore(root)


def test_others_may_read_what_is_created(tmp_path: Path) -> None:
    LocalStore(f"file://{tmp_path}").create("a", b"")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


def test_several_may_delete_the_same(tmp_path: Path) -> None:
    store = LocalStore(f"file://{tmp_path}")

    def deleted() -> bool:
        store.delete("a")
        return not (tmp_path / "a").exists()

    with ThreadPoolExecutor(4) as threads:
        for _ in range(3):
            for name in range(300):
                (tmp_path / f"a/{name % 30}").mkdir(parents=True, exist_ok=True)
                (tmp_path / f"a/{name % 30}/{name}").touch()
            for is_gone in [threads.submit(deleted) for _ in range(4)]:
                assert is_gone.result()


def test_what_a_file_system_cannot_do_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError):  # nothing can be created there at all
        LocalStore("file:///proc/penstock").prove()
    (tmp_path / "a").write_bytes(b"")
    store = LocalStore(f"file://{tmp_path}")
    with pytest.raises(StoreError, match="cannot create a/b: "):
        store.create("a/b", b"")
    # Python has no way to say which pages are on a disk; but what cannot be is an error.
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(StoreError, match="cannot sync files: Invalid argument"):
        store.sync(["zero"])
