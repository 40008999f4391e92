"""Leader epochs against a plain model, and what their file survives."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.errors import BadCheckpoint
from broker.storage.state.epochs import FILE_NAME, LeaderEpochs

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("truncate"), st.integers(0, 12)),
        st.tuples(st.just("drop"), st.integers(0, 12)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=30,
)


def expected_end(log: dict[int, int], start: int, end: int, epoch: int) -> tuple[int, int]:
    """OffsetForLeaderEpoch, read off the log itself."""
    epochs = sorted(set(log.values()))
    if not epochs or epoch > epochs[-1]:
        return -1, -1
    if epoch == epochs[-1]:
        return epoch, end
    largest = max((each for each in epochs if each <= epoch), default=epoch)
    return largest, min(offset for offset in log if log[offset] > epoch)


@given(STEPS)
def test_epochs_answer_as_the_log_itself_would(steps: list[tuple[str, int]]) -> None:
    # The model of a log is the epoch of each of its offsets.
    with TemporaryDirectory() as directory:
        path = Path(directory) / FILE_NAME
        epochs = LeaderEpochs.load(path)
        log: dict[int, int] = {}
        start = end = epoch = 0
        for step, amount in steps:
            match step:
                case "append":
                    epoch += amount
                    epochs.assign(epoch, end)
                    log[end] = epoch
                    end += 1
                case "truncate":
                    end = max(end - amount, start)
                    log = {offset: log[offset] for offset in log if offset < end}
                    epochs.truncate_after(end)
                case "drop":
                    start = min(start + amount, end - 1) if log else start
                    log = {offset: log[offset] for offset in log if offset >= start}
                    epochs.drop_before(start)
                case "restart":
                    epochs.save()
                    epochs = LeaderEpochs.load(path)
                    epochs.drop_before(start)
            assert epochs.latest == max(log.values(), default=-1)
            assert {offset: epochs.epoch_for(offset) for offset in log} == log
            assert epochs.epoch_for(start - 1) == -1
            for asked in range(epoch + 2):
                assert epochs.end_offset_for(asked, end) == expected_end(log, start, end, asked)
            rebuilt = LeaderEpochs(path)
            rebuilt.rebuild((log[offset], offset) for offset in sorted(log))
            assert rebuilt.entries == epochs.entries
            epochs.save()
            loaded = LeaderEpochs.load(path)
            loaded.drop_before(start)
            assert loaded.entries == epochs.entries


def test_kafkas_answers_at_the_edges(epochs: LeaderEpochs) -> None:
    assert epochs.end_offset_for(0, 0) == (-1, -1)
    epochs.assign(2, 10)
    epochs.assign(5, 20)
    asked = (-1, 1, 3, 5, 6)
    found = [epochs.end_offset_for(epoch, 30) for epoch in asked]
    assert found == [(-1, -1), (1, 10), (2, 20), (5, 30), (-1, -1)]


def test_an_epoch_without_batches_gives_way_to_the_next(epochs: LeaderEpochs) -> None:
    for epoch, offset in ((0, 0), (1, 7), (2, 7)):
        epochs.assign(epoch, offset)
    assert epochs.entries == [(0, 0), (2, 7)]
    epochs.assign(1, 9)  # a log that was cut back to another leader's history
    assert epochs.entries == [(0, 0), (1, 9)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture
def epochs(path: Path) -> LeaderEpochs:
    return LeaderEpochs(path)


def test_the_format_is_kafkas(path: Path, epochs: LeaderEpochs) -> None:
    epochs.assign(0, 0)
    epochs.assign(4, 1234)
    epochs.save()
    assert path.read_text() == "0\n2\n0 0\n4 1234\n"
    path.write_text("")
    assert LeaderEpochs.load(path).entries == []


def test_the_same_epoch_costs_no_write(path: Path, epochs: LeaderEpochs) -> None:
    epochs.assign(3, 0)
    epochs.save()
    path.unlink()
    epochs.assign(3, 100)
    epochs.drop_before(50)
    epochs.truncate_after(100)
    epochs.save()
    assert not path.exists()
    assert epochs.entries == [(3, 50)]


@pytest.mark.parametrize(
    "content",
    [
        "0\n", "1\n0\n", "0\n1\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\n0 0 0\n", "0\n1\nzero 0\n",
        "0\n2\n1 0\n0 5\n", "0\n2\n0 5\n1 5\n", "0\n1\n-1 0\n", "0\n1\n0 -3\n", "\x00\x00\x00\x00",
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error_and_is_rebuilt(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(BadCheckpoint, match=FILE_NAME):
        LeaderEpochs.load(path)
    epochs = LeaderEpochs(path)
    epochs.rebuild([(0, 0), (0, 3), (2, 5), (2, 9)])
    epochs.save()
    assert LeaderEpochs.load(path).entries == [(0, 0), (2, 5)]


def test_what_could_not_be_saved_is_saved_next(path: Path, epochs: LeaderEpochs) -> None:
    epochs.assign(3, 0)
    taken = epochs.take()
    assert taken is not None
    assert taken.content == b"0\n1\n3 0\n"
    assert epochs.take() is None
    epochs.put_back()
    epochs.save()
    assert LeaderEpochs.load(path).entries == [(3, 0)]


@pytest.mark.parametrize(("epoch", "offset"), [(-2, 0), (1, -1)])
def test_nonsense_is_not_assigned(epochs: LeaderEpochs, epoch: int, offset: int) -> None:
    with pytest.raises(ValueError, match="leader epoch"):
        epochs.assign(epoch, offset)


def test_of_what_several_write_the_newest_stays(path: Path, epochs: LeaderEpochs) -> None:
    """A flush may have taken what somebody else saves meanwhile, with more."""
    epochs.assign(3, 0)
    older = epochs.take()
    assert older is not None
    epochs.save()
    assert LeaderEpochs.load(path).entries == [(3, 0)], "whoever saves relies on nobody"
    path.unlink()
    epochs.write(older)
    assert not path.exists(), "it has been written"
    epochs.assign(4, 10)
    epochs.save()
    epochs.write(older)
    assert LeaderEpochs.load(path).entries == [(3, 0), (4, 10)]


def test_several_may_write_at_once(path: Path, epochs: LeaderEpochs) -> None:
    taken = []
    for epoch in range(40):
        epochs.assign(epoch, 10 * epoch)
        taken.append(epochs.take())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(epochs.write, filter(None, taken)))
    assert LeaderEpochs.load(path).latest == 39
