"""What is packed for executors, how, and how long it is kept."""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest
from msgspec.structs import replace

from loader.errors import EnvironmentFailed, NotPackable
from loader.spark.packing import (
    ABANDONED_SECONDS,
    PREFIX,
    UNUSED_SECONDS,
    PackedEnvironment,
    PackedFile,
    cache_directory,
    files_of,
    forget_old,
    is_needed,
    kept,
    own_files,
    pack_environment,
    pack_name,
    required_distributions,
    write_archive,
)

NOT_QUICK = pytest.mark.not_quick("packs and unpacks megabytes")

ROOT = Path(__file__).resolve().parents[3]
MOST_BYTES = 60_000_000


@NOT_QUICK
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


@NOT_QUICK
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


@NOT_QUICK
def test_it_is_kept_while_it_is_used(packed: PackedEnvironment, tmp_path: Path) -> None:
    os.utime(packed.path, (0, 0))
    assert kept(packed) == packed
    assert packed.path.stat().st_mtime > 0
    # Somebody took it away, and it is made again: here, it is found to be there.
    (tmp_path / packed.path.name).hardlink_to(packed.path)
    assert kept(replace(packed, path=tmp_path / "lost.zip")).path == tmp_path / packed.path.name
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailed, match="cannot extend"):
        kept(replace(packed, path=tmp_path / "file" / "below.zip"))


@NOT_QUICK
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


def test_packs_are_kept_with_other_caches() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/var/cache/x"}) == Path("/var/cache/x/penstock")
    # The standard says that a relative path is to be ignored.
    for environ in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "here"}):
        assert cache_directory(environ) == Path.home() / ".cache" / "penstock"


def test_a_missing_one_is_named_with_who_needs_it(tmp_path: Path) -> None:
    with pytest.raises(NotPackable, match=r"^a requires lost, which is not installed for .*python"):
        required(tmp_path, {"penstock": ["a"], "a": ["lost"]})
    with pytest.raises(NotPackable, match=r"^the loader requires penstock, which is not installed"):
        required(tmp_path / "empty", {})


NOW = 1_800_000_000.0


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


def test_our_own_code_lies_as_in_our_wheel() -> None:
    files = {file.name: file.source for file in own_files()}
    assert files["penstock/__init__.py"] == ROOT / "penstock" / "__init__.py"
    assert files["penstock/programs/wire/errors.py"] == ROOT / "wire" / "errors.py"
    assert "penstock/programs/schemas/avro/EventHeader.avsc" in files
    assert "pyspark_penstock/__init__.py" in files
    assert {name.split("/")[0] for name in files} == {"penstock", "pyspark_penstock"}
    programs = {name.split("/")[2] for name in files if name.startswith("penstock/programs/")}
    assert programs == {"client", "cluster", "columns", "ground", "loader", "schemas", "wire"}
    assert [name for name in files if "__pycache__" in name] == []


def distribution(directory: Path, **texts: str) -> Distribution:
    """A distribution in a directory of its own; texts of its metadata by name."""
    folder = directory / "a-1.0.dist-info"
    folder.mkdir()
    for name, text in {"METADATA": "Name: a\nVersion: 1.0\n", **texts}.items():
        (folder / name).write_text(text)
    return Distribution.at(folder)


def test_files_are_taken_by_the_list_with_its_digests(tmp_path: Path) -> None:
    record = "a.py,sha256=abc,3\na/tests/x.py,sha256=def,3\n../../bin/a,sha256=0,1\nb.py,,\n"
    for name in ("a.py", "b.py"):  # Python 3.12 and later leave out files that are gone
        (tmp_path / name).write_text(f"{name}\n")
    files = list(files_of(distribution(tmp_path, RECORD=record)))
    assert [(file.name, file.source) for file in files] == [
        ("a.py", tmp_path / "a.py"),
        ("b.py", tmp_path / "b.py"),
    ]
    assert files[0].digest == "sha256=abc"
    assert len(files[1].digest) == 64


def test_a_link_to_a_working_directory_is_refused(tmp_path: Path) -> None:
    origin = '{"url": "file:///home/me/a", "dir_info": {"editable": true}}'
    linked = distribution(tmp_path, RECORD="a.pth,,\n", **{"direct_url.json": origin})
    with pytest.raises(NotPackable, match=r"^a is only a link to a working directory"):
        list(files_of(linked))


def test_without_a_list_of_files_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(NotPackable, match=r"^a has no list of its files"):
        list(files_of(distribution(tmp_path)))


def some_files(directory: Path) -> list[PackedFile]:
    directory.mkdir()
    found = []
    for name, content in (("a/b.py", b"b = 1\n"), ("c.so", b"\x7fELF" * 1000)):
        source = directory / name.replace("/", "-")
        source.write_bytes(content)
        found.append(PackedFile(name, source, "digest"))
    return found


def test_an_archive_follows_from_its_files_contents(tmp_path: Path) -> None:
    first, second = some_files(tmp_path / "first"), some_files(tmp_path / "second")
    os.utime(second[0].source, (NOW, NOW))
    second[1].source.chmod(0o600)
    progress: list[tuple[int, int]] = []
    for files, name in ((first, "1.zip"), (second, "2.zip")):
        write_archive(files, tmp_path / name, lambda *done_of: progress.append(done_of))
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    assert progress == [(6, 4006), (4006, 4006)] * 2
    with zipfile.ZipFile(tmp_path / "1.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert contents == {each.name: each.source.read_bytes() for each in first}


def test_an_interrupted_pack_leaves_nothing(tmp_path: Path) -> None:
    files = some_files(tmp_path / "files")
    target = tmp_path / "packs" / "1.zip"
    target.parent.mkdir()
    with pytest.raises(FileNotFoundError):
        write_archive(files, target, lambda *_: files[1].source.unlink(missing_ok=True))
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("needed", "names"),
    [
        (
            True,
            "pyarrow/__init__.py pyarrow/lib.cpython-311-x86_64-linux-gnu.so "
            "pyarrow/libarrow.so.2600 pyarrow/libarrow_python.so.2600 "
            "pyarrow/libarrow_substrait.so.2600 pyarrow/_fs.cpython-311-x86_64-linux-gnu.so "
            "pyarrow/_hdfsio.cpython-311-x86_64-linux-gnu.so numpy.libs/libopenblas.so "
            "numpy/testing/__init__.py kio/py.typed typing_extensions.py "
            "crc32c-2.9.dist-info/METADATA",
        ),
        (
            False,
            "../../../bin/fastavro /etc/passwd pyarrow/include/arrow/api.h "
            "pyarrow/src/arrow/python/udf.cc pyarrow/tests/test_array.py pyarrow/lib.pxd "
            "pyarrow/libarrow_flight.so.2600 pyarrow/libarrow_s3.so.2600 "
            "pyarrow/_flight.cpython-311-x86_64-linux-gnu.so "
            "pyarrow/_s3fs.cpython-311-x86_64-linux-gnu.so pyarrow/libarrow_python.so "
            "pyarrow/libarrow_python.so.2600.1.0 kio/__pycache__/api.cpython-311.pyc "
            "crc32c-2.9.dist-info/RECORD rich-15.0.dist-info/licenses/LICENSE",
        ),
    ],
)
def test_which_files_are_needed(needed: bool, names: str) -> None:
    assert [name for name in names.split() if is_needed(name) is not needed] == []


def test_other_contents_have_another_name() -> None:
    def name(*digests: str) -> str:
        return pack_name([PackedFile(f"{n}.py", Path(), each) for n, each in enumerate(digests)])

    assert len({name("a", "b"), name("a", "b"), name("a", "c"), name("b", "a"), name("a")}) == 4


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailed, match=r"cannot pack the environment in.*/file/below: "):
        pack_environment(tmp_path / "file" / "below")


def required(directory: Path, installed: dict[str, list[str]]) -> list[str]:
    """Of distributions in a directory that looks like site-packages."""
    for name, requires in installed.items():
        metadata = directory / f"{name}-1.0.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
        metadata.write_text("\n".join([*lines, *(f"Requires-Dist: {each}" for each in requires)]))

    def look_up(name: str) -> Distribution:
        found = next(iter(Distribution.discover(name=name, path=[str(directory)])), None)
        if found is None:
            raise PackageNotFoundError(name)
        return found

    return [each.name for each in required_distributions(look_up)]


@pytest.mark.parametrize(
    ("installed", "wanted"),
    [
        ({"penstock": ["b>=1"], "a": [], "b": ["a"], "unrelated": []}, "a b"),
        ({"penstock": ["a"], "a": ["b"], "b": ["a"]}, "a b"),
        ({"penstock": ['a; extra == "loader"', 'b; extra == "broker"'], "a": [], "b": []}, "a"),
        (
            {
                "penstock": ["a[fast]"],
                "a": ["b", 'c; extra == "fast"', 'd; extra == "slow"'],
                **{name: [] for name in "bcd"},
            },
            "a b c",
        ),
        ({"penstock": ["a", "z"], "z": ["a[x]"], "a": ['b; extra == "x"'], "b": []}, "a b z"),
        (
            {"penstock": ['a; sys_platform == "win32"', 'b; python_version < "3"', "c"], "c": []},
            "c",
        ),
        ({"penstock": ["PySpark>=4; extra == 'loader'", "a"], "a": ["py4j"]}, "a"),
    ],
    ids=["indirect", "circle", "our extras", "theirs", "later extra", "other machines", "spark"],
)
def test_required_distributions(
    tmp_path: Path, installed: dict[str, list[str]], wanted: str
) -> None:
    assert required(tmp_path, installed) == wanted.split()
