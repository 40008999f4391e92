"""What a packer makes of what was cut from files: batches, accounts, and nothing missing."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.accounting.alterations import Alteration, Altered, AlteredText
from agent.accounting.cuts import Cut, DeadLine, Events
from agent.accounting.parcels import BatchKind, Outgoing, Parcel
from agent.accounting.runs import Excepted, Fate, Progress, Run, SourceId, WindowCount
from agent.configuration.config import BatchCompression, Batches
from agent.encoding.batches.packer import Packer
from agent.encoding.batches.plan import SourceHeader, TopicPlan
from client.producing.delivery import TopicPartition
from tests.agent.encoding.batches.cuts import NOW, START, events_of, lines, put, read

PLAN = TopicPlan("lines", 7, 8, "web-17", partition=2, partitions=4, dead_partition=1)
A = SourceHeader(SourceId("aaaa"), "/var/log/a.log", "shop")
B = SourceHeader(SourceId("bbbb"), "/var/log/b.log", "cart")
FILTERED = Excepted(Fate.FILTERED, 1, 4, "debug")


def closed(packer: Packer, now: int = NOW) -> Parcel:
    parcel = packer.close(now, count(1).__next__)
    assert packer.oldest is None
    assert packer.size == 0
    return parcel


def test_lines_of_several_files_share_a_batch_file_by_file() -> None:
    now = count(5)
    packer = Packer(PLAN, clock=lambda: float(next(now)))
    assert packer.oldest is None
    after_a = put(packer, A, lines(b"a0", b"a1"))
    put(packer, B, lines(b"b0"))
    assert after_a == Progress(6, 2, 0)
    assert put(packer, A, lines(b"a2", position=6), after_a) == Progress(9, 3, 0)
    assert packer.oldest == 5.0
    parcel = closed(packer, NOW + 3)
    (outgoing,) = parcel.batches
    assert outgoing.number == 1
    assert outgoing.batch.target == TopicPartition("lines", 2)
    assert outgoing.runs == (Run(A.id, 0, 3, 0, 9, 3), Run(B.id, 0, 1, 0, 3, 1))
    assert outgoing.windows == (WindowCount(NOW, 4),)
    assert outgoing.delays == (0, 0, 4)
    assert parcel.progress == {A.id: Progress(9, 3, 0), B.id: Progress(3, 1, 0)}
    events = list(events_of(parcel))
    assert [event["message"] for event in events] == ["a0", "a1", "a2", "b0"]
    assert [event["header"]["position"] for event in events] == [0, 3, 6, 0]
    assert events[3] == {
        "header": {
            "time": NOW,
            "host": "web-17",
            "app": "cart",
            "source": "bbbb",
            "seq": 0,
            "position": 0,
        },
        "path": "/var/log/b.log",
        "message": "b0",
    }


def test_what_was_altered_is_stated_once_for_each_file_kind_and_field() -> None:
    """In the parcel of its lines, between the times of the events that it is about; however these
    are spread."""
    packer = Packer(PLAN)
    spread = replace(A, partition_by="field:user", input="shop")
    replaced = Altered(Alteration.REPLACED, 1, 2)
    dropped = Altered(Alteration.DROPPED, 1, 1, "user")
    progress, end = START, 0
    for time, altered in ((NOW, (replaced,)), (NOW - 5, (replaced, dropped)), (NOW + 9, ())):
        keys = [b"%d" % at for at in range(40)]
        made, end = lines(*[b"x"] * 40, position=end, times=time, keys=keys)
        progress = put(packer, spread, (replace(made, altered=altered), end), progress)
    put(packer, B, (replace(lines(b"b")[0], altered=(replaced,)), 2))
    parcel = closed(packer)
    assert len(parcel.batches) > 2
    of_a = ("lines", "shop", A.id, "/var/log/a.log")
    of_b = ("lines", "", B.id, "/var/log/b.log")
    numbers = [each.number for each in parcel.altered]
    assert len({*numbers, *(each.number for each in parcel.batches)}) == 3 + len(parcel.batches)
    assert [replace(each, number=0) for each in parcel.altered] == [
        AlteredText(0, *of_a, Altered(Alteration.REPLACED, 2, 4), NOW - 5, NOW),
        AlteredText(0, *of_a, dropped, NOW - 5, NOW - 5),
        AlteredText(0, *of_b, replaced, NOW, NOW),
    ]
    put(packer, A, lines(b"x"))
    assert closed(packer).altered == []


def test_what_was_filtered_belongs_to_the_run_beside_it() -> None:
    packer = Packer(PLAN)
    progress = put(packer, A, (Cut(4, excepted=(FILTERED,)), 4))
    cut, end = lines(b"a0", position=8)
    cut = Cut(end - 4, cut.events, excepted=(FILTERED,), lines=1)
    progress = put(packer, A, (cut, end), progress)
    progress = put(packer, A, (Cut(4, excepted=(FILTERED,)), end + 4), progress)
    put(packer, B, (Cut(4, excepted=(FILTERED,)), 4))
    parcel = closed(packer)
    (outgoing,) = parcel.batches
    assert outgoing.runs == (Run(A.id, 0, 1, 0, 15, 1, (Excepted(Fate.FILTERED, 3, 12, "debug"),)),)
    (eventless,) = parcel.eventless
    assert eventless.run == Run(B.id, 0, 0, 0, 4, 0, (FILTERED,))
    assert parcel.progress == {A.id: Progress(15, 1), B.id: Progress(4)}


def test_nothing_added_is_nothing_held() -> None:
    packer = Packer(PLAN)
    assert put(packer, A, (Cut(0), 0)) == START
    assert packer.oldest is None
    parcel = closed(packer)
    assert (list(parcel.batches), list(parcel.eventless), parcel.progress) == ([], [], {})


def test_dead_letters_go_to_their_own_topic_with_seqs_of_their_own() -> None:
    packer = Packer(PLAN)
    dead = [DeadLine(0, 4, b"bad", "no JSON", NOW - 5), DeadLine(4, 9, b"bad2", "no JSON", NOW)]
    excepted = Excepted(Fate.DEAD_LETTERED, 2, 13, "no JSON")
    cut = Cut(13, dead=dead, excepted=(excepted,))
    assert put(packer, A, (cut, 13)) == Progress(13, 0, 2)
    parcel = closed(packer)
    (outgoing,) = parcel.batches
    assert outgoing.kind is BatchKind.DEAD_LETTERS
    assert outgoing.batch.target == TopicPartition("lines.dead", 1)
    assert outgoing.runs == (Run(A.id, 0, 2, 0, 13, 2),)
    first, second = events_of(parcel, BatchKind.DEAD_LETTERS)
    assert first == {
        "header": {
            "time": NOW - 5,
            "host": "web-17",
            "app": "shop",
            "source": "aaaa",
            "seq": 0,
            "position": 0,
        },
        "topic": "lines",
        "reason": "no JSON",
        "raw": b"bad",
        "offset": 0,
        "path": "/var/log/a.log",
        "size": 4,
    }
    assert (second["header"]["seq"], second["size"], second["offset"]) == (1, 9, 4)
    assert [each.run for each in parcel.eventless] == [Run(A.id, 0, 0, 0, 13, 0, (excepted,))]


def test_a_size_that_is_that_of_raw_is_not_said() -> None:
    packer = Packer(PLAN)
    put(packer, A, (Cut(3, dead=[DeadLine(0, 3, b"bad", "why", NOW)]), 3))
    (event,) = events_of(closed(packer), BatchKind.DEAD_LETTERS)
    assert event["size"] == -1


def test_a_full_packer_says_so() -> None:
    packer = Packer(TopicPlan("lines", 7, 8, "h", batches=Batches(bytes=1024)))
    progress = put(packer, A, lines(b"x" * 500))
    assert not packer.full
    put(packer, A, lines(b"x" * 500, position=501), progress)
    assert packer.full


def test_much_is_shared_out_evenly() -> None:
    packer = Packer(TopicPlan("lines", 7, 8, "h", batches=Batches(bytes=56 * 1024)))
    put(packer, A, lines(*[b"x" * 100] * 1000))
    parcel = closed(packer)
    assert [each.batch.records for each in parcel.batches] == [334, 334, 332]
    assert [each.number for each in parcel.batches] == [1, 2, 3]
    runs = [run for each in parcel.batches for run in each.runs]
    assert [(run.seq, run.events, run.lines) for run in runs] == [
        (0, 334, 334),
        (334, 334, 334),
        (668, 332, 332),
    ]
    assert [run.position for run in runs] == [0, 334 * 101, 668 * 101]
    assert [run.end_position for run in runs] == [334 * 101, 668 * 101, 101_000]


def test_a_batch_ends_with_its_window_once_it_is_not_small() -> None:
    packer = Packer(PLAN)
    times = [NOW + at * 100 for at in range(1000)]  # the window changes at 600
    put(packer, A, lines(*[b"x" * 300] * 1000, times=times))
    parcel = closed(packer)
    assert [each.windows for each in parcel.batches] == [
        (WindowCount(NOW, 600),),
        (WindowCount(NOW + 60_000, 400),),
    ]
    header = parcel.batches[1].batch.header
    assert (header.base_timestamp, header.max_timestamp) == (times[600], times[-1])


def test_one_window_is_one_batch_however_many_files_it_is_from() -> None:
    packer = Packer(PLAN)
    for source in (A, B, SourceHeader(SourceId("cccc"), "/c", "shop")):
        put(packer, source, lines(*[b"x" * 300] * 500, times=[NOW + at for at in range(500)]))
    (outgoing,) = closed(packer).batches
    assert outgoing.windows == (WindowCount(NOW, 1500),)


def test_a_small_batch_goes_on_in_the_next_window() -> None:
    packer = Packer(PLAN)
    put(packer, A, lines(*[b"x" * 30] * 10, times=[NOW + at * 12_000 for at in range(10)]))
    (outgoing,) = closed(packer).batches
    assert outgoing.windows == (WindowCount(NOW, 5), WindowCount(NOW + 60_000, 5))


@pytest.mark.not_quick("packs megabytes")
def test_times_that_jitter_make_batches_of_128_kib_at_least() -> None:
    chance = random.Random(1)
    packer = Packer(PLAN)
    times = [NOW + chance.randrange(-30_000, 30_000) for _ in range(5_000)]
    put(packer, A, lines(*[b"x" * 200] * 5_000, times=times))
    parcel = closed(packer)
    assert [event["header"]["time"] for event in events_of(parcel)] == times
    sizes = [sum(len(record.value or b"") for record, _ in read(each)) for each in parcel.batches]
    assert min(sizes[:-1]) > 120_000
    assert len(sizes) > 5


def test_lines_between_which_others_were_filtered_are_not_divided() -> None:
    packer = Packer(TopicPlan("lines", 7, 8, "h", batches=Batches(bytes=8 * 1024)))
    progress = START
    for at in range(10):
        cut, end = lines(*[b"x" * 100] * 20, position=at * 2024)
        made = Cut(2024, cut.events, excepted=(FILTERED,), lines=20), end + 4
        progress = put(packer, A, made, progress)
    parcel = closed(packer)
    runs = [run for each in parcel.batches for run in each.runs]
    assert [each.batch.records for each in parcel.batches] == [40] * 5
    for run in runs:
        assert run.end_position - run.position == run.events * 101 + run.excepted[0].bytes


def test_a_batch_goes_on_in_the_window_in_which_the_piece_before_ended() -> None:
    packer = Packer(PLAN)
    times = [NOW] * 500 + [NOW + 60_000] * 300
    progress = put(packer, A, lines(*[b"x" * 300] * 800, times=times))
    more = lines(*[b"x" * 300] * 300, times=NOW + 60_000, position=progress.position)
    put(packer, A, more, progress)
    assert [each.batch.records for each in closed(packer).batches] == [500, 600]


def test_bytes_before_the_first_line_are_in_its_run() -> None:
    packer = Packer(TopicPlan("lines", 7, 8, "h", batches=Batches(bytes=8 * 1024)))
    cut, end = lines(*[b"x" * 100] * 200, position=3)  # behind a byte order mark
    put(packer, A, (cut, end))
    runs = [run for each in closed(packer).batches for run in each.runs]
    assert runs[0].position == 0
    assert len(runs) > 2
    assert runs[0].end_position == runs[1].position == 3 + runs[0].events * 101


def test_every_delay_is_counted_with_its_power_of_two() -> None:
    delays = [0, -5, *(2**power + off for power in range(12) for off in (-1, 0, 1)), 2**40]
    packer = Packer(PLAN)
    put(packer, A, lines(*[b""] * len(delays), times=[NOW - delay for delay in delays]))
    (outgoing,) = closed(packer).batches
    expected = [sum(delay < 1 for delay in delays)]
    expected += [sum(2 ** (i - 1) <= delay < 2**i for delay in delays) for i in range(1, 42)]
    assert outgoing.delays == tuple(expected)
    near = [delay for delay in delays if 6 <= delay <= 65]
    put(packer, A, lines(*[b""] * len(near), times=[NOW - delay for delay in near]))
    (outgoing,) = closed(packer).batches
    assert outgoing.delays == (
        0,
        0,
        0,
        *(sum(2**i <= d < 2 ** (i + 1) for d in near) for i in range(2, 7)),
    )


def test_another_plan_and_another_source_make_other_events() -> None:
    packer = Packer(PLAN)
    made = lines(b"0")
    assert not packer.needs_dead_letters(A, made[0], START, made[1])
    put(packer, B, made)
    assert not packer.needs_dead_letters(A, made[0], START, made[1])
    put(packer, A, made, Progress(0, 5))
    first = [event["header"] for event in events_of(closed(packer))]
    assert [(each["source"], each["seq"]) for each in first] == [("bbbb", 0), ("aaaa", 5)]
    assert not packer.needs_dead_letters(A, made[0], START, made[1])
    packer.plan = replace(PLAN, host="db-1")
    put(packer, A, made)
    assert [event["header"]["host"] for event in events_of(closed(packer))] == ["db-1"]


def test_events_with_keys_are_placed_as_kafkas_clients_place_them() -> None:
    packer = Packer(PLAN)
    source = SourceHeader(A.id, A.path, A.app, "field:user")
    keys = [b"21", b"foobar", b"a-little-bit-long-string", b"21"]
    put(packer, source, lines(b"0", b"1", b"2", b"3", keys=keys))
    parcel = closed(packer)
    placed = {
        record.key: each.batch.target.partition
        for each in parcel.batches
        for record, _ in read(each)
    }
    # The hashes of Kafka's own test: -973932308, -790332482, -985981536.
    hashes = dict(zip(keys, [-973932308, -790332482, -985981536], strict=False))
    assert placed == {key: (hashed & 0x7FFFFFFF) % 4 for key, hashed in hashes.items()}
    assert [each.runs for each in parcel.batches] == [()] * len(parcel.batches)
    assert [each.run for each in parcel.eventless] == [Run(A.id, 0, 4, 0, 8, 4)]


def test_an_event_too_large_for_a_batch_is_a_dead_letter() -> None:
    noise = random.Random(1).randbytes(40_000).hex().encode()
    plan = TopicPlan("lines", 7, 8, "h", most_batch_bytes=30_000, most_dead_bytes=30_000)
    packer = Packer(plan)
    made, end = lines(b"0", noise, b"2")
    assert packer.needs_dead_letters(A, made, START, end)
    assert not packer.needs_dead_letters(A, lines(b"0")[0], START, 2)
    assert put(packer, A, (made, end)) == Progress(4 + 80_001, 2, 1)
    parcel = closed(packer)
    assert [event["message"] for event in events_of(parcel)] == ["0", "2"]
    (run,) = parcel.batches[0].runs
    gone = Excepted(Fate.DEAD_LETTERED, 1, 80_001, "too large for a batch")
    assert run == Run(A.id, 0, 2, 0, 80_005, 2, (gone,))
    (dead,) = events_of(parcel, BatchKind.DEAD_LETTERS)
    assert dead["reason"] == (
        "an event of 80,000 bytes is too large for lines: its batches may have 30,000 bytes"
    )
    assert (dead["offset"], dead["size"]) == (2, 80_001)
    assert noise.startswith(dead["raw"])
    assert 20_000 < len(dead["raw"]) < 30_000
    assert max(each.batch.size for each in parcel.batches) <= 30_000


def test_between_lines_that_are_excepted_nobody_knows_how_long_a_large_one_was() -> None:
    """An event of three lines, a filtered line somewhere, and times of their own."""
    noise = b"\n".join(random.Random(at).randbytes(20_000).hex().encode() for at in range(3))
    plan = TopicPlan("lines", 7, 8, "h", most_batch_bytes=30_000)
    packer = Packer(plan)
    cut, end = lines(b"0", noise, b"2", times=[NOW, NOW + 1, NOW + 2])
    put(packer, A, (Cut(end + 4, cut.events, excepted=(FILTERED,), lines=5), end + 4))
    parcel = closed(packer)
    (run,) = parcel.batches[0].runs
    gone = Excepted(Fate.DEAD_LETTERED, 3, -1, "too large for a batch")
    assert run == Run(A.id, 0, 2, 0, end + 4, 2, (FILTERED, gone))
    assert [event["header"]["time"] for event in events_of(parcel)] == [NOW, NOW + 2]
    (dead,) = events_of(parcel, BatchKind.DEAD_LETTERS)
    assert (dead["header"]["time"], dead["size"]) == (NOW + 1, len(noise))


def test_a_large_event_that_can_be_compressed_is_none() -> None:
    plan = TopicPlan("lines", 7, 8, "h", most_batch_bytes=30_000)
    packer = Packer(plan)
    put(packer, A, lines(b"x" * 80_000))
    assert [len(event["message"]) for event in events_of(closed(packer))] == [80_000]


@pytest.mark.parametrize("compression", BatchCompression)
def test_batches_that_cannot_be_compressed_are_halved(compression: BatchCompression) -> None:
    plan = TopicPlan(
        "lines", 7, 8, "h", most_batch_bytes=40_000, batches=Batches(compression=compression)
    )
    chance = random.Random(2)
    packer = Packer(plan)
    messages = [chance.randbytes(100).hex().encode() for _ in range(1000)]
    put(packer, A, lines(*messages))
    parcel = closed(packer)
    assert max(each.batch.size for each in parcel.batches) <= 40_000
    assert [event["message"].encode() for event in events_of(parcel)] == messages
    runs = [run for each in parcel.batches for run in each.runs]
    assert sum(run.events for run in runs) == 1000


def test_a_path_need_not_be_text() -> None:
    packer = Packer(PLAN)
    odd = SourceHeader(A.id, "/var/log/\udcff.log", "shop")
    cut, end = lines(b"x")
    put(packer, odd, (Cut(end, cut.events, [DeadLine(0, 1, b"", "why", NOW)], lines=1), end))
    parcel = closed(packer)
    for kind in (BatchKind.EVENTS, BatchKind.DEAD_LETTERS):
        assert [event["path"] for event in events_of(parcel, kind)] == ["/var/log/\ufffd.log"]


# Whatever is added in whatever order: every event once, in order, and every byte in one run

WINDOW = 1_000
SOURCES = [
    SourceHeader(SourceId(f"source-{place}"), f"/log/{place}", "app", partition_by)
    for place, partition_by in enumerate(["agent", "agent", "source", "random", "field:user"])
]


@dataclass
class Written:
    """What a source was cut into so far."""

    progress: Progress = START
    events: list[tuple[int, int, bytes]] = field(default_factory=list)  # time, position, message
    dead: list[tuple[int, int]] = field(default_factory=list)
    excepted: Counter[tuple[Fate, str]] = field(default_factory=Counter)
    lines: int = 0


def cut_of(draw: st.DrawFn, source: SourceHeader, written: Written) -> tuple[Cut, int]:
    """Lines of all kinds, after one another."""
    at = written.progress.position
    times: list[int] = []
    positions: list[int] = []
    bodies: list[bytes] = []
    dead: list[DeadLine] = []
    excepted: Counter[tuple[Fate, str]] = Counter()
    sizes: Counter[tuple[Fate, str]] = Counter()
    lines = 0
    kinds = draw(st.sampled_from(["e", "eeem", "eeefd", "f", "l"]))
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=draw(st.sampled_from([3, 60])))):
        size = draw(st.integers(1, 60))
        if kind in "em":
            bodies.append(b"x" * (size - 1))
            positions.append(at)
            times.append(NOW + draw(st.integers(-2 * WINDOW, 2 * WINDOW)))
            lines += 1 if kind == "e" else 3
        else:
            fate = {"f": Fate.FILTERED, "d": Fate.DEAD_LETTERED, "l": Fate.LOST}[kind]
            excepted[fate, "why"] += 1
            sizes[fate, "why"] += size
            if kind == "d":
                dead.append(DeadLine(at, size, b"y" * size, "why", NOW))
        at += size
    same = draw(st.booleans())
    if same:
        times = [NOW] * len(times)
    keys = [b"%d" % (len(body) % 3) for body in bodies]
    events = Events(
        NOW if same else times,
        positions,
        bodies,
        keys if source.partition_by.startswith("field") else None,
    )
    made = tuple(_excepted(excepted, sizes))
    written.events += zip(times, positions, bodies, strict=True)
    written.dead += [(each.position, each.size) for each in dead]
    written.excepted += excepted
    written.lines += lines
    consumed = at - written.progress.position
    return Cut(consumed, events if bodies else None, dead, made, lines), at


def _excepted(
    counts: Counter[tuple[Fate, str]], sizes: Counter[tuple[Fate, str]]
) -> Iterable[Excepted]:
    return [Excepted(fate, n, sizes[fate, why], why) for (fate, why), n in counts.items()]


plans = st.builds(
    TopicPlan,
    topic=st.just("lines"),
    schema_id=st.just(7),
    dead_schema_id=st.just(8),
    host=st.just("h"),
    partitions=st.just(3),
    partition=st.integers(0, 2),
    window_millis=st.just(WINDOW),
    batches=st.builds(
        Batches,
        bytes=st.sampled_from([1024, 4096, 1024 * 1024]),
        compression=st.sampled_from([BatchCompression.NONE, BatchCompression.ZSTD]),
    ),
    most_batch_bytes=st.sampled_from([700, 2000, 1_000_000]),
    most_dead_bytes=st.sampled_from([1500, 1_000_000]),
)


@settings(max_examples=settings().max_examples * 2 // 5)
@given(st.data())
def test_every_event_and_every_byte_has_its_place(data: st.DataObject) -> None:
    plan = data.draw(plans)
    packer, number = Packer(plan), count().__next__
    written = {source: Written() for source in SOURCES}
    account = Account()
    for _ in range(data.draw(st.integers(1, 4))):
        for source in data.draw(st.lists(st.sampled_from(SOURCES), max_size=5)):
            its = written[source]
            cut, end = data.draw(st.composite(cut_of)(source, its))
            its.progress = packer.add(source, cut, its.progress, end)
        parcel = packer.close(NOW, number)
        account.take(parcel, plan)
        for source in SOURCES:
            if source.id in parcel.progress:
                assert parcel.progress[source.id] == written[source].progress
    for source, its in written.items():
        account.check(source, its)


class Account:
    """What was found in parcels, added up."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.events: dict[str, dict[int, Any]] = {}
        self.dead: dict[str, list[Any]] = {}
        self.last: dict[tuple[str, int], int] = {}
        self.runs: dict[str, list[Run]] = {}

    def take(self, parcel: Parcel, plan: TopicPlan) -> None:
        for outgoing in parcel.batches:
            self.numbers.append(outgoing.number)
            self.batch(outgoing, plan)
        for eventless in parcel.eventless:
            assert eventless.topic == plan.topic
            self.numbers.append(eventless.number)
            self.runs.setdefault(eventless.run.source, []).append(eventless.run)
        assert self.numbers == sorted(set(self.numbers))

    def batch(self, outgoing: Outgoing, plan: TopicPlan) -> None:
        found = read(outgoing)
        times = [record.timestamp for record, _ in found]
        header = outgoing.batch.header
        assert (header.base_timestamp, header.max_timestamp) == (min(times), max(times))
        windows = Counter(time - time % WINDOW for time in times)
        assert {each.start: each.events for each in outgoing.windows} == windows
        assert [each.start for each in outgoing.windows] == sorted(windows)
        delays = Counter(max(NOW - time, 0).bit_length() for time in times)
        assert {bits: n for bits, n in enumerate(outgoing.delays) if n} == delays
        said = [
            (run.source, run.seq + place) for run in outgoing.runs for place in range(run.events)
        ]
        headers = [event["header"] for _, event in found]
        there = [(each["source"], each["seq"]) for each in headers]
        if outgoing.kind is BatchKind.DEAD_LETTERS:
            assert outgoing.batch.size <= plan.most_dead_bytes
            assert said == there
            for _, event in found:
                self.dead.setdefault(event["header"]["source"], []).append(event)
            return
        assert outgoing.batch.size <= plan.most_batch_bytes
        assert said == [each for each in there if each[0] != SOURCES[-1].id]
        for run in outgoing.runs:
            self.runs.setdefault(run.source, []).append(run)
        for record, event in found:
            source, seq = event["header"]["source"], event["header"]["seq"]
            where = source, outgoing.batch.target.partition
            assert self.last.get(where, -1) < seq
            self.last[where] = seq
            assert seq not in self.events.setdefault(source, {})
            self.events[source][seq] = record, event

    def check(self, source: SourceHeader, written: Written) -> None:
        events = self.events.get(source.id, {})
        assert sorted(events) == list(range(len(written.events)))
        for seq, (time, position, message) in enumerate(written.events):
            record, event = events[seq]
            assert (record.timestamp, event["header"]["position"]) == (time, position)
            assert event["message"].encode() == message
        dead = self.dead.get(source.id, [])
        assert [each["header"]["seq"] for each in dead] == list(range(len(written.dead)))
        assert [(each["offset"], len(each["raw"])) for each in dead] == written.dead
        self.check_runs(source, written)

    def check_runs(self, source: SourceHeader, written: Written) -> None:
        runs = sorted(self.runs.get(source.id, []), key=lambda run: (run.position, run.seq))
        position = seq = lines = 0
        excepted: Counter[tuple[Fate, str]] = Counter()
        for run in runs:
            assert (run.position, run.seq) == (position, seq)
            assert run.end_position > run.position
            position, seq = run.end_position, run.seq + run.events
            lines += run.lines
            fates = {each.fate for each in run.excepted}
            assert Fate.LOST not in fates or (len(fates), run.events) == (1, 0)
            for each in run.excepted:
                excepted[each.fate, each.reason] += each.count
            first = next((at for _, at, _ in written.events[run.seq : run.seq + 1]), None)
            if run.events:
                assert first is not None
                assert run.position <= first < run.end_position
        assert Progress(position, seq, len(written.dead)) == written.progress
        assert lines == written.lines
        assert excepted == written.excepted
