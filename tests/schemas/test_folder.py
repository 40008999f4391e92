"""A folder of schemas: which subjects, in which order, and what is refused."""

import json
import os
from pathlib import Path

import pytest

from schemas.errors import InvalidSchema
from schemas.folder import MOST_BYTES, Needed, needs_of, read_folder, read_schema


def record(name: str, *types: object) -> str:
    fields = [{"name": f"f{i}", "type": each} for i, each in enumerate(types)]
    return json.dumps({"type": "record", "name": name, "fields": fields})


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.avsc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def subjects(folder: Path) -> list[str]:
    return [each.subject for each in read_folder(folder)]


def test_a_files_name_is_its_subject_wherever_it_lies(tmp_path: Path) -> None:
    write(tmp_path, b='"int"', team__a='"long"', team__deep__c='"string"')
    (tmp_path / "README.md").write_text("no schema")
    for hidden in (".git", "team/.idea"):
        write(tmp_path / hidden, x='"int"')
    (tmp_path / ".b.avsc").write_text('"an editor\'s"')
    found = {each.subject: each for each in read_folder(tmp_path)}
    assert {subject: each.text for subject, each in found.items()} == {
        "b": '"int"',
        "a": '"long"',
        "c": '"string"',
    }
    assert found["c"].path == str(tmp_path / "team/deep/c.avsc")


def test_what_is_needed_comes_first(tmp_path: Path) -> None:
    write(
        tmp_path,
        a=record("x.A", "x.B", ["null", "x.C"]),
        b=record("x.B", {"type": "array", "items": "x.C"}),
        z__c=record("x.C"),
    )
    assert subjects(tmp_path) == ["c", "b", "a"]
    assert read_folder(tmp_path)[2].needs == (
        Needed("x.B", "b", inside=True),
        Needed("x.C", "c", inside=True),
    )


def test_names_are_looked_for_as_avro_does(tmp_path: Path) -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "g", "type": "Other"}]}
    text = json.dumps(
        {
            "type": "record",
            "name": "A",
            "namespace": "x",
            "fields": [
                {"name": "a", "type": inner},
                {"name": "b", "type": "Inner"},
                {"name": "c", "type": {"type": "map", "values": "x.Inner"}},
                {"name": "d", "type": ["null", "Plain", "A"]},
                {"name": "e", "type": {"type": "enum", "name": "y.E", "symbols": ["S"]}},
                {"name": "f", "type": "y.E"},
                {"name": "h", "type": {"type": "Unknown"}},
            ],
        }
    )
    write(tmp_path, a=text, other=record("x.Other"), plain=record("Plain"))
    assert {each.subject: each.needs for each in read_folder(tmp_path)}["a"] == (
        Needed("x.Other", "other", inside=True),
        Needed("Plain", "plain", inside=True),
        Needed("x.Unknown", "x.Unknown", inside=False),
    )


def test_a_schema_by_itself_needs_subjects_called_as_its_types() -> None:
    assert needs_of(record("x.A", "B", "y.C", "int", "A")) == (
        Needed("x.B", "x.B", inside=False),
        Needed("y.C", "y.C", inside=False),
    )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, "7", "null", '{"type": ["record", 1]}', '"a b"', r'"\ud800"', '"/"'],
)
def test_nonsense_needs_nothing(text: str) -> None:
    assert needs_of(text) == ()


def test_a_circle_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a=record("A", "B"), b=record("B", "C"), c=record("C", "A"))
    with pytest.raises(
        InvalidSchema, match=r"these schemas need each other: .*\.avsc → .*\.avsc → .*\.avsc → "
    ):
        read_folder(tmp_path)


def test_a_subject_is_one_file(tmp_path: Path) -> None:
    write(tmp_path, a='"int"', sub__a='"int"')
    with pytest.raises(InvalidSchema, match=r"sub/a\.avsc: it is subject a, as .*/a\.avsc is"):
        read_folder(tmp_path)


def test_a_type_of_two_files_is_nobodys(tmp_path: Path) -> None:
    write(tmp_path, a=record("A"), b=record("A"))
    assert subjects(tmp_path) == ["a", "b"]
    write(tmp_path, c=record("C", "A"))
    with pytest.raises(InvalidSchema, match=r"c\.avsc: the schema names A, which several"):
        read_folder(tmp_path)


# What lies outside


def test_links_stay_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    write(folder, a='"int"', sub__c='"int"')
    write(tmp_path, outside='"int"')
    (folder / "b.avsc").symlink_to("a.avsc")
    assert subjects(folder) == ["a", "b", "c"]
    (folder / "sub" / "out.avsc").symlink_to(tmp_path / "outside.avsc")
    with pytest.raises(InvalidSchema, match=r"out\.avsc: the link leads out"):
        read_folder(folder)


def test_linked_folders_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    write(folder, a='"int"')
    write(tmp_path / "elsewhere", b='"int"')
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    (folder / "round").symlink_to(folder)
    assert subjects(folder) == ["a"]


def test_a_folder_may_be_reached_by_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", a='"int"')
    (tmp_path / "link").symlink_to("real")
    assert subjects(tmp_path / "link") == ["a"]


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.avsc"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    if kind == "pipe":
        with pytest.raises(InvalidSchema, match=r"a\.avsc: not a regular file"):
            read_folder(tmp_path)
    else:
        assert read_folder(tmp_path) == []
        with pytest.raises(IsADirectoryError):
            read_schema(path)


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError):
        (tmp_path / "file").touch()
        read_folder(tmp_path / "file")


# Files


def test_text_is_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.avsc"
    path.write_bytes('\ufeff"é"'.encode())
    assert read_schema(path) == '"é"'
    path.write_bytes(b'{\n"a":\n"\xff"}')
    with pytest.raises(InvalidSchema, match=r"a\.avsc: line 3: not UTF-8"):
        read_schema(path)


def test_a_file_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / "a.avsc"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(InvalidSchema, match="larger than 16,777,216 bytes"):
        read_schema(path)


@pytest.mark.parametrize("name", [" a", "a\n", "a\x1b[31m", "a\u202e", os.fsdecode(b"\xff")])
def test_a_name_is_shown_harmless(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.avsc").write_text('"int"')
    with pytest.raises(InvalidSchema, match="the file name is not a legal subject") as error:
        read_folder(tmp_path)
    assert str(error.value).isprintable()
