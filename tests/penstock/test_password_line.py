"""`penstock password-line`: what it prints opens the door, and shows nobody the password."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ground.logins.password_file import PasswordFile
from harness.logins.made_secrets import made_secret
from penstock.connections.password_line import command

PASSWORD = made_secret("correct horse")


def test_its_line_lets_one_in(tmp_path: Path) -> None:
    password, users = tmp_path / "password", tmp_path / "users"
    password.write_text(f"{PASSWORD}\n")
    ended = CliRunner().invoke(command, ["alice", "--password-file", str(password)])
    assert ended.exit_code == 0
    assert PASSWORD not in ended.output
    users.write_text(ended.stdout)
    file = PasswordFile(users)
    assert file.check("alice", PASSWORD)
    assert not file.check("alice", "wrong horse")


def test_a_password_is_asked_for_twice_and_not_shown() -> None:
    ended = CliRunner().invoke(command, ["alice"], input=f"{PASSWORD}\n{PASSWORD}\n")
    assert ended.exit_code == 0
    assert ended.stdout.startswith("alice:scrypt:")
    assert PASSWORD not in ended.output


@pytest.mark.parametrize(
    ("name", "password", "status"), [("a b", PASSWORD, 2), ("a", "short", 1), ("a", "", 1)]
)
def test_what_cannot_be_is_refused(tmp_path: Path, name: str, password: str, status: int) -> None:
    path = tmp_path / "password"
    path.write_text(password)
    ended = CliRunner().invoke(command, [name, "--password-file", str(path)], standalone_mode=False)
    error = ended.exception
    assert error is not None
    assert getattr(error, "exit_code", 1) == status
    assert ended.stdout == ""
