"""Passwords in a file: slow for who guesses, quick for who knows, taken over when it changes."""

import logging
import time
from pathlib import Path

import pytest

from ground.logins.password_file import BadPasswordFile, PasswordFile, SlowHash, read_users


def write(path: Path, users: dict[str, str]) -> None:
    other = path.with_suffix(".new")
    other.write_text("".join(f"{name}:{SlowHash.of(word)}\n" for name, word in users.items()))
    other.replace(path)


def test_a_password_is_right_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "users"
    write(path, {"alice": "first", "bob": "second"})
    assert "first" not in path.read_text()
    logins = PasswordFile(path)
    for _ in range(2):
        assert logins.check("alice", "first")
        assert logins.check("bob", "second")
        assert not logins.check("alice", "second")
        assert not logins.check("nobody", "first")
        assert not logins.check("alice", "x" * 100_000)


def test_what_was_right_is_quick_until_it_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "users"
    write(path, {"alice": "first"})
    logins = PasswordFile(path)
    assert logins.check("alice", "first")
    began = time.process_time()
    assert all(logins.check("alice", "first") for _ in range(100))
    remembered = time.process_time() - began
    began = time.process_time()
    assert not any(logins.check("alice", "wrong") for _ in range(3))
    assert remembered < time.process_time() - began
    write(path, {"alice": "another"})
    assert not logins.check("alice", "first")
    assert logins.check("alice", "another")


@pytest.mark.parametrize(
    "line", ["alice", "alice:secret", "alice:scrypt:2:1:1:AAAA:BBBB", "a b:scrypt:2:1:1:AA==:BB=="]
)
def test_a_line_that_is_none(line: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "users"
    path.write_text(f"# who may\n\n{line}\n")
    with pytest.raises(BadPasswordFile, match=rf"{path}, line 3: expected `name:scrypt:…`"):
        read_users(path)
    write(path, {"alice": "first"})
    logins = PasswordFile(path)
    path.write_text(line)
    with caplog.at_level(logging.ERROR):
        assert logins.check("alice", "first")
        assert logins.check("alice", "first")
    assert len(caplog.records) == 1
    path.unlink()
    assert logins.has("alice")
