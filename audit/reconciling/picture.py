"""The picture of a topic in a period: the values that the store hands to audit/reconciling for
judgement. Pure.

Times are milliseconds since 1970 UTC. Intervals are half-open pairs, ascending, and do not touch.
What several entries report is already summed or united.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from ground.intervals import Intervals, covers, merged


class TierKind(StrEnum):
    """The kinds of tiers, named as in the ledger, in the order in which events pass them. In the
    picture of a copy, the brokers of its origin are a tier with their cluster as destination."""

    AGENT = "agent"
    ORIGIN = "origin"
    MIRROR = "mirror"
    BROKER = "broker"
    HDFS = "hdfs"


class Tier(NamedTuple):
    """A stage that events pass. Each root of files is a tier."""

    kind: TierKind
    destination: str = ""


class TopicKey(NamedTuple):
    """The identity of a topic. A topic that was deleted and created again is another topic."""

    cluster: str
    topic: str
    topic_id: str


class WindowSums(NamedTuple):
    """The sums of one window at one tier. The sums of files exclude what a rebuilt hour has
    replaced."""

    events: int = 0
    bytes: int = 0
    crc_sum: int = 0
    late: int = 0
    duplicates: int = 0  # dropped by the loader: the row was there already
    dead: int = 0  # dead-lettered by the loader


class Window(msgspec.Struct, frozen=True):
    """One window of event time. `filtered`, `dead` and `lost` count lines that agents did not ship,
    by the time of the report; `lost_events` is -1 if the number is unknown. The sums of `uncounted`
    tiers are too small by an unknown amount, so only offsets are compared."""

    start: int
    length: int
    sums: Mapping[Tier, WindowSums]
    filtered: int = 0
    dead: int = 0
    lost_events: int = 0
    lost_bytes: int = 0
    uncounted: frozenset[Tier] = frozenset()


class PartitionPicture(msgspec.Struct, frozen=True):
    """The offsets that each tier has claimed. A lost end of a log is a partition of its own: it is
    cut off, and nothing is appended to it. `partition` is the number of the partition from which it
    was cut off."""

    number: int
    claimed: Mapping[Tier, Intervals]
    is_cut_off: bool = False
    partition: int = -1  # -1: the same as `number`
    reason: str = ""  # why it was cut off
    cut_time: int = -1  # when that was first reported


class OffsetSpan(NamedTuple):
    """Offsets of a partition that are known to be claimed by one tier but not by a later one:
    between `first` and `next_offset`, with events of windows from `from_time` to `to_time`."""

    tier: Tier
    partition: int
    first: int
    next_offset: int
    from_time: int
    to_time: int
    events: int


class BatchPart(NamedTuple):
    """A part of a batch as its agent reported it: consecutive events of one file, by offset."""

    source: str
    partition: int
    first: int  # offset
    seq: int
    events: int
    position: int  # -1: unknown
    end_position: int
    from_time: int  # windows that these events may be in
    to_time: int
    partly: int = 0  # 1: the bytes contain other events, too


class LostBytes(NamedTuple):
    """Bytes of a file that were lost before they were read."""

    source: str
    seq: int  # of the next event after it
    position: int
    end_position: int
    lines: int  # -1: unknown
    bytes: int
    reason: str
    time: int  # when the agent reported it


class Twice(NamedTuple):
    """Sequence numbers that an agent shipped, or a loader committed, more than once, and the
    windows of the repetition."""

    seq: int
    end_seq: int
    from_time: int
    to_time: int


class LandedFile(NamedTuple):
    """A landed file: when a loader first reported it, and the windows of its events."""

    said: int
    from_time: int
    to_time: int


class Copied(NamedTuple):
    """A part of a file that was shipped earlier, as another source."""

    original: str
    agent: str  # that shipped the original
    original_events: int  # in all
    seq: int
    end_seq: int
    position: int
    end_position: int
    from_time: int
    to_time: int
    since: int  # when the copy was first reported; -1: unknown


class UnwatchedTime(NamedTuple):
    """A period in which no agent watched a folder, or the end of a file (with a source), although
    something happened there. `position`: the byte up to which the file is known."""

    host: str
    agent: str
    path: str
    source: str
    position: int
    from_time: int
    to_time: int
    traces: str
    reason: str


class Inexact(NamedTuple):
    """Windows in which a tier reported different numbers of events and of offsets."""

    tier: Tier
    from_time: int
    to_time: int


class Rebuilt(NamedTuple):
    """A period whose files at a tier were read again from the brokers."""

    tier: Tier
    from_time: int
    to_time: int


class Source(msgspec.Struct, frozen=True):
    """One incarnation of a file that is faulty, or not yet known to be complete. `shipped` and
    `landed` are sequence numbers."""

    source: str
    agent: str
    host: str
    path: str
    shipped: Intervals
    landed: Mapping[Tier, Intervals]
    stretches: Sequence[BatchPart] = ()  # shipped and not landed
    lost: Sequence[LostBytes] = ()
    finished_events: int = -1  # in all, once known
    twice: Sequence[Twice] = ()
    landed_twice: Mapping[Tier, Sequence[Twice]] = {}
    copied: Sequence[Copied] = ()
    landings: Mapping[Tier, LandedFile] = {}
    events_at_last: int = -1  # `finished_events` by the latest report


class ExpectedAgent(msgspec.Struct, frozen=True):
    """An agent that is expected to ship to the topic. Everything up to `until` is acknowledged;
    `until` is 0 before the first acknowledgement. For a host of the inventory that has never
    reported, `agent` is empty and `heard` is 0."""

    agent: str
    host: str
    until: int
    heard: int
    required_until: int | None = None  # if retired: nothing is expected from then on


class Hole(msgspec.Struct, frozen=True, order=True):
    """Missing entries in a journal that has later entries. `from_time` and `to_time` are the times
    of the entries before and after."""

    journal: str
    tier: TierKind
    host: str
    seq: int
    count: int
    from_time: int
    to_time: int


class Disputed(msgspec.Struct, frozen=True):
    """Numbers of a journal for which two different entries exist. From `since` on, nothing that
    depends on the journal is proven. With `until`, which is not -1 then, they are entries that the
    journal's signatures do not cover, and from that time on it is proven again."""

    journal: str
    tier: TierKind
    host: str
    seq: int
    count: int
    since: int
    until: int = -1
    begins_anew: bool = False  # the agent itself says that it does not know what precedes

    @property
    def is_altered(self) -> bool:
        return self.until >= 0


class FileFault(NamedTuple):
    """A landed file that differs from its commit."""

    tier: Tier
    path: str
    hour: int
    fault: str  # missing, extra, changed, other
    committed_rows: int
    found_rows: int


class Placed(NamedTuple):
    """Offsets of a partition and the times of their events, to the hour. `said` is when they were
    first claimed."""

    partition: int
    first: int
    next_offset: int
    from_time: int
    to_time: int
    said: int


class AlteredBatch(msgspec.Struct, frozen=True, order=True):
    """A batch that is readable, but differs from what was written. Its times are the hours of the
    events at these offsets or, if no tier reported any, the time at which the damage was found."""

    partition: int
    first: int
    count: int
    reason: str
    from_time: int = -1
    to_time: int = -1
    at: TierKind = TierKind.BROKER  # whose log it is in
    found: int = -1  # when that was first reported


class UncomparedOffsets(NamedTuple):
    """Offsets of which an agent has signed a digest, and that a loader has landed and not compared
    with it. `since`: both are known from then on. `loaded`: when its last run was committed."""

    tier: Tier
    number: int  # of the partition in the picture
    partition: int
    first: int
    next_offset: int
    since: int
    loaded: int
    from_time: int = -1
    to_time: int = -1


class UncountedLoss(NamedTuple):
    """A loss that a log suffered before any tier had claimed it: `offsets` from `first` on, or -1
    if the number is unknown. The events were written and lost between these times."""

    partition: int
    first: int
    offsets: int
    reason: str
    from_time: int
    to_time: int


class Collided(NamedTuple):
    """Events that a loader made dead letters, because other events, from offset `kept` on, have the
    same source and sequence numbers but other content. `number` is the number of their partition in
    the picture; `kept` is -1 if the others are no longer in the log. `said` is when the loader
    first reported it; `agent` is the agent that claims the source."""

    tier: Tier
    number: int
    partition: int
    first: int
    events: int
    source: str
    seq: int
    kept_partition: int
    kept: int
    from_time: int
    to_time: int
    said: int
    agent: str
    host: str
    path: str


class Acceptance(NamedTuple):
    """An operator's acceptance of faults. All given conditions must apply (ledger-entries.md)."""

    partition: int  # -1: any
    offsets: Intervals  # empty: any
    seqs: Mapping[str, Intervals]  # by source or journal; empty: any
    bytes: Mapping[str, Intervals]  # by source, for runs given by their bytes
    host: str
    from_time: int | None
    to_time: int | None
    reason: str
    operator: str
    time: int  # when it was accepted
    kinds: frozenset[str] = frozenset()  # of tiers; empty: any
    file: str = ""  # a landed file; empty: none


class TopicPicture(msgspec.Struct, frozen=True):
    """One topic in a period. `windows` has those with any known event, in ascending order.
    `partitions`, `open` and `sources` are not limited to the period."""

    key: TopicKey
    from_time: int
    to_time: int
    now: int
    tiers: tuple[Tier, ...]  # expected of this topic: agent, broker, hdfs …, in this order
    windows: Sequence[Window]
    partitions: Sequence[PartitionPicture]
    open: Sequence[OffsetSpan]
    sources: Sequence[Source]
    agents: Sequence[ExpectedAgent]
    holes: Sequence[Hole] = ()
    disputed: Sequence[Disputed] = ()
    file_faults: Sequence[FileFault] = ()
    damaged: Sequence[AlteredBatch] = ()
    uncompared: Sequence[UncomparedOffsets] = ()
    withdrawn: Sequence[UncountedLoss] = ()
    collided: Sequence[Collided] = ()  # of these times
    unwatched: Sequence[UnwatchedTime] = ()  # of these times
    inexact: Sequence[Inexact] = ()
    rebuilt: Sequence[Rebuilt] = ()
    placed: Sequence[Placed] = ()  # of partitions with lacking, damaged or accepted offsets
    accepted: Sequence[Acceptance] = ()
    grace_millis: int = 60_000  # how long a statement may be in transit
    names: Mapping[str, str] = {}  # hosts by journal
    renewed: frozenset[str] = frozenset()  # hosts with several agents that shipped to it
    origin: TopicKey | None = None  # the topic that this is a copy of
    unjoined: str = ""  # why the origin is unknown, or ambiguous

    def is_rebuilt(self, kind: str, destination: str, from_time: int, to_time: int) -> bool:
        """Whether all files of this period at a destination were read again from the brokers."""
        times = merged(
            (rebuilt.from_time, rebuilt.to_time)
            for rebuilt in self.rebuilt
            if rebuilt.tier == (kind, destination)
        )
        return covers(times, ((from_time, to_time),))

    @property
    def log(self) -> TierKind:
        """The tier of the brokers that agents ship to."""
        kinds = {tier.kind for tier in self.tiers}
        return TierKind.ORIGIN if TierKind.ORIGIN in kinds else TierKind.BROKER
