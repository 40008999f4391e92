"""`penstock schemas` without a registry: usage, scaffolding, and what it needs to start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.processes.server_process import free_ports
from penstock.cli.lazy_group import LazyGroup
from penstock.command_line import schemas
from tests.penstock.running import REPOSITORY, penstock
from tests.penstock.terminals import typed

assert isinstance(schemas, LazyGroup)


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
    assert (again.returncode, again.stderr) == (1, f"penstock: {path} already exists\n")
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
