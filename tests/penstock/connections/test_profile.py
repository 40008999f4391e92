"""Client profiles: which file counts, what is wrong with one, and who may read it.

(That options and variables count more: tests/penstock/cli/test_command_line.py. Credentials:
tests/penstock/report/test_locked_audit.py.)
"""

import os
from pathlib import Path

import pytest

from tests.penstock.running import NOBODY, fresh_penstock, penstock

MALFORMED = [
    ("broker: [a]", ":1: broker: unknown key; did you mean brokers?"),
    ("brokers: ['a:b']", "`brokers`: bootstrap 'a:b': 'b' is not a port"),
    ("audit: a:8090", "`audit`: a:8090: "),
    ("audit: http://a\naudit_security: {tls: {}}", "`tls` is for https:// URLs"),
    ("security: {login: {mechanism: PLAIN}}", "`mechanism: PLAIN` needs user"),
]


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "said"), MALFORMED)
def test_a_malformed_profile_is_reported_with_its_key(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "profile.yaml", text)
    for command, code in (("topics list", 2), ("report", 4), ("check-config client {}", 2)):
        named = [] if "{}" in command else ["--profile", str(path)]
        ended = penstock(*command.format(path).split(), *named)
        assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr
        assert str(path) in ended.stderr


@pytest.mark.parametrize("program", ["agent", "audit", "broker", "load", "mirror", "registry"])
def test_a_program_does_not_read_profiles(program: str, tmp_path: Path) -> None:
    path = written(tmp_path / "profile.yaml", "malformed: true")
    ended = penstock(
        program, "--config", "/nowhere.yaml", environment={"PENSTOCK_PROFILE": str(path)}
    )
    assert "/nowhere.yaml: No such file" in ended.stderr


def test_the_file_that_is_named_replaces_the_users_own(tmp_path: Path) -> None:
    own = written(tmp_path / "penstock" / "client.yaml", "brokers: [own:1]\nregistry: http://r")
    variable = written(tmp_path / "variable.yaml", "brokers: [variable:1]")
    option = written(tmp_path / "option.yaml", "brokers: [option:1]")
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PENSTOCK_PROFILE": ""}
    for named, arguments, path in (
        ("", (), own),
        (str(variable), (), variable),
        (str(variable), ("--profile", str(option)), option),
    ):
        environment["PENSTOCK_PROFILE"] = named
        ended = penstock("profile", *arguments, environment=environment)
        brokers, registry = (line.split() for line in ended.stdout.splitlines()[1:3])
        assert brokers[1:3] == [f"{path.stem}:1".replace("client", "own"), str(path)]
        assert registry[2] == (str(path) if path is own else "default")


def test_a_profile_that_the_user_may_not_read_names_the_group_that_may(tmp_path: Path) -> None:
    own = written(tmp_path / "penstock" / "client.yaml", "brokers: [own:1]")
    own.chmod(0o040)
    if os.geteuid() == 0:
        os.chown(own, NOBODY, NOBODY)

    def said(*arguments: str) -> str:
        environment = {"PENSTOCK_PROFILE": "", "XDG_CONFIG_HOME": str(tmp_path)}
        command = ("topics", "list", *arguments)
        return fresh_penstock(*command, ordinary=True, environment=environment).stderr

    members = f"members of the group {own.group()} may read it"
    assert f"{own}: Permission denied: {members}" in said()
    assert "no broker at 127.0.0.1:1: connection refused" in said("-b", "127.0.0.1:1")
