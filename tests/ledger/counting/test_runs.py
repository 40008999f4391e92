"""Batches counted many at a time: never otherwise than each for itself."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.penstock.made_batches import (
    NOON,
    WINDOW,
    agents_batch,
    empty_count,
    foreign_batch,
    header_of,
)
from ledger.counting.batches import Counting, Json, PartitionCount
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CountingJournal, CountPosition, PartitionKey
from ledger.counting.sealed_entries import SealedEntry
from tests.ledger.counting.encoding import COUNTERS_KEY, EncodesAtOnce
from wire.record_batches.batch import HEADER, HEADER_SIZE, headers

CONTROL, APPEND_TIME = 0x20, 0x08
KEY = PartitionKey("clicks", "id", 0)
SEEN = NOON + 3 * WINDOW

# Distance from the batch before, times, and whose it is or what is special about it.
BATCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 0, 5]),
        st.one_of(
            st.lists(st.integers(NOON, NOON + 99), min_size=1, max_size=4),
            st.lists(st.integers(NOON - WINDOW, NOON + WINDOW), min_size=1, max_size=4),
        ),
        st.sampled_from(["agent"] * 6 + ["other agent", "foreign", "control", "append time"]),
    ),
    max_size=40,
)


def made(base: int, times: Sequence[int], kind: str) -> bytes:
    if kind == "foreign":
        return foreign_batch(times, base=base, producer=3)
    batch = agents_batch(times, base=base, producer=8 if kind == "other agent" else 5)
    flag = {"control": CONTROL, "append time": APPEND_TIME}.get(kind, 0)
    header = header_of(batch)
    return HEADER.pack(*header._replace(attributes=header.attributes | flag)) + batch[HEADER_SIZE:]


def log_of(batches: list[tuple[int, list[int], str]]) -> bytes:
    log, end = b"", 0
    for distance, times, kind in batches:
        log += made(end + distance, times, kind)
        end += distance + len(times)
    return log


class Ledger(EncodesAtOnce):
    def __init__(self) -> None:
        self.passages: list[Json] = []

    def send(self, sealed: SealedEntry) -> None:
        self.passages += sealed.entry["passages"]


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place for journals that are not looked at again."""
    return tmp_path_factory.mktemp("runs")


@given(BATCHES, st.booleans())
def test_the_columns_say_what_each_batch_says(
    batches: list[tuple[int, list[int], str]], gaps: bool
) -> None:
    one_by_one, by_columns = empty_count(seen=SEEN), empty_count(seen=SEEN)
    counting = Counting(WINDOW)
    log = log_of(batches)
    for kind in ("agent", "other agent") * 2:  # both are known
        batch = made(0, [NOON], kind)
        counting.count(
            empty_count(), header_of(batch), lambda batch=batch: batch, gaps_are_empty=False
        )
    for at, header in headers(log):
        whole = log[at : at + header.size]
        before = replace(by_columns)
        if not counting.count_by_headers(by_columns, [header], gaps_are_empty=gaps):
            assert by_columns == before, "all or nothing"
            counting.count(by_columns, header, lambda whole=whole: whole, gaps_are_empty=gaps)
        counting.count(one_by_one, header, lambda whole=whole: whole, gaps_are_empty=gaps)
    assert by_columns == one_by_one


def passage_of(
    directory: Path, log: bytes, *, gaps: bool, in_runs: bool
) -> tuple[list[Json], CountPosition]:
    directory.mkdir(exist_ok=True)
    path = directory / "counter"
    path.unlink(missing_ok=True)
    journal, ledger = CountingJournal(path, "broker", COUNTERS_KEY), Ledger()
    counter = Counter(journal, Speaker(journal.source, "h", "a", "dc1", WINDOW), ledger)
    counter.settle()
    counter.partition(KEY, 0, leader_epoch=0, seen=SEEN)
    found = list(headers(log))
    where: Json = {"gaps_are_empty": gaps, "segment": 0}
    if in_runs:
        counter.run(
            [header for _, header in found],
            lambda at, length: log[at : at + length],
            **where,
            byte=0,
        )
    else:
        for at, header in found:
            whole = log[at : at + header.size]
            counter.batch(header, lambda whole=whole: whole, **where, byte=at + header.size)
    assert counter.batches == len(found)
    counter.commit()
    return ledger.passages, journal.places.get(KEY, CountPosition(0))


@settings(max_examples=25)  # each is two files
@given(BATCHES.filter(bool), st.booleans())
def test_a_run_is_its_batches(
    journals: Path, batches: list[tuple[int, list[int], str]], gaps: bool
) -> None:
    log = log_of(batches)
    one, other = (
        passage_of(journals / str(in_runs), log, gaps=gaps, in_runs=in_runs)
        for in_runs in (True, False)
    )
    assert one == other


@given(st.lists(st.integers(NOON - 5 * WINDOW, SEEN + 9), min_size=1))
def test_delays_of_many_are_those_of_each(times: list[int]) -> None:
    together, apart = empty_count(seen=SEEN), empty_count(seen=SEEN)
    together.late(times, [2] * len(times))
    for time in times:
        apart.late([time], [2])
    assert together.delays == apart.delays
    assert sum(together.delays) == 2 * len(times)


def test_many_batches_in_several_windows_need_no_opening() -> None:
    counting = Counting(WINDOW)
    learned: PartitionCount = empty_count()
    first = agents_batch([NOON])
    counting.count(learned, header_of(first), lambda: first, gaps_are_empty=False)
    log = b"".join(
        agents_batch([NOON + at * WINDOW, NOON + at * WINDOW + 7], base=2 * at) for at in range(9)
    )
    count = empty_count()
    run = [header for _, header in headers(log)]
    assert counting.count_by_headers(count, run, gaps_are_empty=False)
    assert counting.opened == 1
    assert [each.events for each in count.windows.values()] == [2] * 9
    assert sum(each.bytes for each in count.windows.values()) == len(log)
    assert count.stretches == [[0, 18]]
