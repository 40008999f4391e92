"""The key of a journal: made with it, renewed in a copy, and missed."""

import shutil
import stat
from pathlib import Path

import pytest

from agent.errors import JournalError
from ground.signatures.keys import FILE_NAME, SigningKey
from tests.agent.journal.samples import A, files, known, open_journal, reopened
from tests.ledger.chains import key_in, name_of


def test_a_new_journal_is_named_by_its_key_and_names_its_sources(tmp_path: Path) -> None:
    journal, state = open_journal(tmp_path)
    assert journal.agent_id == name_of(key_in(tmp_path))
    assert journal.key.public.raw == key_in(tmp_path)
    assert journal.next_source()[:10] == journal.agent_id[:10]
    assert journal.next_source() != journal.next_source()
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert state.lost_key is None
    again, state = reopened(tmp_path)
    assert (again.key.public, state.lost_key) == (journal.key.public, None)


def test_a_new_journal_has_a_new_key(tmp_path: Path) -> None:
    """As when the journal was moved away: its number 0 is another entry than the former's."""
    first, _ = open_journal(tmp_path)
    first.close()
    for path in files(tmp_path):
        path.unlink()
    second, state = open_journal(tmp_path)
    assert second.agent_id != first.agent_id
    assert second.agent_id == name_of(key_in(tmp_path))
    assert state.lost_key is None


def test_a_copy_has_another_key_and_not_the_original_s(tmp_path: Path) -> None:
    original, _ = open_journal(tmp_path / "original")
    original.source(known(A))
    original.close()
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    copy, state = open_journal(tmp_path / "copy")
    assert (state.is_copy_of, state.lost_key) == (original.agent_id, None)
    assert copy.agent_id == name_of(key_in(tmp_path / "copy"))
    assert copy.key.public != original.key.public
    (source,) = state.sources
    assert source.id[:10] == copy.agent_id[:10]
    former = (tmp_path / "original" / FILE_NAME).read_bytes()
    assert all(former not in path.read_bytes() for path in (tmp_path / "copy").iterdir())


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_lost_key_is_said_once(tmp_path: Path, how: str) -> None:
    journal, _ = open_journal(tmp_path)
    former = journal.key.public
    journal.close()
    (tmp_path / FILE_NAME).unlink()
    if how == "replaced":
        SigningKey.new().write(tmp_path / FILE_NAME)
    again, state = open_journal(tmp_path)
    assert again.agent_id == journal.agent_id
    assert again.key.public != former
    assert state.lost_key is not None
    assert former.fingerprint in state.lost_key
    assert again.key.public.fingerprint in state.lost_key
    _, state = reopened(tmp_path)
    assert state.lost_key is None


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"nonsense", 0o600, "not a private key"),
        (b"", 0o600, "not a private key"),
        (None, 0o640, "other users can use this key: set its mode to 600"),
    ],
)
def test_a_key_that_cannot_be_used_is_an_error(
    tmp_path: Path, content: bytes | None, mode: int, words: str
) -> None:
    journal, _ = open_journal(tmp_path)
    journal.close()
    if content is not None:
        (tmp_path / FILE_NAME).write_bytes(content)
    (tmp_path / FILE_NAME).chmod(mode)
    with pytest.raises(JournalError, match=f"cannot use the key of this agent: .*{words}"):
        open_journal(tmp_path)
