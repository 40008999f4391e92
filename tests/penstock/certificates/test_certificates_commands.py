"""`penstock certificates`, as somebody types it: what is printed, and the exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ground.files.directory_lock import DirectoryLock
from tests.penstock.running import Ended, penstock


def certificates(*arguments: str) -> Ended:
    return penstock("certificates", *arguments)


def output(*arguments: str) -> str:
    ended = certificates(*arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.fixture
def made(tmp_path: Path) -> Path:
    directory = tmp_path / "authority"
    document = json.loads(output("make", str(directory), "--json"))
    assert document["ca"] == str(directory / "ca.pem")
    return directory


def listed(directory: Path) -> dict[str, dict[str, Any]]:
    rows = json.loads(output("list", "--authority", str(directory), "--json"))
    return {row["name"]: row for row in rows}


def test_the_life_of_a_certificate(made: Path) -> None:
    at = ("--authority", str(made))
    hosts = ("--host", "b.example", "--host", "10.0.0.1")
    file = made / "broker-1.pem"
    said = output("sign", "broker-1", *hosts, *at)
    assert said.startswith("signed broker-1, valid until 20")
    assert said.endswith(f": {file}\n")
    (shown,) = json.loads(output("show", str(file), "--json"))
    assert shown["subject"] == "CN=broker-1"
    assert shown["issuer"] == "CN=Penstock authority"
    assert shown["hosts"] == ["b.example", "10.0.0.1"]
    assert shown["purpose"] == ["server", "client"]
    first = listed(made)["broker-1"]
    assert (first["serial"], first["days_left"], first["state"]) == (shown["serial"], 364, "good")

    renewed = json.loads(output("renew", "broker-1", "--days", "30", *at, "--json"))
    assert (renewed["days_left"], renewed["hosts"]) == (29, shown["hosts"])
    assert renewed["serial"] != shown["serial"]
    revoked = f"revoked broker-1 (2 certificates): copy {made / 'revoked.pem'} to the servers\n"
    assert output("revoke", "broker-1", *at) == revoked
    assert listed(made)["broker-1"]["state"] == "revoked"
    assert listed(made)["ca"]["purpose"] == "authority"


def test_what_ends_soon_ends_with_1(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_AUTHORITY", str(made))
    output("sign", "soon", "--client", "--days", "3")
    output("sign", "later", "--client", "--days", "30")
    output("sign", "gone", "--client", "--days", "1")
    output("revoke", "gone")
    assert certificates("list", "--warn-days", "2").returncode == 0
    warned = certificates("list", "--warn-days", "14")
    assert (warned.returncode, warned.stderr) == (1, "penstock: soon expires in 2 days\n")
    assert "later" in warned.stdout
    files = [str(made / f"{name}.pem") for name in ("later", "soon")]
    warned = certificates("show", *files, "--warn-days", "14")
    assert (warned.returncode, warned.stderr) == (1, f"penstock: {files[1]} expires in 2 days\n")
    assert certificates("show", *files).returncode == 0


def test_show_says_what_it_can_of_files_that_others_made(made: Path, tmp_path: Path) -> None:
    nonsense, spoilt, none = (tmp_path / name for name in ("nonsense", "spoilt", "none"))
    nonsense.write_bytes(b"\xff\x00")
    pem = (made / "ca.pem").read_text()
    spoilt.write_text(pem.replace("M", "N"))
    two = tmp_path / "two.pem"
    two.write_text(pem + pem)
    ended = certificates("show", *map(str, (nonsense, spoilt, none, two)))
    assert ended.returncode == 1
    assert f"{nonsense} contains no PEM certificate; {spoilt} contains an invalid" in ended.stderr
    assert f"{none}: No such file or directory" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout.count("CN=Penstock authority") == 2


def test_what_cannot_be_done_is_one_line(made: Path, tmp_path: Path) -> None:
    at = ("--authority", str(made))
    for code, words, said in (
        (2, ("sign", "../x", "--client", *at), "is not a certificate name"),
        (2, ("sign", "ca", "--client", *at), "a file of the authority"),
        (2, ("sign", "x", *at), "x needs --host"),
        (2, ("sign", "x", "--host", "a b", *at), "'a b' is not a host name"),
        (2, ("sign", "x", "--client", "--days", "0", *at), "0 is not in the range"),
        (2, ("make", str(tmp_path / "n"), "--name", ""), "is not an authority name"),
        (1, ("make", str(made)), "already has an authority: choose another directory"),
        (1, ("renew", "nobody", *at), "has no certificate nobody"),
        (1, ("revoke", "nobody", *at), "has no certificate nobody"),
        (1, ("list", "--authority", str(tmp_path)), f"`penstock certificates make {tmp_path}`"),
        (1, ("make", "/proc/x"), "/proc/x: No such file or directory"),
    ):
        ended = certificates(*words)
        assert (ended.returncode, ended.stdout) == (code, ""), words
        assert said in ended.stderr, words
        assert ended.stderr.count("\n") == 1, words


def test_those_before_one_that_cannot_be_are_renewed(made: Path) -> None:
    at = ("--authority", str(made))
    output("sign", "first", "--client", *at)
    before = listed(made)["first"]["serial"]
    ended = certificates("renew", "first", "nobody", *at)
    assert ended.returncode == 1
    assert ended.stdout.startswith("renewed first")
    assert listed(made)["first"]["serial"] != before


@pytest.mark.slow
def test_two_commands_at_once_are_one_after_the_other(made: Path) -> None:
    with DirectoryLock(made / ".lock"):
        ended = certificates("sign", "x", "--client", "--authority", str(made))
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "another command is at work" in ended.stderr
    output("sign", "x", "--client", "--authority", str(made))


@pytest.mark.not_quick("starts a process")
def test_other_commands_import_none_of_it() -> None:
    """No command waits for it that signs nothing."""
    code = (
        "import sys, click, penstock.services.agent; from penstock.command_line import penstock; "
        "penstock.get_command(click.Context(penstock), 'topics'); "
        "print('cryptography' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
