"""`penstock schemas` without a registry: usage, scaffolding, and what it needs to start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.server_process import free_ports
from penstock.cli.lazy_group import LazyGroup
from penstock.command_line import schemas
from tests.penstock.at_registry import AtRegistry
from tests.penstock.running import REPOSITORY, penstock
from tests.penstock.terminals import typed

assert isinstance(schemas, LazyGroup)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "-r", "localhost:8081"], "a URL begins with http:// or https://"),
        (["list", "-r", "http://me:secret@localhost"], "a user and password in the URL"),
        (["show"], "give a subject, or --id"),
        (["show", "s", "--id", "1"], "give a subject, or --id"),
        (["show", "--id", "1", "--version", "1"], "--version is of a subject"),
        (["show", "s", "--version", "0"], "'0' is neither a version such as 3 nor 'latest'"),
        (["show", "s", "--version", "9" * 9_999], "is neither a version such as 3 nor 'latest'"),
        (["register", "a.avsc", "-s", "s", "-t", "t"], "give --subject or --topic, not both"),
        (["register", "a.avsc", "-s", ""], "a subject's name cannot be empty"),
        (["register", "a.avsc", "-t", "../t"], "topic name '../t' has a character other than"),
        (["show", "\udcff"], "'\\udcff' is not UTF-8"),
        (["show", "--id", str(2**31)], "is not in the range"),
        (["register", "a.json"], "give --subject or --topic: a.json is not named SUBJECT.avsc"),
        (["diff", "s", "-t", "t"], "--subject and --topic are of a file"),
        (["diff", "s.avsc", "1", "2"], "a file is compared with one version"),
        (["delete", "s"], "stdin is not a terminal: pass --yes to confirm"),
        (["config", "s", "--set", "FULL", "--default"], "give --set or --default, not both"),
        (["config", "--set", "SOME"], "'SOME' is not one of"),
        (["new", "../x"], "topic name '../x' has a character other than"),
        (["new", "1"], "give --record: '1' cannot be an event's name"),
        (["new", "x", "--record", "a.b c"], "a.b c"),
        (["new", "x", "--field", "a"], "'a' is not NAME=TYPE"),
        (["new", "x", "--field", "a=strin"], '"strin" is not a type'),
        (["new", "x", "--field", "a=["], "--field a: not JSON"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    ended = penstock("schemas", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert said in line
    assert "secret" not in line


def test_nobody_there_is_one_line_at_once() -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert AtRegistry(url).refused("list") == f"no registry at {url}: connection refused"


def test_a_new_schema_is_an_event_and_written_once(tmp_path: Path) -> None:
    new = ["schemas", "new", "page-views.v2", "--dir", str(tmp_path)]
    fields = ["--field", "url=string", "--field", "user=long?", "--field", 'n={"type": "int"}']
    ended = penstock(*new, *fields, "--doc", "A look.")
    path = tmp_path / "page-views.v2-value.avsc"
    assert (ended.returncode, ended.stdout) == (0, f"wrote {path}\n")
    made = json.loads(path.read_text())
    assert (made["name"], made["doc"]) == ("PageViewsV2", "A look.")
    assert [each["name"] for each in made["fields"]] == ["header", "url", "user", "n"]
    assert made["fields"][2]["type"] == ["null", "long"]
    assert made["fields"][2]["default"] is None

    path.write_text("mine")
    again = penstock(*new)
    assert (again.returncode, again.stderr) == (1, f"penstock: {path} is there already\n")
    assert path.read_text() == "mine"
    nowhere = penstock("schemas", "new", "x", "--dir", str(tmp_path / "nowhere"))
    assert (nowhere.returncode, len(nowhere.stderr.splitlines())) == (1, 1)


def test_on_a_terminal_it_asks_before_it_deletes() -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    for answer, ends, said in (
        *((no, 1, "nothing was deleted") for no in ("n\n", "\n")),
        ("y\n", 1, "no registry"),
        ("\x04", 130, ""),
    ):
        with typed(answer) as terminal:
            ended = penstock("schemas", "delete", "s", "-r", url, stdin=terminal)
        assert "delete s? [y/N]" in ended.stderr
        assert (ended.returncode, said in ended.stderr) == (ends, True)
        assert said or "nothing was deleted" not in ended.stderr


@pytest.mark.not_quick("starts a process")
def test_schemas_need_no_kafka() -> None:
    modules = ", ".join(each.module for each in schemas.table.values())
    code = f"import sys, {modules}; print(*sys.modules)"
    run = [sys.executable, "-c", code]
    imported = set(subprocess.check_output(run, cwd=REPOSITORY, text=True).split())
    assert not {"broker", "client", "wire", "kio", "kazoo", "rich"} & imported
