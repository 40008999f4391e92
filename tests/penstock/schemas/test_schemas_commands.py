"""`penstock schemas`, against a running registry: the life of a schema, what is refused and why.

Which schema is registered when by `apply` is tested in tests/schemas/test_registration.py.
"""

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from schemas.event_schemas import scaffold
from tests.penstock.at_registry import AtRegistry
from tests.penstock.running import penstock
from tests.penstock.terminals import on_a_terminal

HEADLESS = "not an event for Penstock's agent and loader"
URL = {"name": "url", "type": "string"}
USER = {"name": "user", "type": ["null", "long"], "default": None}
EVENT_HEADER = json.loads(scaffold("shop.Click"))["fields"][0]
NO_SYMBOLS = {"type": "enum", "name": "Kind", "symbols": []}
ZIP = {"name": "zip", "type": ["null", "string"], "default": None}


def record(*fields: dict[str, Any], name: str = "shop.Click") -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


def test_the_life_of_a_schema(schemas: AtRegistry, new_topic: str, tmp_path: Path) -> None:
    subject = f"{new_topic}-value"
    fields = ["--field", "url=string", "--record", "shop.Click"]
    made = penstock("schemas", "new", new_topic, *fields, "--dir", str(tmp_path), "--json")
    file = tmp_path / f"{subject}.avsc"
    assert json.loads(made.stdout) == {"file": str(file), "subject": subject}
    assert schemas.output("check", str(file)) == f"new: there is no {subject} yet\n"

    first = schemas.json("register", str(file))
    assert first == {"subject": subject, "version": 1, "id": first["id"], "outcome": "new"}
    again = f"unchanged {subject}: version 1, id {first['id']}\n"
    assert schemas.output("register", str(file)) == again
    assert schemas.output("check", str(file)) == f"unchanged: registered as {subject}, version 1\n"
    listed = {each["subject"]: each for each in schemas.json("list")}
    assert listed[subject] == {"subject": subject, "version": 1, "id": first["id"], "type": "AVRO"}
    assert schemas.refused("diff", subject) == f"{subject} has no version before 1"

    document = json.loads(file.read_text())
    assert json.loads(schemas.output("show", subject)) == document
    document["fields"].append(USER)
    file.write_text(json.dumps(document))
    compatible = f"compatible (BACKWARD) with {subject}:\n  + user: null or long, default null\n"
    assert schemas.output("check", str(file)) == compatible
    second = schemas.json("register", str(file))
    assert (second["version"], second["outcome"]) == (2, "changed")
    changes = [{"kind": "added", "path": "user", "what": "null or long, default null"}]
    found = {"subject": subject, "old": 1, "new": 2, "differences": changes}
    assert schemas.json("diff", subject) == found
    assert schemas.json("diff", subject, "2", "1")["differences"][0]["kind"] == "removed"
    shown = schemas.json("show", "--id", str(second["id"]))
    assert {"subject": subject, "version": 2} in shown["places"]
    assert json.loads(shown["schema"]) == document


def test_a_change_that_is_not_compatible(
    schemas: AtRegistry, new_topic: str, tmp_path: Path
) -> None:
    subject, file = f"{new_topic}-value", tmp_path / "click.avsc"
    file.write_text(record(URL))
    schemas.output("register", str(file), "--topic", new_topic)
    file.write_text(record(URL, {"name": "age", "type": "int"}))
    ended = schemas.run("check", str(file), "--subject", subject)
    assert ended.returncode == 1
    assert ended.stderr == f"penstock: {file} cannot be registered as {subject}\n"
    refused, reason, change, note = ended.stdout.splitlines()
    assert refused == "refused (BACKWARD):"
    assert "`age`" in reason
    assert "default" in reason
    assert change == "  + age: int"
    assert note.startswith(HEADLESS)

    checked = json.loads(schemas.run("check", str(file), "-t", new_topic, "--json").stdout)
    assert (checked["outcome"], checked["level"]) == ("refused", "BACKWARD")
    assert checked["reasons"] == [reason.strip()]
    said = schemas.refused("register", str(file), "-t", new_topic)
    assert said == f"{file} cannot be registered as {subject}: {reason.strip()}"
    assert schemas.json("show", subject)["version"] == 1
    for fields, why in (
        ([], "the first field must be header"),
        (
            [EVENT_HEADER, {"name": "next", "type": "shop.Click"}],
            "next: no value fits record shop.Click",
        ),
        ([EVENT_HEADER, {"name": "of", "type": NO_SYMBOLS}], "of: no value fits"),
    ):
        file.write_text(record(*fields))
        check = ["check", str(file), "-t", f"{new_topic}-new"]
        assert f"no agent can write it: {why}" in schemas.run(*check).stderr
        schemas.output(*check, "--any-writer")
    file.write_text(record(URL, {"name": "age", "type": "int"}))
    difference = schemas.output("diff", str(file), "-t", new_topic)
    assert difference == f"{subject}: version 1 → {file}\n+ age: int\n"
    config = ["config", subject]
    assert schemas.output(*config) == "BACKWARD, the level of all subjects without their own\n"
    assert schemas.output(*config, "--set", "none") == f"NONE, the level of {subject}\n"
    assert schemas.json("register", str(file), "-t", new_topic)["version"] == 2
    default = {"subject": subject, "level": "BACKWARD", "own": False}
    assert schemas.json(*config, "--default") == default
    assert schemas.refused(*config, "--default") == f"{subject} has no level of its own"


def test_deleting(schemas: AtRegistry, new_topic: str, tmp_path: Path) -> None:
    used, user = f"x.{new_topic.replace('-', '_')}", f"{new_topic}-value"
    schemas.registered(tmp_path, used, record(URL, name=used))
    schemas.registered(tmp_path, user, record({"name": "click", "type": used}, name="User"))
    said = schemas.refused("delete", used, "--yes")
    assert said == f"{used} is referenced by {user} version 1: delete these first"
    ended = schemas.run("delete", user)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "stdin is not a terminal: pass --yes to confirm" in ended.stderr

    assert schemas.output("delete", user, "-y") == f"deleted {user}: version 1\n"
    said = schemas.refused("delete", user, "-y")
    assert said == "already deleted: pass --permanent to delete it permanently"
    assert not [each for each in schemas.json("list") if each["subject"] == user]
    deleted = [each for each in schemas.json("list", "--deleted") if each["subject"] == user]
    assert [(each["version"], each["deleted"]) for each in deleted] == [(1, True)]
    assert schemas.json("show", user, "--version", "1")["version"] == 1

    gone = schemas.json("delete", user, "--permanent", "--version", "1", "--yes")
    assert gone == {"subject": user, "versions": [1], "permanent": True}
    said = schemas.output("delete", used, "--permanent", "--yes")
    assert said == f"deleted {used} permanently: version 1\n"
    left = {each["subject"] for each in schemas.json("list", "--deleted")}
    assert left.isdisjoint({user, used})


def test_tables_for_people(schemas: AtRegistry, new_topic: str, tmp_path: Path) -> None:
    file = tmp_path / "a.avsc"
    file.write_text('"string"')
    subject = f"{new_topic} é/✓"
    identity = schemas.json("register", str(file), "-s", subject)["id"]
    lines = schemas.output("list", "--deleted").splitlines()
    assert lines[0].split() == ["subject", "version", "id", "type", "deleted"]
    (row,) = [line for line in lines if line.startswith(subject)]
    assert row.removeprefix(subject).split() == ["1", str(identity), "AVRO", "no"]
    assert schemas.output("show", subject) == '"string"\n'


def test_what_is_not_there_or_no_schema_is_one_line(
    schemas: AtRegistry, new_topic: str, tmp_path: Path
) -> None:
    for arguments, said in (
        (["show", new_topic], f"Subject '{new_topic}' not found"),
        (["show", "--id", "2147483647"], "Schema 2147483647 not found"),
        (["diff", new_topic], f"Subject '{new_topic}' not found"),
        (["delete", new_topic, "--yes"], f"Subject '{new_topic}' not found"),
        (["register", "/nowhere/a.avsc"], "/nowhere/a.avsc: No such file or directory"),
        (["apply", "/nowhere"], "/nowhere: No such file or directory"),
        (["apply", str(tmp_path)], f"{tmp_path}: no file is named SUBJECT.avsc"),
    ):
        assert schemas.refused(*arguments).startswith(said)
    file = tmp_path / "click-value.avsc"
    file.write_text('{"type": "record",\n "name": X}')
    refused = schemas.refused("register", str(file))
    assert refused.startswith(f"{file} cannot be registered as click-value: line 2, column 10: ")


def test_colours_are_for_terminals_whose_users_want_them(
    schemas: AtRegistry, new_topic: str, tmp_path: Path
) -> None:
    (tmp_path / f"{new_topic}-value.avsc").write_text('"string"')
    apply = ("schemas", "apply", str(tmp_path), "--dry-run", "-r", schemas.url)
    assert f"\x1b[33m  {HEADLESS}" in on_a_terminal(*apply)
    plain = penstock(*apply).stdout
    assert on_a_terminal(*apply, no_color="1").replace("\r\n", "\n") == plain


@pytest.fixture
def space(new_topic: str) -> str:
    return new_topic.replace("-", "_")


@pytest.fixture
def folder(space: str, tmp_path: Path) -> Path:
    """Orders, which need addresses."""
    folder = tmp_path / "schemas"
    (folder / "types").mkdir(parents=True)
    order = record({"name": "to", "type": "Address"}, name=f"{space}.Order")
    (folder / f"{space}-value.avsc").write_text(order)
    write_address(folder, space)
    return folder


RESCALED = "old events are rescaled; those whose value does not fit become dead letters"
INEXACT = "old events whose value is not exact or does not fit become dead letters"
DEAD = "old events become dead letters"


def unit(of: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **more}


def amount(precision: int, scale: int) -> dict[str, Any]:
    return unit("bytes", "decimal", precision=precision, scale=scale)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (amount(12, 2), amount(14, 2), ""),
        (amount(12, 2), amount(12, 4), f"decimal(12,2) -> decimal(12,4): {RESCALED}"),
        (amount(12, 4), amount(12, 2), f"decimal(12,4) -> decimal(12,2): {INEXACT}"),
        (amount(12, 2), "bytes", f"decimal(12,2) -> bytes: {DEAD}"),
        ("int", unit("int", "date"), f"int -> date: {DEAD}"),
        (
            unit("long", "timestamp-millis"),
            unit("long", "timestamp-micros"),
            f"timestamp-millis -> timestamp-micros: {RESCALED}",
        ),
    ],
)
def test_another_unit_is_named_and_refused_where_events_would_die(
    schemas: AtRegistry, tmp_path: Path, old: Any, new: Any, said: str
) -> None:
    """The registry finds all of them compatible."""

    def text(type_: Any) -> str:
        items = {"type": "array", "items": ["null", type_]}
        return record({"name": "amounts", "type": items})

    subject = f"units-{uuid.uuid4().hex}"
    file = schemas.registered(tmp_path, subject, text(old))
    file.write_text(text(new))
    lines = [f"amounts[]: {said}"] if said else []
    is_refused = said.endswith((DEAD, INEXACT))
    for command in ("diff", "check", "register", "register --force"):
        ended = schemas.run(*command.split(), str(file))
        stops = is_refused and command in {"check", "register"}
        registered_before = command == "register --force" and not is_refused
        assert ended.returncode == stops, ended
        assert ended.stderr.splitlines()[: len(lines)] == ([] if registered_before else lines)
        assert ("or pass --force" in ended.stderr) == stops
    assert json.loads(schemas.output("show", subject))["fields"][0]["type"]["items"][1] == new


def write_address(folder: Path, space: str, *more: dict[str, Any]) -> None:
    name = f"{space}.Address"
    street = {"name": "street", "type": "string"}
    (folder / "types" / f"{name}.avsc").write_text(record(street, *more, name=name))


def test_a_folder_is_applied(schemas: AtRegistry, folder: Path, space: str) -> None:
    note = f"  {HEADLESS}: the first field must be header"
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

    write_address(folder, space, ZIP)
    said = schemas.output("apply", str(folder)).splitlines()
    assert [re.sub(r"id \d+", "id …", line) for line in said if not line.startswith(note)] == [
        f"changed    {space}.Address: version 2, id …",
        "  + zip: null or string, default null",
        f"changed    {space}-value: version 2, id …",
        "  + to.zip: null or string, default null",
    ]
    again = schemas.output("apply", str(folder)).splitlines()
    assert [line.split()[0] for line in again] == ["unchanged", "unchanged"]
    write_address(folder, space)
    said = schemas.output("apply", str(folder)).splitlines()
    assert said[0].endswith("; the latest is version 2, and stays the latest")


def test_nothing_is_registered_if_anything_is_refused(
    schemas: AtRegistry, folder: Path, space: str
) -> None:
    schemas.output("apply", str(folder))
    write_address(folder, space, ZIP | {"default": 7})
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
    versions = {each["subject"]: each["version"] for each in listed}
    assert versions == {f"{space}-value": 1, f"{space}.Address": 1}


def test_settings_of_a_folder(schemas: AtRegistry, folder: Path, space: str) -> None:
    settings = folder / "schemas.yaml"
    own = f"subjects: {{{space}-value: {{compatibility: NONE}}}}\n"
    settings.write_text(f"compatibility: FULL\n{own}")
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
        assert (ended.returncode, ended.stdout, wrong in ended.stderr) == (2, "", True)
    settings.unlink()
    settings.symlink_to("/etc/hostname")
    assert "a link to a path outside the folder" in schemas.run("apply", str(folder)).stderr
