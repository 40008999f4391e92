"""What goes wrong on the command line where no other test of a command does it: one line, its code.

`{here}` is a folder with a few files that are wrong.
"""

import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from client.security import Login, Mechanism, Security
from harness.server_process import free_ports
from penstock.cli.time_arguments import time_text
from penstock.connections.cluster import bootstrap_option
from penstock.report.operator import LedgerPlace, operator
from tests.penstock.at_registry import AtRegistry
from tests.penstock.running import REPOSITORY, At, penstock

USAGE = [
    (["topics", "alter", "t", "--config", "a=1", "--default", "a"], "--config and --default both"),
    (["topics", "delete", "t"], "nobody is there to be asked: say --yes"),
    (["topics", "delete"], "missing argument 'TOPIC…'"),
    (["topics", "repair", "t", "x"], "'x' is not a valid integer"),
    (["consume", "t", "--from", "1969-12-31"], "'1969-12-31' is none of beginning, end, an offset"),
    (["consume", "t", "--from", "9" * 19], "is none of beginning, end, an offset"),
    (["consume", "t", "--partition", "-1"], "-1 is not in the range x>=0"),
    (["consume", "t", "u"], "got unexpected extra argument (u)"),
    (["consume", "t", "--form", "end"], "no such option '--form'. Did you mean"),
    (["load", "--every", "soon"], "'soon' is no time such as 30m, 1h, 1d"),
    (["load", "--every", "7h"], "'7h' neither divides a day nor is whole days"),
    (["load", "--topics", "a,,b"], "'a,,b' has an empty name"),
    (["load", "--rebuild", "dt=2026-11-20/hour=7"], "is no folder such as dt=2026-11-20/hour=07"),
    (["load", "--rebuild", "dt=2026-11-20", "--topics", "t", "--every", "1h"], "with neither"),
    (["load"], "give --config FILE, or every key with --set KEY=VALUE"),
    (["agent", "--status", "--set", "http_port=1"], "give --config, or --agent URL"),
    (["agent", "--json", "--set", "registry=x"], "--json belongs to --status"),
    (["agent", "--status", "--agent", "http://h/?a=b"], "is no address of an agent, such as http"),
    (
        ["check-config", "broker", "x.yaml", "--online"],
        "are for agent, inputs, loader, audit and mirror",
    ),
    (["check-config", "agent", "x.yaml", "--online", "--offline"], "not both"),
    (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    (["zookeeper"], "give --config FILE, or every key with --set"),
    (["zookeeper", "--data-dir", "{here}/text.avsc"], "is a file"),
    (["zookeeper", "--data-dir", "x", "--port", "65536"], "65536 is not in the range 1<=x<=65535"),
]

FAILED = [
    (["produce", "t", "--file", "{here}/socket"], "{here}/socket: No such device or address"),
    (["zookeeper", "--data-dir", "{here}/zk", "--jars", "{here}/empty"], "{here}/empty"),
    (["schemas", "check", "{here}/nowhere.avsc"], "{here}/nowhere.avsc: No such file"),
    (["schemas", "check", "{here}/bytes.avsc"], "bytes.avsc: line 1: not UTF-8"),
    (["schemas", "register", "{here}/folder.avsc"], "folder.avsc: Is a directory"),
    (["schemas", "apply", "{here}/nowhere"], "{here}/nowhere: No such file or directory"),
    (["schemas", "apply", "{here}/text.avsc"], "{here}/text.avsc: Not a directory"),
    (["schemas", "apply", "{here}/empty"], "{here}/empty: no file is named SUBJECT.avsc"),
    (["schemas", "apply", "{here}"], "bytes.avsc: line 1: not UTF-8"),
]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bytes.avsc").write_bytes(b"\xff")
    (tmp_path / "text.avsc").write_text("not JSON")
    (tmp_path / "folder.avsc").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        yield tmp_path


@pytest.mark.parametrize(("code", "cases"), [(2, USAGE), (1, FAILED)], ids=["usage", "failed"])
def test_one_line_says_what_is_wrong(
    code: int, cases: list[tuple[list[str], str]], here: Path
) -> None:
    for words, said in cases:
        arguments = [word.format(here=here) for word in words]
        ended = penstock(*arguments)
        assert (ended.returncode, ended.stdout) == (code, ""), ended
        (line,) = ended.stderr.splitlines()
        assert said.format(here=here) in line
        assert line.startswith("penstock")
        assert ("(see penstock" in line) == (code == 2), line


def test_a_subject_with_one_version_has_no_difference(
    schemas: AtRegistry, new_topic: str, tmp_path: Path
) -> None:
    schema = tmp_path / f"{new_topic}.avsc"
    schema.write_text('"string"')
    schemas.output("register", str(schema))
    assert schemas.refused("diff", new_topic) == f"{new_topic} has no version before 1"


def test_a_topic_is_deleted_by_whoever_says_yes(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic)
    for typed, code, said in (("n\n", 1, "nothing was deleted"), ("y\n", 0, "")):
        terminal, ours = pty.openpty()
        os.write(terminal, typed.encode())
        ended = subprocess.run(
            [*at.arguments("topics", "delete", new_topic)],
            stdin=ours,
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            check=False,
        )
        os.close(terminal)
        os.close(ours)
        assert (ended.returncode, said in ended.stderr) == (code, True)
        assert f"delete {new_topic} and all messages, for good? [y/N]" in ended.stderr
    assert ended.stdout == f"deleted {new_topic}\n"


@pytest.mark.not_quick("starts a process")
@pytest.mark.parametrize(
    ("absent", "said"),
    [
        ("pyarrow", "penstock: checking a loader needs pyarrow: pip install 'penstock[loader]'\n"),
        ("pyspark", "problem: Spark needs pyspark: pip install 'penstock[loader]'\n"),
    ],
)
def test_a_loader_cannot_be_checked_without_its_extra(
    absent: str, said: str, tmp_path: Path
) -> None:
    config = tmp_path / "loader.yaml"
    config.write_text(yaml.safe_dump({"root": f"file://{tmp_path}/root", "topics": ["clicks"]}))
    without = f"import sys; sys.modules[{absent!r}] = None; from penstock.command_line import main"
    ended = subprocess.run(
        [
            *(sys.executable, "-c", f"{without}; main()"),
            *("check-config", "loader", str(config)),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert said in {ended.stderr, *ended.stdout.splitlines(keepends=True)}


def test_a_loader_whose_audit_is_away(tmp_path: Path) -> None:
    broker, registry, audit = free_ports(3)
    config = tmp_path / "loader.yaml"
    settings = {
        "root": f"file://{tmp_path}/root",
        "brokers": [f"127.0.0.1:{broker}"],
        "registry": f"http://127.0.0.1:{registry}",
        "audit": f"http://127.0.0.1:{audit}",
        "topics": ["clicks"],
    }
    config.write_text(yaml.safe_dump(settings))
    said = penstock("check-config", "loader", str(config)).stdout
    assert f"note: topics are not checked: no broker at 127.0.0.1:{broker}" in said
    assert f"note: schemas are not checked: no registry at http://127.0.0.1:{registry}" in said
    assert "note: hours would wait for " in said


def test_who_makes_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ada")
    assert operator(Security()) == "ada"
    login = Login(mechanism=Mechanism.SCRAM_SHA_512, user="ops", password_file="unread")
    assert operator(Security(login=login)) == "ada as ops"


def test_a_ledger_is_entered_as_its_file_says_unless_the_command_says_who(tmp_path: Path) -> None:
    login = {"mechanism": "SCRAM-SHA-512", "user": "ops", "password_file": "unread"}
    path = tmp_path / "security.yaml"
    path.write_text(yaml.safe_dump({"login": login}))
    audits = Login(mechanism=Mechanism.SCRAM_SHA_512, user="audit", password_file="unread")
    found: list[str] = []

    @click.command()
    @bootstrap_option
    def command(bootstrap: str) -> None:
        for security in (None, Security(login=audits)):
            said = LedgerPlace("dc1", bootstrap, "", security).entrance.login
            found.append(said.user if said else "")

    command.main(["--security", str(path)], standalone_mode=False)
    command.main([], standalone_mode=False)
    assert found == ["ops", "ops", "", "audit"]


def test_a_time_that_no_calendar_has() -> None:
    assert time_text(2**62) == "4,611,686,018,427,387,904 ms since 1970"
