"""What is packed of a distribution, and of our own code."""

from importlib.metadata import Distribution
from pathlib import Path

import pytest

from loader.errors import NotPackable
from loader.spark.packing import files_of, is_needed, own_files

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "name",
    [
        "pyarrow/__init__.py",
        "pyarrow/lib.cpython-311-x86_64-linux-gnu.so",
        "pyarrow/libarrow.so.2600",
        "pyarrow/libarrow_python.so.2600",
        "pyarrow/libarrow_substrait.so.2600",
        "pyarrow/_fs.cpython-311-x86_64-linux-gnu.so",
        "pyarrow/_hdfsio.cpython-311-x86_64-linux-gnu.so",
        "numpy.libs/libopenblas.so",
        "numpy/testing/__init__.py",
        "kio/py.typed",
        "typing_extensions.py",
        "crc32c-2.9.dist-info/METADATA",
    ],
)
def test_needed(name: str) -> None:
    assert is_needed(name)


@pytest.mark.parametrize(
    "name",
    [
        "../../../bin/fastavro",
        "/etc/passwd",
        "pyarrow/include/arrow/api.h",
        "pyarrow/src/arrow/python/udf.cc",
        "pyarrow/tests/test_array.py",
        "pyarrow/lib.pxd",
        "pyarrow/libarrow_flight.so.2600",
        "pyarrow/libarrow_s3.so.2600",
        "pyarrow/_flight.cpython-311-x86_64-linux-gnu.so",
        "pyarrow/_s3fs.cpython-311-x86_64-linux-gnu.so",
        "pyarrow/libarrow_python.so",
        "pyarrow/libarrow_python.so.2600.1.0",
        "kio/__pycache__/api.cpython-311.pyc",
        "crc32c-2.9.dist-info/RECORD",
        "rich-15.0.dist-info/licenses/LICENSE",
    ],
)
def test_not_needed(name: str) -> None:
    assert not is_needed(name)


def test_our_own_code_lies_as_in_our_wheel() -> None:
    files = {file.name: file.source for file in own_files()}
    assert files["penstock/__init__.py"] == ROOT / "penstock" / "__init__.py"
    assert files["penstock/programs/wire/records.py"] == ROOT / "wire" / "records.py"
    assert "penstock/programs/schemas/avro/EventHeader.avsc" in files
    assert "pyspark_penstock/__init__.py" in files
    assert {name.split("/")[0] for name in files} == {"penstock", "pyspark_penstock"}
    programs = {name.split("/")[2] for name in files if name.startswith("penstock/programs/")}
    assert programs == {"client", "cluster", "columns", "ground", "loader", "schemas", "wire"}
    assert [name for name in files if "__pycache__" in name] == []


def installed(directory: Path, **texts: str) -> Distribution:
    """A distribution in a directory of its own; texts of its metadata by name."""
    folder = directory / "a-1.0.dist-info"
    folder.mkdir()
    for name, text in {"METADATA": "Name: a\nVersion: 1.0\n", **texts}.items():
        (folder / name).write_text(text)
    return Distribution.at(folder)


def test_files_are_taken_by_the_list_with_its_digests(tmp_path: Path) -> None:
    record = "a.py,sha256=abc,3\na/tests/x.py,sha256=def,3\n../../bin/a,sha256=0,1\nb.py,,\n"
    (tmp_path / "b.py").write_text("b\n")
    files = list(files_of(installed(tmp_path, RECORD=record)))
    assert [(file.name, file.source) for file in files] == [
        ("a.py", tmp_path / "a.py"),
        ("b.py", tmp_path / "b.py"),
    ]
    assert files[0].digest == "sha256=abc"
    assert len(files[1].digest) == 64


def test_a_link_to_a_working_directory_is_refused(tmp_path: Path) -> None:
    origin = '{"url": "file:///home/me/a", "dir_info": {"editable": true}}'
    linked = installed(tmp_path, RECORD="a.pth,,\n", **{"direct_url.json": origin})
    with pytest.raises(NotPackable, match=r"^a is installed here as a link to a working directory"):
        list(files_of(linked))


def test_without_a_list_of_files_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(NotPackable, match=r"^a has no list of its files"):
        list(files_of(installed(tmp_path)))
