"""Secrets are read when they are needed, and show nothing of themselves."""

from pathlib import Path

import pytest

from ground.logins.secrets import NoSecret, Secret


def test_a_file_without_its_last_line_break(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    secret = Secret(file=str(path))
    path.write_text(" two words \n")
    assert secret.read() == " two words "
    path.write_text("another\r\n")
    assert secret.read() == "another"
    assert str(secret) == str(path)
    assert "another" not in repr(secret)


def test_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "from there")
    assert Secret(variable="A_SECRET").read() == "from there"
    monkeypatch.delenv("A_SECRET")
    with pytest.raises(NoSecret, match="the environment variable A_SECRET is not set"):
        Secret(variable="A_SECRET").read()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"\xff", "is not UTF-8"), (b"x" * 65_537, "more")],
)
def test_what_cannot_be_one(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(NoSecret, match=why):
        Secret(file=str(path)).read()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NoSecret, match="cannot be read: no such file or directory"):
        Secret(file=str(tmp_path / "none")).read()
    with pytest.raises(NoSecret, match="cannot be read: is a directory"):
        Secret(file=str(tmp_path)).read()
