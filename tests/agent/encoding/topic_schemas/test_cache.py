"""The schemas that an agent keeps on disk: whole or not at all, and of the right registry."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.encoding.topic_schemas.cache import FILE_NAME, read_cache, write_cache
from agent.encoding.topic_schemas.values import (
    LEDGER_SCHEMA,
    Purpose,
    TopicPurpose,
    TopicSchema,
    dead_letters_of,
)
from schemas.event_schemas import DEAD_LETTER, LOG_LINE, built_in

HERE = ("http://a:8081", "http://b:8081")
KEPT = {
    TopicPurpose("t", Purpose.LINES): TopicSchema("t", 7, 1, built_in(LOG_LINE)),
    dead_letters_of("t"): TopicSchema("t.dead", 8, 2, built_in(DEAD_LETTER)),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("written")
    write_cache(directory, HERE, KEPT)
    return (directory / FILE_NAME).read_bytes()


def test_what_was_kept_is_there_again(tmp_path: Path) -> None:
    assert read_cache(tmp_path, HERE) == {}
    of_another_release = {LEDGER_SCHEMA: TopicSchema("_audit", 9, 1, built_in(DEAD_LETTER))}
    write_cache(tmp_path, HERE, {})
    write_cache(tmp_path, HERE, KEPT | of_another_release)
    assert read_cache(tmp_path, HERE) == KEPT
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_one_address_in_common_makes_it_the_same_registry(tmp_path: Path) -> None:
    write_cache(tmp_path, HERE, KEPT)
    assert read_cache(tmp_path, ("http://c:8081", "http://b:8081")) == KEPT


def test_ids_of_another_registry_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_cache(tmp_path, HERE, KEPT)
    assert read_cache(tmp_path, ("http://c:8081",)) == {}
    assert "of another registry" in caplog.text


@given(place=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_a_bit_that_flipped_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, place: int, bit: int
) -> None:
    directory = tmp_path_factory.mktemp("damaged")
    data = bytearray(written)
    data[place % len(data)] ^= 1 << bit
    (directory / FILE_NAME).write_bytes(data)
    assert read_cache(directory, HERE) == {}


def test_a_file_that_was_cut_off_or_is_none_of_ours_is_left_alone(
    tmp_path: Path, written: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for content in (b"", written[:-1], written[:20], b"x" * 100, b"\xff\n{}"):
        (tmp_path / FILE_NAME).write_bytes(content)
        assert read_cache(tmp_path, HERE) == {}
    assert caplog.text.count("querying the registry") == 5


def test_a_later_format_is_left_alone(tmp_path: Path, written: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(written.replace(b"schemas 1", b"schemas 2", 1))
    assert read_cache(tmp_path, HERE) == {}


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, written: bytes) -> None:
    write_cache(tmp_path, HERE, KEPT)
    (tmp_path / f"{FILE_NAME}.tmp").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_cache(tmp_path, HERE, {})
    assert (tmp_path / FILE_NAME).read_bytes() == written
