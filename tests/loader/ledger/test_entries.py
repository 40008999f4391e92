"""What a manifest says in the ledger: all of it, always the same, in entries of bounded size."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from loader.ledger.entries import (
    MOST_BYTES,
    MOST_RUNS,
    MOST_WINDOWS,
    destination_of,
    entries_of,
    entry_count,
    in_ledger,
)
from loader.values.manifests import AlteredOffsets, Manifest, Passage, RunKind
from loader.values.reports import LandedWindow
from loader.values.tables import Hour
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import LEDGER, built_in
from tests.loader.ledger.manifests import CONFIG, MINUTE, PRINTED_ID, manifest, passage, windows

HOUR = 60 * MINUTE


def _messages(of: Manifest) -> list[bytes]:
    return Encoder(built_in(LEDGER), 1).encode_many(entries_of(of))


def _read(of: Manifest) -> list[Any]:
    """As whoever reads the topic has them."""
    decoder = Decoder(lambda _: built_in(LEDGER))
    return [decoder.decode(each) for each in _messages(of)]


def test_one_passage_in_the_words_of_the_ledger() -> None:
    counted = (
        LandedWindow(start=0, rows=5, duplicates=2, dead=1, bytes=900, crc_sum=2**40),
        LandedWindow(start=MINUTE, rows=1),
    )
    sources = {"b": ((3, 3),), "a": ((0, 3), (7, 7))}
    run = manifest(passage(windows=counted, sources=sources, late={MINUTE: 1}))
    told = in_ledger(run, None, CONFIG)
    (entry,) = _read(told)
    assert told.ledger is not None
    assert told.ledger_entries == 1
    assert entry["header"] == {
        "time": run.committed,
        "host": "hdp-7",
        "app": "penstock-loader",
        "source": told.ledger.source,
        "seq": 17,
        "position": 0,
    }
    keys = ("version", "tier", "cluster", "destination", "run", "window_millis", "rebuilt")
    said = [entry[key] for key in keys]
    assert said == [1, "hdfs", "dc1", "hdfs://namenode/logs", 3, MINUTE, []]
    (found,) = entry["passages"]
    assert (found["topic"], found["topic_id"]) == ("clicks", PRINTED_ID)
    assert (found["partition"], found["leader_epoch"], found["no_events"]) == (4, 5, 1)
    assert found["offsets"] == [{"first": 100, "count": 10}]
    assert [(each["source"], each["seq"], each["events"]) for each in found["runs"]] == [
        ("a", 0, 4),
        ("a", 7, 1),
        ("b", 3, 1),
    ]
    first, second = found["windows"]
    fates = [(each["fate"], each["count"], each["bytes"]) for each in first.pop("excepted")]
    assert fates == [("duplicate", 2, 0), ("dead_lettered", 1, 0)]
    assert first == {"start": 0, "events": 5, "bytes": 900, "crc_sum": 2**40, "late": 0}
    assert (second["start"], second["late"], second["excepted"]) == (MINUTE, 1, [])


def test_what_differs_is_in_the_entry_of_its_passage() -> None:
    """However many entries a run has: who hides one, hides the other."""
    reason = "not what the agent sent"
    altered = (AlteredOffsets(102, 104, reason),)
    many = {f"source-{number}": ((0, 9),) for number in range(3 * MOST_RUNS)}
    parts = [
        passage(sources=many),
        replace(passage(partition=5), uncompared=((101, 101), (105, 107)), altered=altered),
        passage(partition=6, sources=many),
    ]
    entries = _read(in_ledger(manifest(*parts), None, CONFIG))
    assert len(entries) > 1
    (entry,) = (entry for entry in entries if entry["damaged"])
    (own,) = (part for part in entry["passages"] if part["partition"] == 5)
    assert own["uncompared"] == [{"first": 101, "count": 1}, {"first": 105, "count": 3}]
    (damaged,) = entry["damaged"]
    assert damaged["offsets"] == {"first": 102, "count": 2}
    assert {name: damaged[name] for name in ("topic", "topic_id", "partition")} == {
        name: own[name] for name in ("topic", "topic_id", "partition")
    }
    assert damaged["reason"] == reason


def test_nothing_read_is_nothing_said() -> None:
    assert entry_count(in_ledger(manifest(), None, CONFIG)) == 0
    assert entry_count(in_ledger(manifest(passage(7, 7)), None, CONFIG)) == 0
    assert entries_of(manifest(passage(windows=windows(1)))) == []


def test_runs_are_numbered_on_under_one_name() -> None:
    first = in_ledger(manifest(passage(), passage(partition=5)), None, CONFIG)
    second = in_ledger(manifest(passage(110, 120), run=4), first, CONFIG)
    other = in_ledger(manifest(passage()), None, CONFIG)
    assert first.ledger is not None
    assert second.ledger == first.ledger
    assert other.ledger is not None
    assert other.ledger.source != first.ledger.source


def test_the_first_run_says_that_it_begins_with_every_topic() -> None:
    """Of some it may have had nothing to read, and what was said of them before is no longer so."""
    read = in_ledger(manifest(passage(), run=1), None, CONFIG)
    (entry,) = _read(read)
    assert [each["partition"] for each in entry["passages"]] == [4]

    empty = in_ledger(manifest(run=1), None, CONFIG)
    (entry,) = _read(empty)
    (bare,) = entry["passages"]
    assert (bare["topic"], bare["topic_id"], bare["partition"]) == ("clicks", PRINTED_ID, -1)
    assert (bare["offsets"], bare["windows"], bare["runs"]) == ([], [], [])
    # A first run that was counted without that is told as it was.
    assert entries_of(msgspec.structs.replace(empty, ledger_entries=0)) == []
    assert _read(in_ledger(manifest(run=2), empty, CONFIG)) == []


def test_a_root_that_is_called_otherwise_is_the_same_in_the_ledger() -> None:
    first = in_ledger(manifest(passage(), run=1), None, CONFIG)
    moved = msgspec.structs.replace(CONFIG, root=f"{CONFIG.root}/")
    (entry,) = _read(in_ledger(manifest(passage(110, 120), run=2), first, moved))
    assert entry["destination"] == CONFIG.root
    assert destination_of(first, moved) == CONFIG.root
    assert destination_of(None, moved) == moved.root


def test_the_journal_is_the_same_after_a_time_in_which_nothing_was_told() -> None:
    """Else the audit would take what follows for another commit log."""
    silent = msgspec.structs.replace(CONFIG, ledger=False)
    first = in_ledger(manifest(passage(), run=1), None, CONFIG)
    second = in_ledger(manifest(passage(110, 120), run=2), first, silent)
    third = in_ledger(manifest(passage(120, 130), run=3), second, CONFIG)
    assert (entries_of(second), second.ledger_entries) == ([], 0)
    assert third.ledger == first.ledger
    assert in_ledger(manifest(passage(), run=1), None, silent).ledger is None


def test_what_was_committed_is_said_as_it_was_meant_then() -> None:
    """Repeating it changes nothing, although the loader is configured otherwise by now."""
    committed = in_ledger(manifest(passage(windows=windows(9))), None, CONFIG)
    kept = msgspec.json.decode(msgspec.json.encode(committed), type=Manifest)
    assert _messages(kept) == _messages(committed)
    later = msgspec.structs.replace(CONFIG, window=600, cluster="dc2", root="file:///logs")
    after = in_ledger(manifest(passage(110, 120), run=4), kept, later)
    assert after.ledger is not None
    assert committed.ledger is not None
    assert after.ledger.source == committed.ledger.source
    assert after.ledger.destination == CONFIG.root
    assert (after.ledger.cluster, after.ledger.window_millis) == ("dc2", 600_000)


def test_hours_that_were_rebuilt_stand_in_every_entry() -> None:
    hours = (Hour(3 * HOUR), Hour(HOUR), Hour(2 * HOUR), Hour(7 * HOUR))
    many = {f"s{at}": ((0, 1),) for at in range(MOST_RUNS + 1)}
    run = manifest(passage(sources=many), kind=RunKind.REBUILD, rebuilt=hours)
    found = _read(in_ledger(run, None, CONFIG))
    assert len(found) == 1  # both parts are small
    told = [
        {"topic": "clicks", "topic_id": PRINTED_ID, "from_time": first, "to_time": end}
        for first, end in [(HOUR, 4 * HOUR), (7 * HOUR, 8 * HOUR)]
    ]
    assert [entry["rebuilt"] for entry in found] == [told]
    # Hours that have no rows any more are told as well.
    (empty,) = _read(in_ledger(manifest(kind=RunKind.REBUILD, rebuilt=hours), None, CONFIG))
    assert (empty["rebuilt"], empty["passages"]) == (told, [])
    large = manifest(
        *(passage(partition=at, windows=windows(5000)) for at in range(3)), rebuilt=hours
    )
    apart = _read(in_ledger(large, None, CONFIG))
    assert [entry["rebuilt"] for entry in apart] == [told, told, told]


def test_too_many_runs_come_before_their_passage() -> None:
    many = {f"source-{at:06}": ((at, at),) for at in range(3 * MOST_RUNS - 1)}
    run = in_ledger(manifest(passage(windows=windows(2), sources=many)), None, CONFIG)
    passages = [each for entry in _read(run) for each in entry["passages"]]
    assert [each["partition"] for each in passages] == [-1, -1, -1, 4]
    assert [len(each["runs"]) for each in passages] == [MOST_RUNS, MOST_RUNS, MOST_RUNS - 1, 0]
    assert {each["source"] for one in passages for each in one["runs"]} == set(many)
    assert all(not each["windows"] and not each["offsets"] for each in passages[:3])
    assert len(passages[3]["windows"]) == 2


@pytest.mark.not_quick("very many entries")
def test_too_many_windows_are_told_as_longer_ones() -> None:
    """A backlog of a year, in one run."""
    counted = windows(365 * 24 * 60)
    year = passage(windows=counted, late={5 * MINUTE: 1, 59 * MINUTE: 1})
    run = in_ledger(manifest(passage(0, 10, windows=windows(3)), year), None, CONFIG)
    short, long = _read(run)
    assert (short["window_millis"], long["window_millis"]) == (MINUTE, 2 * HOUR)
    found = long["passages"][0]["windows"]
    assert len(found) == 365 * 12 <= MOST_WINDOWS
    assert [each["start"] for each in found[:2]] == [0, 2 * HOUR]
    assert found[0]["events"] == 120
    assert found[0]["late"] == 2
    assert sum(each["crc_sum"] for each in found) == sum(each.crc_sum for each in counted)
    assert sum(each["bytes"] for each in found) == 100 * len(counted)


COUNTS = st.integers(0, 2**31)
WINDOWS = st.builds(
    LandedWindow,
    start=st.integers(-1000, 10**8).map(lambda at: at * MINUTE),
    rows=COUNTS,
    duplicates=COUNTS,
    dead=COUNTS,
    bytes=COUNTS,
    crc_sum=st.integers(0, 2**62),
)
PASSAGES = st.builds(
    lambda partition, counted, sources, first, count: passage(
        first, first + count, partition=partition, windows=tuple(counted), sources=sources
    ),
    st.integers(0, 200),
    st.lists(WINDOWS, max_size=5, unique_by=lambda each: each.start),
    st.dictionaries(
        st.text(min_size=1),
        st.lists(st.integers(0, 10**6).map(lambda at: (at, at + 3)), max_size=3),
    ),
    st.integers(0, 2**40),
    st.integers(0, 10**6),
)


@given(st.lists(PASSAGES, max_size=8))
def test_nothing_is_lost_on_the_way(passages: list[Passage]) -> None:
    run = in_ledger(manifest(*passages), None, CONFIG)
    found = _read(run)
    told = [each for each in passages if each.next_offset > each.first]
    said = [each for entry in found for each in entry["passages"]]
    assert len(found) == run.ledger_entries == entry_count(run)
    assert [entry["header"]["seq"] for entry in found] == [17 + at for at in range(len(found))]
    assert Counter(each["offsets"][0]["first"] for each in said) == Counter(
        each.first for each in told
    )
    for rows, key in (("rows", "events"), ("crc_sum", "crc_sum"), ("bytes", "bytes")):
        assert sum(window[key] for each in said for window in each["windows"]) == sum(
            getattr(window, rows) for each in told for window in each.windows
        )


@pytest.mark.not_quick("very many entries")
def test_a_large_fleet() -> None:
    """10,000 hosts with three sources each, over 200 partitions and a night: entries stay small."""
    passages = [
        passage(
            partition=at,
            windows=windows(12 * 60),
            sources={f"{at:03}-{source:028x}": ((0, 10**6),) for source in range(150)},
        )
        for at in range(200)
    ]
    run = in_ledger(manifest(*passages), None, CONFIG)
    sizes = [len(each) for each in _messages(run)]
    assert max(sizes) <= MOST_BYTES
    # How a manifest is divided is part of its format.
    assert len(sizes) == run.ledger_entries == 25


def test_passages_of_a_copy_name_its_origin() -> None:
    mark = f"dc1/clicks/{'A' * 22}"
    first, other = passage(), passage(partition=5)
    topic = first.topic
    told = in_ledger(manifest(first, other), None, CONFIG, {topic: mark})
    again = msgspec.json.decode(msgspec.json.encode(told), type=type(told))
    named = {"cluster": "dc1", "topic": "clicks", "topic_id": "A" * 22}
    origins = [each["origin"] for entry in _read(again) for each in entry["passages"]]
    assert origins == [named, named]
    (plain, *_) = _read(in_ledger(manifest(first), None, CONFIG))
    assert plain["passages"][0]["origin"] is None
