"""What takes the place of a refused batch: every event in its order, every byte accounted for."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.accounting.parcels import BatchKind, Outgoing
from agent.accounting.runs import Excepted, Fate, Run, SourceId, WindowCount
from agent.encoding.topic_schemas.values import TopicSchema
from agent.shipping.cures import Cure
from agent.shipping.dead_letters import RefusedLetters
from agent.shipping.ledger.entries import Draft, entry
from agent.shipping.rebuilding import TimeBounds, contents
from agent.shipping.replacements import (
    DeadLetterTopic,
    Replacement,
    Replacer,
    cut_delays,
    cut_runs,
    dead_lettered,
    window_counts,
)
from client.producing.delivery import Batch, TopicPartition
from ground.signatures.keys import SigningKey
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import DEAD_LETTER, LEDGER, built_in
from tests.agent.shipping.agent_side import (
    DEAD_ID,
    LEDGER_ID,
    WINDOW_MILLIS,
    Source,
    events_of,
    outgoing_of,
    schema_of,
)
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch

KEY = SigningKey.new()
NOW = 1_700_000_000_000
TARGET, DEAD = TopicPartition("t", 0), TopicPartition("t.dead", 2)
DAY = 86_400_000
BOUNDS = TimeBounds(before=DAY, after=60_000)


class Numbers:
    def __init__(self) -> None:
        self.last = 100

    def __call__(self) -> int:
        self.last += 1
        return self.last


def replacer(*, knows_dead_letters: bool = True) -> Replacer:
    schema = TopicSchema("t.dead", DEAD_ID, 1, built_in(DEAD_LETTER))
    return Replacer(
        Numbers(),
        RefusedLetters(lambda: SourceId("letters"), lambda source: f"/logs/{source}"),
        lambda topic: DeadLetterTopic(DEAD, schema) if knows_dead_letters else None,
        lambda size: None,
        KEY,
    )


def two_sources(codec: Codec = Codec.ZSTD) -> Outgoing:
    one, other = Source(SourceId("a"), "t", 50, 5), Source(SourceId("b"), "t")
    first = events_of(one, [f"a{at}" for at in range(5)], [NOW + 40_000 * at for at in range(5)])
    second = events_of(other, ["b0", "b1"], [NOW, NOW + 1])
    return outgoing_of(1, TARGET, [first, second], codec)


def cured(outgoing: Outgoing, cure: Cure, reason: str = "no") -> Replacement:
    found = replacer().replacement(outgoing, cure, reason, BOUNDS, NOW)
    assert found is not None
    return found


def values(*batches: Outgoing) -> list[bytes | None]:
    return [record.value for each in batches for record in contents(each.batch)]


def test_halves_have_the_same_events_and_bytes() -> None:
    whole = two_sources()
    halves = cured(whole, Cure.SPLIT).batches
    assert values(*halves) == values(whole)
    assert [each.number for each in halves] == [101, 102]
    assert [each.batch.records for each in halves] == [3, 4]
    for half in halves:
        assert sum(run.events for run in half.runs) == half.batch.records
        assert sum(window.events for window in half.windows) == half.batch.records
        assert [record.offset for record in contents(half.batch)] == list(range(half.batch.records))
    assert [(run.source, run.seq, run.position, run.end_position) for run in halves[0].runs] == [
        ("a", 5, 50, 59)
    ]
    assert [(run.source, run.seq, run.position, run.end_position) for run in halves[1].runs] == [
        ("a", 8, 59, 65),
        ("b", 0, 0, 6),
    ]
    assert [each.delays for each in halves] == [(3,), (4,)]
    starts = {window.start for each in halves for window in each.windows}
    assert starts == {window.start for window in whole.windows}


def ledger_batch(beats: int, covers: tuple[int, ...]) -> Outgoing:
    """An entry with so many heartbeats."""
    header = {"time": NOW, "host": "h", "app": "a", "source": "me", "seq": 7, "position": 0}
    beat = {"until": NOW, "lag_bytes": 0}
    draft = Draft({"heartbeats": [beat] * beats}, covers, 60_000)
    value = Encoder(built_in(LEDGER), LEDGER_ID).encode(entry(draft, header, cluster="c"))
    data = build_batch([Record(0, NOW, None, value)], leader_epoch=-1)
    return Outgoing(1, BatchKind.LEDGER, Batch(TARGET, data), covers=covers)


@pytest.mark.parametrize(("covers", "kept"), [((7, 8), ()), ((7,), (7,)), ((), ())])
def test_an_entry_that_is_too_large_keeps_its_number_and_says_nothing(
    covers: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    """What it covers is said again, unless it is a single statement."""
    (again,) = cured(ledger_batch(3, covers), Cure.SPLIT).batches
    assert again.covers == kept
    said = Decoder(schema_of).decode(values(again)[0] or b"")
    assert (said["header"]["seq"], said["heartbeats"]) == (7, [])
    assert replacer().replacement(again, Cure.SPLIT, "no", BOUNDS, NOW) is None
    assert replacer().replacement(ledger_batch(3, covers), Cure.DEAD_LETTER, "", BOUNDS, 0) is None


@pytest.mark.parametrize("cure", [Cure.SPLIT, Cure.DEAD_LETTER])
def test_a_single_event_becomes_a_dead_letter(cure: Cure) -> None:
    source = Source(SourceId("a"), "t", 50, 5)
    outgoing = outgoing_of(1, TARGET, [events_of(source, ["x" * 200_000], [NOW])])
    found = cured(outgoing, cure, "too large")
    (letter,) = found.batches
    assert (letter.kind, letter.batch.target) == (BatchKind.DEAD_LETTERS, DEAD)
    (value,) = values(letter)
    event = Decoder(schema_of).decode(value or b"")
    header = {"time": NOW, "host": "here", "app": "test", "source": "letters", "seq": 0}
    assert event["header"] == header | {"position": 50}
    assert event["topic"] == "t"
    assert event["reason"] == "too large (event 5 of source a)"
    assert event["raw"] == (values(outgoing)[0] or b"")[: 64 * 1024]
    assert (event["offset"], event["size"], event["path"]) == (50, 200_001, "/logs/a")
    (run,) = letter.runs
    assert (run.source, run.seq, run.events) == ("letters", 0, 1)
    (eventless,) = found.eventless
    assert (eventless.topic, eventless.run.seq, eventless.run.events) == ("t", 5, 0)
    (excepted,) = eventless.run.excepted
    assert (excepted.fate, excepted.count, excepted.bytes) == (Fate.DEAD_LETTERED, 1, 200_001)


def test_of_events_that_are_spread_over_partitions_no_batch_has_runs() -> None:
    source = Source(SourceId("a"), "t", 50, 5)
    whole = outgoing_of(1, TARGET, [events_of(source, ["x", "y"], [NOW, NOW])])
    halves = cured(replace(whole, runs=()), Cure.SPLIT).batches
    assert values(*halves) == values(whole)
    found = cured(halves[1], Cure.SPLIT)
    (eventless,) = found.eventless
    (excepted,) = eventless.run.excepted
    assert (eventless.run.seq, eventless.run.events) == (6, 0)
    assert eventless.run.position == eventless.run.end_position == 52
    assert (excepted.fate, excepted.count, excepted.bytes) == (Fate.DEAD_LETTERED, 1, 0)
    (run,) = found.batches[0].runs
    assert (run.events, run.position, run.end_position) == (1, 52, -1)


def test_letters_are_numbered_as_the_journal_takes_them() -> None:
    made = replacer()
    source = Source(SourceId("a"), "t")
    seqs = []
    for counted in (0, 1, 1):
        outgoing = outgoing_of(1, TARGET, [events_of(source, ["x"], [NOW])])
        found = made.replacement(outgoing, Cure.DEAD_LETTER, "no", BOUNDS, NOW)
        assert found is not None
        seqs.append(found.batches[0].runs[0].seq)
        made.letter_counted(counted)
    assert seqs == [0, 0, 1]


def test_without_a_place_for_dead_letters_nothing_is_done() -> None:
    source = Source(SourceId("a"), "t")
    outgoing = outgoing_of(1, TARGET, [events_of(source, ["x"], [NOW])])
    made = replacer(knows_dead_letters=False)
    assert made.replacement(outgoing, Cure.SPLIT, "no", BOUNDS, NOW) is None


def test_a_dead_letter_that_is_too_large_is_cut_until_nothing_is_left() -> None:
    source = Source(SourceId("a"), "t")
    outgoing = outgoing_of(1, TARGET, [events_of(source, ["x" * 5_000], [NOW])])
    (letter,) = cured(outgoing, Cure.SPLIT).batches
    sizes = []
    while found := replacer().replacement(letter, Cure.SPLIT, "no", BOUNDS, NOW):
        (letter,) = found.batches
        event = Decoder(schema_of).decode(values(letter)[0] or b"")
        assert event["size"] == 5_001
        sizes.append(len(event["raw"]))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 64
    assert replacer().replacement(letter, Cure.DEAD_LETTER, "no", BOUNDS, NOW) is None


def test_times_are_put_on_the_bound() -> None:
    source = Source(SourceId("a"), "t")
    times = [NOW - 2 * DAY, NOW, NOW + DAY]
    outgoing = outgoing_of(1, TARGET, [events_of(source, ["x", "y", "z"], times)])
    (again,) = cured(outgoing, Cure.CLAMP).batches
    assert values(again) == values(outgoing)  # and so the headers
    found = [record.timestamp for record in contents(again.batch)]
    assert found == [NOW - DAY + 60_000, NOW, NOW + 30_000]
    assert again.batch.header.base_timestamp == min(found)
    assert sum(window.events for window in again.windows) == 3
    assert {window.start for window in again.windows} == {
        time - time % WINDOW_MILLIS for time in found
    }


def test_bounds_that_the_broker_does_not_go_by_end_in_now() -> None:
    source = Source(SourceId("a"), "t")
    outgoing = outgoing_of(1, TARGET, [events_of(source, ["x", "y"], [NOW - 5, NOW])])
    (again,) = cured(outgoing, Cure.CLAMP).batches
    assert [record.timestamp for record in contents(again.batch)] == [NOW, NOW]
    assert replacer().replacement(again, Cure.CLAMP, "no", BOUNDS, NOW) is None


def test_plainer_codecs() -> None:
    outgoing = two_sources()
    for codec in (Codec.GZIP, Codec.NONE):
        found = cured(outgoing, Cure.REPACK)
        (outgoing,) = found.batches
        assert outgoing.batch.header.codec == codec
        assert values(outgoing) == values(two_sources())
        assert outgoing.runs == two_sources().runs
    assert replacer().replacement(outgoing, Cure.REPACK, "no", BOUNDS, NOW) is None
    assert replacer().replacement(outgoing, Cure.STAND, "no", BOUNDS, NOW) is None


def test_another_partition_gets_the_same() -> None:
    outgoing = two_sources()
    (moved,) = replacer().moved(outgoing, DEAD).batches
    assert moved.batch.target == DEAD
    assert moved.batch.data == outgoing.batch.data
    assert moved.runs == outgoing.runs


# Runs that are cut name the same events and the same bytes as before


@st.composite
def runs_and_places(draw: st.DrawFn) -> tuple[list[Run], list[int]]:
    """Runs of a batch, and where in its file each event starts."""
    runs, places = [], []
    for number in range(draw(st.integers(1, 4))):
        events = draw(st.integers(1, 5))
        start = draw(st.integers(0, 100))
        sizes = draw(st.lists(st.integers(1, 9), min_size=events, max_size=events))
        places += [start + sum(sizes[:at]) for at in range(events)]
        excepted = draw(st.sampled_from([(), (Excepted(Fate.FILTERED, 1, 1),)]))
        lines = events + draw(st.integers(0, 3))
        end = start + sum(sizes)
        runs.append(Run(SourceId(f"s{number}"), 10, events, start, end, lines, excepted))
    return runs, places


@given(runs_and_places(), st.data())
def test_parts_add_up(made: tuple[list[Run], list[int]], data: st.DataObject) -> None:
    runs, places = made
    cuts = data.draw(st.sets(st.integers(1, len(places) - 1))) if len(places) > 1 else set()
    bounds = [0, *sorted(cuts), len(places)]
    counts = [end - start for start, end in pairwise(bounds)]
    parts = list(cut_runs(runs, counts, [places[at] for at in bounds[:-1]]))
    assert [sum(run.events for run in part) for part in parts] == counts
    for run in runs:
        mine = [each for part in parts for each in part if each.source == run.source]
        assert mine[0].position == run.position
        assert mine[-1].end_position == run.end_position
        assert all(one.end_position == other.position for one, other in pairwise(mine))
        assert all(one.seq + one.events == other.seq for one, other in pairwise(mine))
        assert mine[0].seq == run.seq
        assert sum(each.lines for each in mine) == run.lines
        assert [each for part in mine for each in part.excepted] == list(run.excepted)
    firsts = [part[0].position for part in parts]
    assert firsts == [places[at] for at in bounds[:-1]]


def test_an_event_that_is_none_any_more() -> None:
    run = Run(SourceId("s"), 10, 1, 100, 150, 2, (Excepted(Fate.FILTERED, 1, 20),))
    dead = dead_lettered(run, "too large")
    assert (dead.seq, dead.events, dead.position, dead.end_position) == (10, 0, 100, 150)
    assert dead.excepted[-1] == Excepted(Fate.DEAD_LETTERED, 2, 30, "too large")


def test_windows() -> None:
    assert window_counts([65_000, 0, 59_999, 60_000, -1], 60_000) == (
        WindowCount(-60_000, 1),
        WindowCount(0, 2),
        WindowCount(60_000, 2),
    )


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=20), st.data())
def test_delays_are_those_of_the_events(times: list[int], data: st.DataObject) -> None:
    now = data.draw(st.integers(0, 1 << 21))
    cut = data.draw(st.integers(0, len(times)))
    parts = [times[:cut], times[cut:]]
    whole = delays_at(now, times)
    found = cut_delays(whole, parts)
    assert found == [delays_at(now, part) for part in parts]
    assert cut_delays((), parts) == [(), ()]


def delays_at(now: int, times: list[int]) -> tuple[int, ...]:
    """As the ledger has them: below 1 ms, below 2, below 4 and so on."""
    counts = [0] * 24
    for time in times:
        counts[max(0, now - time).bit_length()] += 1
    return tuple(counts)
