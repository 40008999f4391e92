"""What is known of one topic and a stretch of time, as values: what the store hands to those who
judge (audit/reconciling). Pure.

Times are milliseconds since 1970 UTC. Intervals are half-open pairs, ascending, and do not touch.
All that is said in several entries is summed or united already.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from ground.intervals import Intervals


class TierKind(StrEnum):
    """As the ledger names them, in the order in which events pass them. In the picture of a copy
    the brokers of its origin are a tier of their own, with their cluster as its destination."""

    AGENT = "agent"
    ORIGIN = "origin"
    MIRROR = "mirror"
    BROKER = "broker"
    HDFS = "hdfs"


class Tier(NamedTuple):
    """One of the places that events pass. Several roots of files are several tiers."""

    kind: TierKind
    destination: str = ""


class TopicKey(NamedTuple):
    """Which topic. One that was deleted and made again is another one."""

    cluster: str
    topic: str
    topic_id: str


class WindowSums(NamedTuple):
    """Of one window at one tier. With hdfs, what a rebuilt hour has replaced is not in it."""

    events: int = 0
    bytes: int = 0
    crc_sum: int = 0
    late: int = 0
    duplicates: int = 0  # dropped by the loader: the row was there already
    dead: int = 0  # dead-lettered by the loader


class Window(msgspec.Struct, frozen=True):
    """What lies in one window of event time. `filtered`, `dead`, `lost` are lines that an agent
    did not ship, by when it said so; -1 in `lost_events` if nobody can know how many. Of tiers that
    are `uncounted` the sums are too small, and nobody knows by how much: offsets alone tell."""

    start: int
    length: int
    sums: Mapping[Tier, WindowSums]
    filtered: int = 0
    dead: int = 0
    lost_events: int = 0
    lost_bytes: int = 0
    uncounted: frozenset[Tier] = frozenset()


class PartitionPicture(msgspec.Struct, frozen=True):
    """Which offsets each tier has spoken of. Where a log lost its end, what was said of that end is
    as if it were a partition of its own, with a number of its own: it is cut off, and nothing comes
    after it. `partition` is the one that it was."""

    number: int
    claimed: Mapping[Tier, Intervals]
    is_cut_off: bool = False
    partition: int = -1  # -1: the number
    reason: str = ""  # why it was cut off
    cut_time: int = -1  # when somebody said so first


class OffsetSpan(NamedTuple):
    """Offsets of a partition that one tier has spoken of and a later one has not, as far as is
    known: between `first` and `next_offset`, events of windows from `from_time` to `to_time`."""

    tier: Tier
    partition: int
    first: int
    next_offset: int
    from_time: int
    to_time: int
    events: int


class BatchPart(NamedTuple):
    """Part of one batch, as its agent spoke of it: which events of which file lie where."""

    source: str
    partition: int
    first: int  # offset
    seq: int
    events: int
    position: int  # -1: not known
    end_position: int
    from_time: int  # windows that these events may be in
    to_time: int
    partly: int = 0  # 1: these bytes are of more events than these


class LostBytes(NamedTuple):
    """Bytes of a file that were gone before they were read."""

    source: str
    seq: int  # of the next event after it
    position: int
    end_position: int
    lines: int  # -1: nobody knows
    bytes: int
    reason: str
    time: int  # when the agent said so


class Twice(NamedTuple):
    """Seqs that the agent has shipped, or a loader committed, more than once, and the windows of
    those that came again."""

    seq: int
    end_seq: int
    from_time: int
    to_time: int


class LandedFile(NamedTuple):
    """When a loader first spoke of a file, and the windows of all that it has landed of it."""

    said: int
    from_time: int
    to_time: int


class Copied(NamedTuple):
    """A run of a file that was shipped before as another source: as much of it as that one has."""

    original: str
    agent: str  # who shipped the original
    original_events: int  # all that it has
    seq: int
    end_seq: int
    position: int
    end_position: int
    from_time: int
    to_time: int
    since: int  # when the copy was first spoken of; -1: not known


class UnwatchedTime(NamedTuple):
    """A time in which nobody looked at a folder, or at the end of a file (with a source), although
    something happened there. `position`: up to which byte of the file all is known."""

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
    """Windows of which a tier has not said exactly as many events as it has spoken of offsets."""

    tier: Tier
    from_time: int
    to_time: int


class Source(msgspec.Struct, frozen=True):
    """One incarnation of a file, of which something is not as it should be, or not yet known to be.
    `shipped` and `landed` are seqs."""

    source: str
    agent: str
    host: str
    path: str
    shipped: Intervals
    landed: Mapping[Tier, Intervals]
    stretches: Sequence[BatchPart] = ()  # of what is shipped and has not landed
    lost: Sequence[LostBytes] = ()
    finished_events: int = -1  # how many it had in all, once that is known
    twice: Sequence[Twice] = ()
    landed_twice: Mapping[Tier, Sequence[Twice]] = {}
    copied: Sequence[Copied] = ()
    landings: Mapping[Tier, LandedFile] = {}
    events_at_last: int = -1  # as `finished_events`, as it was said the last time


class ExpectedAgent(msgspec.Struct, frozen=True):
    """Somebody who is expected to ship to the topic. `until` is up to when everything is
    acknowledged; 0 if nothing was promised yet. Of a host of the inventory that was never heard,
    `agent` is empty and `heard` 0."""

    agent: str
    host: str
    until: int
    heard: int
    required_until: int | None = None  # retired: nothing is expected from then on


class Hole(msgspec.Struct, frozen=True, order=True):
    """Entries of a journal that are missing, although later ones are there. `from_time` and
    `to_time` are of the entries around it."""

    journal: str
    tier: TierKind
    host: str
    seq: int
    count: int
    from_time: int
    to_time: int


class Disputed(msgspec.Struct, frozen=True):
    """Numbers of a journal under which two different entries exist. From `since` on, nothing
    that rests on the journal is proven."""

    journal: str
    tier: TierKind
    host: str
    seq: int
    count: int
    since: int


class FileFault(NamedTuple):
    """A landed file that is not as it was committed."""

    tier: Tier
    path: str
    hour: int
    fault: str  # missing, extra, changed, other
    committed_rows: int
    found_rows: int


class Placed(NamedTuple):
    """Offsets of a partition, and between which times events there happened, to the hour. `said` is
    when they were first spoken of."""

    partition: int
    first: int
    next_offset: int
    from_time: int
    to_time: int
    said: int


class AlteredBatch(msgspec.Struct, frozen=True, order=True):
    """A batch that can be read and is not what was written. Its times are of the hours in which
    events were said to lie at these offsets; if nobody did, of when the damage was found."""

    partition: int
    first: int
    count: int
    reason: str
    from_time: int = -1
    to_time: int = -1
    at: TierKind = TierKind.BROKER  # whose log it lies in


class UncountedLoss(NamedTuple):
    """What a log has lost before anybody had spoken of it: so many offsets from `first` on, or from
    there on nobody knows how many (-1). Between these times it was written, and lost."""

    partition: int
    first: int
    offsets: int
    reason: str
    from_time: int
    to_time: int


class Collided(NamedTuple):
    """Events that a loader made dead letters, as others, at `kept` and behind it, have their source
    and seqs and other content. `number` is of their partition in the picture; -1 in `kept`: the
    others are not in the log any more. Who claims the source is known from where agents speak of
    it."""

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
    agent: str
    host: str
    path: str


class Acceptance(NamedTuple):
    """A fault that an operator knows of. All given conditions must apply (ledger-entries.md)."""

    partition: int  # -1: any
    offsets: Intervals  # empty: any
    seqs: Mapping[str, Intervals]  # by source or journal; empty: any
    bytes: Mapping[str, Intervals]  # by source: where a run was given by its bytes
    host: str
    from_time: int | None
    to_time: int | None
    reason: str
    operator: str
    time: int  # when it was accepted
    kinds: frozenset[str] = frozenset()  # of tiers, where it shows; empty: any


class TopicPicture(msgspec.Struct, frozen=True):
    """One topic between two times. `windows` are those in which anything is known to have happened,
    ascending. `partitions`, `open`, `sources` are not cut to these times."""

    key: TopicKey
    from_time: int
    to_time: int
    now: int
    tiers: tuple[Tier, ...]  # that are expected of this topic: agent, broker, hdfs …, in this order
    windows: Sequence[Window]
    partitions: Sequence[PartitionPicture]
    open: Sequence[OffsetSpan]
    sources: Sequence[Source]
    agents: Sequence[ExpectedAgent]
    holes: Sequence[Hole] = ()
    disputed: Sequence[Disputed] = ()
    file_faults: Sequence[FileFault] = ()
    damaged: Sequence[AlteredBatch] = ()
    withdrawn: Sequence[UncountedLoss] = ()
    collided: Sequence[Collided] = ()  # of these times
    unwatched: Sequence[UnwatchedTime] = ()  # of these times
    inexact: Sequence[Inexact] = ()
    placed: Sequence[Placed] = ()  # of partitions with offsets that are lacking, damaged, accepted
    accepted: Sequence[Acceptance] = ()
    grace_millis: int = 60_000  # how long a statement may be under way
    names: Mapping[str, str] = {}  # hosts by journal
    renewed: frozenset[str] = frozenset()  # hosts of which several agents have shipped to it
    origin: TopicKey | None = None  # what it is a copy of
    unjoined: str = ""  # why what was said of the origin is not known, or does not tell

    @property
    def log(self) -> TierKind:
        """The brokers that agents ship to."""
        kinds = {tier.kind for tier in self.tiers}
        return TierKind.ORIGIN if TierKind.ORIGIN in kinds else TierKind.BROKER
