"""Tokens in a file: whose they are, files that change, and files that are none."""

import hashlib
from pathlib import Path

import pytest

from ground.logins.token_file import BadTokenFile, TokenFile


def line(name: str, token: str) -> str:
    return f"{name}:sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"


def test_a_token_is_somebodys_or_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# of programs\n\n" + line("ci", "t-1") + line("loader", "t-2"))
    tokens = TokenFile(path)
    assert [tokens.name_of(each) for each in ("t-1", "t-2")] == ["ci", "loader"]
    assert [tokens.name_of(each) for each in ("", "t-3", "t", "x" * 20_000, "\udc80")] == [None] * 5


def test_a_file_that_changes_is_read_again_and_a_bad_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    path.write_text(line("ci", "t-1"))
    tokens = TokenFile(path)
    path.write_text(line("ci", "another") + line("b", "b"))
    assert tokens.name_of("t-1") is None
    assert tokens.name_of("another") == "ci"
    path.write_text("ci:sha256:short")
    assert [tokens.name_of("another") for _ in range(3)] == ["ci"] * 3
    path.unlink()
    assert tokens.name_of("b") == "b"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "line 1" in said[0]
    assert "cannot be read" in said[1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"ci", "line 1: expected `name:sha256:"),
        (b"ci:md5:0", "line 1"),
        (b"\n\nc i:sha256:" + b"0" * 64, "line 3"),
        (b"ci:sha256:" + b"G" * 64, "line 1"),
        (b"\xff", "not UTF-8"),
        (b"#" * (4 * 1024 * 1024 + 1), "more than"),
    ],
)
def test_what_is_no_file_of_tokens_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(content)
    with pytest.raises(BadTokenFile, match=said):
        TokenFile(path)
