"""The folder of enrolled keys: what it says of hosts, how it changes, and what is wrong with it."""

import logging
from pathlib import Path

import pytest

from audit.configuration.enrolled_keys import BadKeysFolder, KeysFolder, read
from ground.signatures.keys import PublicKey, SigningKey

NOON = 1_795_348_800_000  # 2026-11-22T12:00Z


def enrolled(folder: Path, name: str) -> PublicKey:
    key = SigningKey.new().public
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(key.pem)
    return key


def test_keys_are_those_of_their_hosts(tmp_path: Path) -> None:
    one, agent, loader = (
        enrolled(tmp_path, name) for name in ("web-1.pub", "web-2/agent.pub", "web-2/loader.pub")
    )
    (tmp_path / "README").write_text("of the site")
    keys = read(tmp_path)
    assert list(keys.enrolled("web-1")) == [one.raw]
    assert list(keys.enrolled("web-2")) == [agent.raw, loader.raw]
    assert keys.accepts(loader.raw, "web-2", NOON)
    assert not keys.accepts(loader.raw, "web-1", NOON)
    assert not keys.accepts(loader.raw, "web-3", NOON)
    assert not keys.is_by_first_use


@pytest.mark.parametrize(
    "time", ["2026-11-22T12:00Z", "2026-11-22T12:00", "2026-11-22T13:00+01:00"]
)
def test_a_revoked_key_counts_no_more_from_its_time_on(tmp_path: Path, time: str) -> None:
    key, other = enrolled(tmp_path, "a.pub"), enrolled(tmp_path, "b.pub")
    lines = ["# stolen", "", f"{key.fingerprint.upper()}  {time}  # laptop", f"{'0' * 64} {time}"]
    (tmp_path / "revoked").write_text("\n".join(lines))
    keys = read(tmp_path)
    assert keys.accepts(key.raw, "a", NOON - 1)
    assert not keys.accepts(key.raw, "a", NOON)
    assert keys.accepts(other.raw, "b", NOON)


@pytest.mark.parametrize("line", ["abc", "xyz 2026-11-22", f"{'0' * 64} soon", "1 2 3"])
def test_a_line_that_revokes_nothing_is_named(tmp_path: Path, line: str) -> None:
    enrolled(tmp_path, "a.pub")
    (tmp_path / "revoked").write_text(f"\n{line}\n")
    with pytest.raises(BadKeysFolder, match="revoked, line 2: expected a fingerprint and a time"):
        read(tmp_path)


def test_changes_are_noticed_and_a_bad_file_leaves_the_former_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = enrolled(tmp_path, "a.pub")
    folder = KeysFolder(tmp_path)
    assert list(folder.read().enrolled("a")) == [first.raw]
    assert folder.changed() is None
    second = enrolled(tmp_path, "a/other.pub")
    changed = folder.changed()
    assert changed is not None
    assert set(changed.enrolled("a")) == {first.raw, second.raw}
    (tmp_path / "b.pub").write_text("no key")
    with caplog.at_level(logging.WARNING, "audit"):
        assert folder.changed() is None
        assert folder.changed() is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert "b.pub: contains no public key as PEM" in line
    (tmp_path / "b.pub").unlink()
    (tmp_path / "a.pub").unlink()
    changed = folder.changed()
    assert changed is not None
    assert list(changed.enrolled("a")) == [second.raw]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadKeysFolder, match="No such file or directory"):
        KeysFolder(tmp_path / "none").read()
