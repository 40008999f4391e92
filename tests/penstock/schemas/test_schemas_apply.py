"""`penstock schemas apply`, against a running registry.

Which schema is registered when is tested in tests/schemas/test_registration.py.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.penstock.at_registry import AtRegistry


def record(name: str, *fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


@pytest.fixture
def space(new_topic: str) -> str:
    return new_topic.replace("-", "_")


@pytest.fixture
def folder(space: str, tmp_path: Path) -> Path:
    """Orders, which need addresses."""
    folder = tmp_path / "schemas"
    (folder / "types").mkdir(parents=True)
    order = record(f"{space}.Order", {"name": "to", "type": "Address"})
    (folder / f"{space}-value.avsc").write_text(order)
    address(folder, space)
    return folder


def address(folder: Path, space: str, *more: dict[str, Any]) -> None:
    name = f"{space}.Address"
    street = {"name": "street", "type": "string"}
    (folder / "types" / f"{name}.avsc").write_text(record(name, street, *more))


ZIP = {"name": "zip", "type": ["null", "string"], "default": None}


def test_a_folder_is_applied(schemas: AtRegistry, folder: Path, space: str) -> None:
    note = "  no event for Penstock's agent and loader: its first field must be header"
    said = schemas.output("apply", str(folder), "--dry-run").splitlines()
    assert said[:2] == [f"new        {space}.Address", f"new        {space}-value"]
    assert said[2].startswith(note)
    assert not [each for each in schemas.json("list") if each["subject"].startswith(space)]

    done = schemas.json("apply", str(folder))
    assert done["dry_run"] is False
    first, second = done["schemas"]
    assert (first["subject"], first["outcome"], first["version"]) == (f"{space}.Address", "new", 1)
    assert first["file"] == str(folder / "types" / f"{space}.Address.avsc")
    assert (second["subject"], second["applied"], second["version"]) == (f"{space}-value", True, 1)

    address(folder, space, ZIP)
    said = schemas.output("apply", str(folder)).splitlines()
    assert [re.sub(r"id \d+", "id …", line) for line in said if not line.startswith(note)] == [
        f"changed    {space}.Address: version 2, id …",
        "  + zip: null or string, default null",
        f"changed    {space}-value: version 2, id …",
        "  + to.zip: null or string, default null",
    ]
    again = schemas.output("apply", str(folder)).splitlines()
    assert [line.split()[0] for line in again] == ["unchanged", "unchanged"]


def test_nothing_is_registered_if_anything_is_refused(
    schemas: AtRegistry, folder: Path, space: str
) -> None:
    schemas.output("apply", str(folder))
    address(folder, space, ZIP | {"default": 7})
    (folder / f"{space}-other.avsc").write_text('"int"')
    for arguments, said in (
        (["--dry-run"], "2 of 3 schemas would be refused"),
        ([], "2 of 3 schemas refused, and nothing was registered"),
    ):
        ended = schemas.run("apply", str(folder), *arguments)
        assert (ended.returncode, ended.stderr) == (1, f"penstock: {said}\n")
        assert f"refused    {space}.Address ({folder}/types/{space}.Address.avsc)" in ended.stdout
        assert "zip" in ended.stdout
        assert f"new        {space}-other\n" in ended.stdout
    listed = [each for each in schemas.json("list") if each["subject"].startswith(space)]
    assert {each["subject"]: each["version"] for each in listed} == {
        f"{space}-value": 1,
        f"{space}.Address": 1,
    }


def test_what_went_back_is_said(schemas: AtRegistry, folder: Path, space: str) -> None:
    schemas.output("apply", str(folder))
    address(folder, space, ZIP)
    schemas.output("apply", str(folder))
    address(folder, space)
    said = schemas.output("apply", str(folder)).splitlines()
    assert said[0].endswith("; the latest is version 2, and stays the latest")


def test_settings_of_a_folder(schemas: AtRegistry, folder: Path, space: str) -> None:
    settings = folder / "schemas.yaml"
    settings.write_text(
        f"compatibility: FULL\nsubjects:\n  {space}-value:\n    compatibility: NONE\n"
    )
    said = schemas.output("apply", str(folder), "--dry-run")
    assert "  ~ compatibility: no level of its own → FULL\n" in said
    assert "  ~ compatibility: no level of its own → NONE\n" in said
    assert schemas.json("config", f"{space}-value")["own"] is False
    levels = [each["level"] for each in schemas.json("apply", str(folder))["schemas"]]
    assert levels == [{"old": None, "new": "FULL"}, {"old": None, "new": "NONE"}]
    assert schemas.json("config", f"{space}-value")["level"] == "NONE"
    for text, wrong in (
        ("compat: FULL", "compat: unknown key; did you mean compatibility?"),
        ("compatibility: SOME", "compatibility: expected one of NONE, BACKWARD"),
        ("subjects: {x: {compatibility: FULL}}", "subjects: no file is named x.avsc"),
    ):
        settings.write_text(text)
        ended = schemas.run("apply", str(folder))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert wrong in ended.stderr
    settings.unlink()
    settings.symlink_to("/etc/hostname")
    assert "a link that leads out of the folder" in schemas.run("apply", str(folder)).stderr


def test_an_empty_folder_is_a_mistake(schemas: AtRegistry, tmp_path: Path) -> None:
    said = schemas.refused("apply", str(tmp_path))
    assert said == f"{tmp_path}: no file is named SUBJECT.avsc"
