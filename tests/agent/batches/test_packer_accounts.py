"""Whatever is added in whatever order: every event once, in order, and every byte in one run.

Cuts of several sources, in several parcels: with times that jump, lines that are filtered, dead or
lost, events of several lines, keys; packed with any limits.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.batches.packer import Packer
from agent.batches.plan import SourceHeader, TopicPlan
from agent.config import BatchCompression, Batches
from agent.cuts import Cut, DeadLine, Events
from agent.parcels import BatchKind, Outgoing, Parcel
from agent.runs import Excepted, Fate, Progress, Run, SourceId
from tests.agent.batches.cuts import NOW, START, read

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
            assert Fate.LOST not in fates or len(fates) == 1
            for each in run.excepted:
                excepted[each.fate, each.reason] += each.count
            first = next((at for _, at, _ in written.events[run.seq : run.seq + 1]), None)
            if run.events:
                assert first is not None
                assert run.position <= first < run.end_position
        assert Progress(position, seq, len(written.dead)) == written.progress
        assert lines == written.lines
        assert excepted == written.excepted
