"""A pipeline of batches in which everything can go wrong, as lists of events: what each tier says
of it (a picture, as the store would put it together), and what is true of every event by name."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from audit.reconciling.picture import (
    BatchPart,
    ExpectedAgent,
    Hole,
    Inexact,
    OffsetSpan,
    PartitionPicture,
    Source,
    Tier,
    TierKind,
    TopicKey,
    TopicPicture,
    Window,
    WindowSums,
)
from ground.intervals import Interval, Intervals, merged, upto

AGENT = Tier(TierKind.AGENT)
BROKER = Tier(TierKind.BROKER)
HDFS = Tier(TierKind.HDFS, "hdfs:/data")
WINDOW = 60_000
NOW = 1_000 * WINDOW
PARTITIONS = 2
HOSTS = 3
FOREIGN = -1
_LINE = 10  # bytes


class Fate(Enum):
    """Of a batch."""

    FINE = "fine"
    DROPPED = "dropped"  # acknowledged, and gone from the log
    SKIPPED = "skipped"  # not read by the loader
    UNSTATED = "unstated"  # what its agent said of it is lost
    UNCOUNTED = "uncounted"  # what the broker said of it is lost
    FLIPPED = "flipped"  # the loader read other bytes


class Row(Enum):
    """What became of an event that the loader read."""

    LANDED = "landed"
    ABSENT = "absent"
    DOUBLED = "doubled"
    DEAD = "dead"


class Batch(NamedTuple):
    host: int
    partition: int
    windows: tuple[int, ...]  # one for each event
    rows: tuple[Row, ...]  # likewise
    fate: Fate


class Event(NamedTuple):
    """One event, and what tiers know of it."""

    host: int
    seq: int
    partition: int
    offset: int
    window: int
    row: Row


class Laid(msgspec.Struct):
    """A batch in its place."""

    batch: Batch
    first: int
    seq: int
    told: bool = True
    counted: bool = True
    loaded: bool = True

    @property
    def end(self) -> int:
        return self.first + len(self.batch.windows)

    @property
    def offsets(self) -> Interval:
        return (self.first, self.end)

    @property
    def crc(self) -> int:
        return 1_000 + self.first + self.batch.partition

    @property
    def times(self) -> tuple[int, int]:
        return min(self.batch.windows) * WINDOW, (max(self.batch.windows) + 1) * WINDOW

    def events(self) -> Iterator[Event]:
        for each, (window, row) in enumerate(zip(self.batch.windows, self.batch.rows, strict=True)):
            yield Event(
                self.batch.host,
                self.seq + each,
                self.batch.partition,
                self.first + each,
                window,
                row,
            )

    @property
    def stated(self) -> bool:
        """Whether anybody knows what its agent said."""
        return self.batch.host != FOREIGN and self.told and self.batch.fate is not Fate.UNSTATED

    @property
    def in_broker(self) -> bool:
        return self.counted and self.batch.fate not in {Fate.DROPPED, Fate.UNCOUNTED}

    @property
    def in_files(self) -> bool:
        return self.loaded and self.batch.fate not in {Fate.DROPPED, Fate.SKIPPED}


class Pipeline(msgspec.Struct):
    """`told`, `counted`, `loaded`: how many batches of each host or partition."""

    batches: Sequence[Batch]
    told: Sequence[int]
    counted: Sequence[int]
    loaded: Sequence[int]
    over_gaps: bool = False  # the loader claims what was deleted among what it read
    laid: list[Laid] = []

    def __post_init__(self) -> None:
        offsets: dict[int, int] = defaultdict(int)
        seqs: dict[int, int] = defaultdict(int)
        by_host: dict[int, int] = defaultdict(int)
        by_partition: dict[int, int] = defaultdict(int)
        for batch in self.batches:
            size = len(batch.windows)
            laid = Laid(batch, offsets[batch.partition], seqs[batch.host])
            offsets[batch.partition] += size
            seqs[batch.host] += size
            if batch.host != FOREIGN:
                laid.told = by_host[batch.host] < self.told[batch.host]
                by_host[batch.host] += 1
            laid.counted = by_partition[batch.partition] < self.counted[batch.partition]
            laid.loaded = by_partition[batch.partition] < self.loaded[batch.partition]
            by_partition[batch.partition] += 1
            self.laid.append(laid)

    def claimed(self, partition: int) -> Mapping[Tier, Intervals]:
        here = [each for each in self.laid if each.batch.partition == partition]
        files = merged(each.offsets for each in here if each.in_files)
        if self.over_gaps:
            gone = [each.offsets for each in here if each.batch.fate is Fate.DROPPED]
            files = merged([*files, *(each for each in gone if each[1] <= upto(files))])
        return {
            AGENT: merged(each.offsets for each in here if each.stated),
            BROKER: merged(each.offsets for each in here if each.in_broker),
            HDFS: files,
        }

    def picture(self) -> TopicPicture:
        return TopicPicture(
            key=TopicKey("local", "clicks", "id"),
            from_time=0,
            to_time=NOW,
            now=NOW + 10 * WINDOW,
            tiers=(AGENT, BROKER, HDFS),
            windows=self._windows(),
            partitions=[PartitionPicture(each, self.claimed(each)) for each in range(PARTITIONS)],
            open=list(self._spans()),
            sources=[self._source(host) for host in range(HOSTS)],
            agents=[self._agent(host) for host in range(HOSTS)],
            holes=list(self._holes()),
            inexact=list(self._inexact()),
        )

    def _inexact(self) -> Iterator[Inexact]:
        """Loaders' passages that do not say of each offset what became of it, just once."""
        for laid in self.laid:
            uneven = {Row.ABSENT, Row.DOUBLED} & set(laid.batch.rows)
            if laid.in_files and uneven:
                yield Inexact(HDFS, *laid.times)
            if self.over_gaps and laid.batch.fate is Fate.DROPPED:
                yield Inexact(HDFS, *laid.times)

    def _windows(self) -> list[Window]:
        sums: dict[int, dict[Tier, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0] * 6))
        for laid in self.laid:
            tiers = [(AGENT, laid.stated), (BROKER, laid.in_broker), (HDFS, laid.in_files)]
            for tier, is_there in tiers:
                if not is_there:
                    continue
                wrong = tier is HDFS and laid.batch.fate is Fate.FLIPPED
                base = sums[min(laid.batch.windows)][tier]
                base[2] += laid.crc + wrong
                for event in laid.events():
                    _count(sums[event.window][tier], event.row if tier is HDFS else Row.LANDED)
        return [
            Window(
                number * WINDOW, WINDOW, {tier: WindowSums(*each) for tier, each in tiers.items()}
            )
            for number, tiers in sorted(sums.items())
        ]

    def _spans(self) -> Iterator[OffsetSpan]:
        for laid in self.laid:
            claimed = self.claimed(laid.batch.partition)
            for tier, is_there, later in (
                (AGENT, laid.stated, (BROKER, HDFS)),
                (BROKER, laid.in_broker, (HDFS,)),
            ):
                if is_there and not all(_has(claimed[each], laid.first) for each in later):
                    yield OffsetSpan(
                        tier,
                        laid.batch.partition,
                        *laid.offsets,
                        *laid.times,
                        len(laid.batch.windows),
                    )

    def _source(self, host: int) -> Source:
        mine = [each for each in self.laid if each.batch.host == host]
        landed = [
            event.seq for each in mine if each.in_files for event in each.events() if _is_row(event)
        ]
        stretches = [
            BatchPart(
                f"s{host}",
                each.batch.partition,
                each.first,
                each.seq,
                each.end - each.first,
                each.seq * _LINE,
                (each.seq + each.end - each.first) * _LINE,
                *each.times,
            )
            for each in mine
            if each.stated and not all(event.seq in landed for event in each.events())
        ]
        return Source(
            source=f"s{host}",
            agent=f"agent-{host}",
            host=f"web-{host}",
            path=f"/var/log/{host}.log",
            shipped=merged(
                (each.seq, each.seq + each.end - each.first) for each in mine if each.stated
            ),
            landed={HDFS: merged((seq, seq + 1) for seq in landed)},
            stretches=stretches,
        )

    def _agent(self, host: int) -> ExpectedAgent:
        late = [each for each in self.laid if each.batch.host == host and not each.told]
        until = min((each.times[0] for each in late), default=NOW)
        return ExpectedAgent(f"agent-{host}", f"web-{host}", until, NOW)

    def _holes(self) -> Iterator[Hole]:
        for number, laid in enumerate(self.laid):
            lost = laid.batch.host != FOREIGN and laid.told and laid.batch.fate is Fate.UNSTATED
            if lost:
                host = laid.batch.host
                yield Hole(f"agent-{host}", TierKind.AGENT, f"web-{host}", number, 1, *laid.times)
        if any(each.counted and each.batch.fate is Fate.UNCOUNTED for each in self.laid):
            yield Hole("broker-1", TierKind.BROKER, "kafka-1", 7, 1, 0, NOW)


def _count(sums: list[int], row: Row) -> None:
    sums[0] += {Row.LANDED: 1, Row.DOUBLED: 2}.get(row, 0)
    sums[5] += row is Row.DEAD


def _is_row(event: Event) -> bool:
    return event.row in {Row.LANDED, Row.DOUBLED}


def _has(claimed: Intervals, offset: int) -> bool:
    return any(first <= offset < after for first, after in claimed)
