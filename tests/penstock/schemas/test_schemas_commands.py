"""`penstock schemas`, against a running registry: the life of a schema, what is refused and why."""

import json
from pathlib import Path
from typing import Any

from tests.penstock.at_registry import AtRegistry
from tests.penstock.running import PENSTOCK, penstock
from tests.penstock.terminals import on_a_terminal

HEADLESS = "no event for Penstock's agent and loader"


def record(*fields: dict[str, Any], name: str = "shop.Click") -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


URL = {"name": "url", "type": "string"}
USER = {"name": "user", "type": ["null", "long"], "default": None}


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
    assert schemas.output("check", str(file)) == f"unchanged: it is {subject}, version 1\n"
    listed = {each["subject"]: each for each in schemas.json("list")}
    assert listed[subject] == {"subject": subject, "version": 1, "id": first["id"], "type": "AVRO"}

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
    subject = f"{new_topic}-value"
    file = tmp_path / "click.avsc"
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

    assert schemas.output("diff", str(file), "-t", new_topic).splitlines() == [
        f"{subject}: version 1 → {file}",
        "+ age: int",
    ]
    config = ["config", subject]
    assert schemas.output(*config) == "BACKWARD, the level of all subjects without their own\n"
    assert schemas.output(*config, "--set", "none") == f"NONE, the level of {subject}\n"
    assert schemas.json("register", str(file), "-t", new_topic)["version"] == 2
    assert schemas.json(*config, "--default") == {
        "subject": subject,
        "level": "BACKWARD",
        "own": False,
    }
    assert schemas.refused(*config, "--default") == f"{subject} has no level of its own"


def test_deleting(schemas: AtRegistry, new_topic: str, tmp_path: Path) -> None:
    used, user = f"x.{new_topic.replace('-', '_')}", f"{new_topic}-value"
    for subject, text in (
        (used, record(URL, name=used)),
        (user, record({"name": "click", "type": used}, name="User")),
    ):
        (tmp_path / f"{subject}.avsc").write_text(text)
        schemas.output("register", str(tmp_path / f"{subject}.avsc"))

    said = schemas.refused("delete", used, "--yes")
    assert said == f"{used} is used by {user} version 1: delete that first"
    ended = schemas.run("delete", user)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "nobody is there to be asked: say --yes" in ended.stderr

    assert schemas.output("delete", user, "-y") == f"deleted {user}: version 1\n"
    said = schemas.refused("delete", user, "-y")
    assert said == "it is deleted already; --permanent deletes it for good"
    assert not [each for each in schemas.json("list") if each["subject"] == user]
    deleted = [each for each in schemas.json("list", "--deleted") if each["subject"] == user]
    assert [(each["version"], each["deleted"]) for each in deleted] == [(1, True)]
    assert schemas.json("show", user, "--version", "1")["version"] == 1

    gone = schemas.json("delete", user, "--permanent", "--version", "1", "--yes")
    assert gone == {"subject": user, "versions": [1], "permanent": True}
    said = schemas.output("delete", used, "--permanent", "--yes")
    assert said == f"deleted {used} for good: version 1\n"
    assert not [
        each for each in schemas.json("list", "--deleted") if each["subject"] in {user, used}
    ]


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


def test_what_is_no_schema_is_one_line(schemas: AtRegistry, tmp_path: Path) -> None:
    file = tmp_path / "click-value.avsc"
    file.write_text('{"type": "record",\n "name": X}')
    said = schemas.refused("register", str(file))
    assert said.startswith(f"{file} cannot be registered as click-value: line 2, column 10: ")


def test_what_is_not_there_is_one_line(schemas: AtRegistry, new_topic: str) -> None:
    for arguments, said in (
        (["show", new_topic], f"Subject '{new_topic}' not found."),
        (["show", "--id", "2147483647"], "Schema 2147483647 not found"),
        (["diff", new_topic], f"Subject '{new_topic}' not found."),
        (["delete", new_topic, "--yes"], f"Subject '{new_topic}' not found."),
        (["register", "/nowhere/a.avsc"], "/nowhere/a.avsc: No such file or directory"),
        (["apply", "/nowhere"], "/nowhere: No such file or directory"),
    ):
        assert schemas.refused(*arguments) == said


def test_colours_are_for_terminals_whose_users_want_them(
    schemas: AtRegistry, new_topic: str, tmp_path: Path
) -> None:
    file = tmp_path / f"{new_topic}-value.avsc"
    file.write_text('"string"')
    apply = ("schemas", "apply", str(tmp_path), "--dry-run", "-r", schemas.url)
    on_terminal = [*PENSTOCK, *apply]
    plain = penstock(*apply).stdout
    assert "\x1b[33m  no event for Penstock's agent and loader" in on_a_terminal(on_terminal)
    assert on_a_terminal(on_terminal, no_color="1").replace("\r\n", "\n") == plain
