"""Manifests that have only the hours and sources that changed."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.commit.changes import changes, with_changes
from loader.commit.commit_log import MOST_CHANGES, CommitLog
from loader.errors import RunTaken, StoreError
from loader.store.local import LocalStore
from loader.store.store import MOST_BYTES
from loader.values.manifests import SEVERAL, HourState, KnownSources, Manifest
from loader.values.reports import Landed
from loader.values.tables import Hour
from tests.loader.commit.made_up import manifest
from tests.loader.commit.stepping_store import At, SteppingStore, StoppedHere, stop

Sources = Mapping[tuple[str, str], tuple[int, Hour, Landed]]  # by topic and source
OLD = 200  # hours that change no more
_HOURS = st.integers(0, 5).map(Hour)
_STATES = st.builds(HourState, rows=st.integers(0, 2), files=st.just(()))
_PLACES = st.tuples(st.sampled_from([0, 1, SEVERAL]), _HOURS, st.sampled_from([3, ((1, 2),)]))


def state(run: int, hours: Mapping[Hour, HourState], sources: Sources) -> Manifest:
    groups: dict[tuple[str, int, Hour], dict[str, Landed]] = {}
    for (topic, source), (partition, loaded, landed) in sources.items():
        groups.setdefault((topic, partition, loaded), {})[source] = landed
    known = (
        KnownSources(topic=topic, partition=partition, loaded=loaded, landed=landed)
        for (topic, partition, loaded), landed in sorted(groups.items(), key=lambda each: each[0])
    )
    return msgspec.structs.replace(manifest(run, hours=hours), sources=tuple(known))


def after(run: int) -> Manifest:
    """Each run changes an hour and a source, adds one of both, and forgets one of both."""
    hours = {
        Hour(hour): HourState(rows=run if hour == run + OLD else 9, files=(f"t/{hour}",))
        for hour in range(run, run + OLD + 1)
    }
    sources: Sources = {
        ("t", f"s{number}"): (0, Hour(min(number, run)), run if number == run else 7)
        for number in range(run - 3, run + 2)
    }
    return state(run, hours, sources)


def commit(log: CommitLog, *runs: int) -> None:
    for run in runs:
        log.commit(after(run))
        log.mark_visible(run)
        log.mark_published(run)


@pytest.fixture
def log(store: LocalStore) -> CommitLog:
    return CommitLog(store, "t", complete_below=0)


@given(
    *2 * [st.dictionaries(_HOURS, _STATES)],
    *2 * [st.dictionaries(st.tuples(st.sampled_from("tu"), st.sampled_from("ab")), _PLACES)],
)
def test_changes_restore_the_state(
    before: dict[Hour, HourState], hours: dict[Hour, HourState], known: Sources, sources: Sources
) -> None:
    base, wanted = state(4, before, known), state(9, hours, sources)
    changed = changes(base, wanted)
    assert changed is not None
    assert all(before.get(hour) != now for hour, now in changed.hours.items())
    read = msgspec.json.decode(msgspec.json.encode(changed), type=Manifest)
    assert with_changes(base, read) == wanted


def test_a_state_that_changes_do_not_restore_is_written_whole(log: CommitLog) -> None:
    """A source should be in one group only."""
    commit(log, 1)
    sources = tuple(
        KnownSources(topic="t", partition=partition, loaded=Hour(0), landed={"s": 5})
        for partition in (0, 1)
    )
    odd = msgspec.structs.replace(after(2), sources=sources)
    assert changes(after(1), odd) is None
    log.commit(odd)
    assert CommitLog(log.store, "t").latest() == odd


def test_two_files_have_the_state_after_any_run(store: LocalStore, log: CommitLog) -> None:
    for run in range(1, 41):
        commit(log, run)
        assert log.latest() == CommitLog(store, "t").latest() == after(run)
    complete = [run for run in log.runs() if not CommitLog(store, "t").read(run).since]
    assert 3 < len(complete) < 10
    written = sum(entry.size for entry in store.list("_penstock/t"))
    assert written < sum(len(msgspec.json.encode(after(run))) for run in range(1, 41)) / 3
    small = CommitLog(store, "t")
    small.latest()
    commit(small, 41)
    assert not CommitLog(store, "t").read(41).since


def test_a_complete_manifest_comes_after_a_hundred_runs(log: CommitLog) -> None:
    hours = {Hour(0): HourState(rows=1, files=("x" * 100_000,))}
    for run in range(1, MOST_CHANGES + 3):
        log.commit(state(run, hours, {}))
        log.mark_visible(run)
    assert [CommitLog(log.store, "t").read(run).since for run in log.runs()] == [
        0,
        *[1] * MOST_CHANGES,
        0,
    ]


def test_manifests_of_earlier_builds_are_continued(store: LocalStore) -> None:
    earlier = msgspec.to_builtins(after(1), str_keys=True)
    for field in ("since", "gone_hours", "gone_sources"):
        del earlier[field]
    store.create("_penstock/t/manifest-1.json", msgspec.json.encode(earlier))
    log = CommitLog(store, "t", complete_below=0)
    assert log.latest() == after(1)
    log.mark_visible(1)
    commit(log, 2)
    assert CommitLog(store, "t").read(2).since == 1
    assert CommitLog(store, "t").latest() == after(2)


def test_what_kept_manifests_build_on_is_kept_wherever_forgetting_stops(log: CommitLog) -> None:
    commit(log, *range(1, 41))
    store, stops = log.store, 0
    first = CommitLog(store, "t").read(31).since
    assert 20 < first < 31
    while True:
        try:  # one more file each time
            CommitLog(SteppingStore(store, At(1, stop)), "t").forget(10)
        except StoppedHere:
            stops += 1
            fresh = CommitLog(store, "t")
            assert (fresh.latest(), fresh.listed().unpublished) == (after(40), [])
        else:
            break
    assert stops == 3 * (first - 1)
    assert log.runs() == list(range(first, 41))
    assert len(store.list("_penstock/t")) == 3 * len(log.runs())


def test_nothing_is_forgotten_while_it_is_unknown_what_is_needed(log: CommitLog) -> None:
    commit(log, *range(1, 21))
    log.store.replace("_penstock/t/manifest-11.json", b"damaged")
    log.forget(10)
    assert log.runs() == list(range(1, 21))
    commit(log, 21)
    log.forget(10)
    assert log.runs()[0] > 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "manifest-1.json does not exist"),
        (b"", "manifest-1.json is damaged"),
        (
            msgspec.json.encode(msgspec.structs.replace(after(1), since=1)),
            "builds on run 1, which is incomplete",
        ),
    ],
)
def test_a_manifest_whose_base_cannot_be_read_is_not_believed(
    log: CommitLog, content: bytes | None, says: str
) -> None:
    commit(log, 1, 2)
    log.store.delete("_penstock/t/manifest-1.json")
    if content is not None:
        log.store.create("_penstock/t/manifest-1.json", content)
    with pytest.raises(StoreError, match=says) as caught:
        CommitLog(log.store, "t").latest()
    assert "manifest-2.json" in str(caught.value)


def lose_the_answer() -> None:
    raise StoreError("the answer was lost")


def test_what_others_commit_is_seen(store: LocalStore, log: CommitLog) -> None:
    commit(log, *range(1, 4))
    unlucky = CommitLog(SteppingStore(store, At(1, lose_the_answer)), "t", complete_below=0)
    unlucky.latest()
    with pytest.raises(StoreError):
        unlucky.commit(after(4))
    other = msgspec.structs.replace(after(4), loader="other")
    with pytest.raises(RunTaken):
        log.commit(other)
    assert unlucky.latest() == log.latest() == after(4)


def test_a_load_reads_three_manifests(store: LocalStore, log: CommitLog) -> None:
    """As many as when all were complete: the last two, whose markers it checks, and one more."""
    commit(log, *range(1, 8))
    read: list[str] = []

    class Reading(LocalStore):
        def read(self, path: str, limit: int = MOST_BYTES) -> bytes | None:
            read.append(path)
            return super().read(path, limit)

    load = CommitLog(Reading(store.root), "t", complete_below=0)
    load.read(6)
    load.read(7)
    for run in (8, 9):
        assert load.latest() == after(run - 1)
        commit(load, run)
        load.read(run)
    base = CommitLog(store, "t").read(7).since
    assert read == [f"_penstock/t/manifest-{run}.json" for run in (6, 7, base)]
