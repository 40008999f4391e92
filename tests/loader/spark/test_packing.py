"""The pack of the environment that the tests run in."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from loader.errors import EnvironmentFailed
from loader.spark.packing import (
    PREFIX,
    PackedEnvironment,
    PackedFile,
    cache_directory,
    kept,
    own_files,
    pack_environment,
    pack_name,
)

pytestmark = pytest.mark.not_quick("packs and unpacks megabytes")

ROOT = Path(__file__).resolve().parents[3]
MOST_BYTES = 60_000_000


def test_it_is_told_what_was_packed(packed: PackedEnvironment) -> None:
    assert packed.path.stat().st_size == packed.bytes < MOST_BYTES
    assert packed.path.name.startswith("penstock-environment-0.")
    assert packed.python_version == f"{sys.version_info.major}.{sys.version_info.minor}"
    names = [each.split()[0] for each in packed.distributions]
    assert names[0] == "penstock"
    assert {"aiokafka", "kio", "pyarrow"} <= set(names)
    assert {"pyspark", "py4j", "pytest"} & set(names) == set()
    with zipfile.ZipFile(packed.path) as archive:
        assert len(archive.namelist()) == len(set(archive.namelist())) == packed.files


def test_it_is_made_once(packed: PackedEnvironment) -> None:
    old = packed.path.stat().st_mtime - 1000
    os.utime(packed.path, (old, old))
    inode = packed.path.stat().st_ino
    forgotten = packed.path.with_name(f"{PREFIX}old.zip")
    forgotten.write_bytes(b"")
    os.utime(forgotten, (0, 0))
    again = pack_environment(packed.path.parent)
    assert again.reused
    assert (again.path, again.bytes, again.path.stat().st_ino) == (packed.path, packed.bytes, inode)
    assert again.path.stat().st_mtime > old  # it is in use
    assert not forgotten.exists()


def test_it_is_kept_while_it_is_used(packed: PackedEnvironment, tmp_path: Path) -> None:
    os.utime(packed.path, (0, 0))
    assert kept(packed) == packed
    assert packed.path.stat().st_mtime > 0
    # Somebody took it away, and it is made again: here, it is found to be there.
    (tmp_path / packed.path.name).hardlink_to(packed.path)
    assert kept(replace(packed, path=tmp_path / "lost.zip")).path == tmp_path / packed.path.name
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailed, match="cannot be kept"):
        kept(replace(packed, path=tmp_path / "file" / "below.zip"))


def test_installed_from_a_wheel_it_is_the_same(packed: PackedEnvironment, tmp_path: Path) -> None:
    """Same files under the same names: the same name of the pack, and nothing to make."""
    site = tmp_path / "site-packages"
    for file in own_files():
        target = site / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.source, target)
    # What executors do not run lies there as well.
    broker = site / "penstock" / "programs" / "broker" / "__init__.py"
    broker.parent.mkdir()
    broker.write_text("")
    program = (
        "import pathlib, penstock\n"
        "from loader.spark import packing\n"
        f"packed = packing.pack_environment(pathlib.Path({str(packed.path.parent)!r}))\n"
        "print(packing.__file__, packed.path, packed.reused, packed.driver_path[0])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    code = site / "penstock" / "programs" / "loader" / "spark" / "packing.py"
    assert ended.stdout.split() == [str(code), str(packed.path), "True", str(site)]


def test_other_contents_have_another_name() -> None:
    def name(*digests: str) -> str:
        return pack_name([PackedFile(f"{n}.py", Path(), each) for n, each in enumerate(digests)])

    assert name("a", "b") == name("a", "b")
    assert len({name("a", "b"), name("a", "c"), name("b", "a"), name("a")}) == 4


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailed, match=r"cannot be packed into .*/file/below: "):
        pack_environment(tmp_path / "file" / "below")


def test_packs_are_kept_with_other_caches() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/var/cache/x"}) == Path("/var/cache/x/penstock")
    # The standard says that a relative path is to be ignored.
    for environ in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "here"}):
        assert cache_directory(environ) == Path.home() / ".cache" / "penstock"
