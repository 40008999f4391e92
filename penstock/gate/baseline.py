"""The state of a pipeline before a change: a file with which a gate compares the state after it.

    {"version": 1, "made": 1795158000000, "cluster": "…", "brokers": [1, 2, 3], "topics": 12,
     "audit": {"findings": […], "failing_loads": […], "silent": […]}, "remarks": {…}}

Faults that existed before do not fail the gate; parts that were not recorded do. The size that is
read is capped. The file contains no secrets.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from audit.reconciling.findings import Finding
from ground.files.durable_files import replace_file
from ground.known_types import known_type
from penstock.cli.failures import Failed, WrongConfiguration

VERSION: Final = 1
_MOST_BYTES: Final = 64 * 1024 * 1024

Span = tuple[int, int]
NOWHERE: Final[Span] = (-1, -1)


class KnownFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A known fault, identified by its subject and extent; the ends of spans are exclusive."""

    topic: str  # cluster/topic
    kind: str
    tier: str = ""
    destination: str = ""
    host: str = ""
    path: str = ""
    source: str = ""
    partition: int = -1
    offsets: Span = NOWHERE
    seqs: Span = NOWHERE
    positions: Span = NOWHERE
    times: Span = NOWHERE
    events: int = -1

    @classmethod
    def of(cls, topic: str, finding: Finding) -> "KnownFinding":
        return cls(
            topic=topic,
            kind=finding.kind.value,
            tier=finding.tier,
            destination=finding.destination,
            host=finding.host,
            path=finding.path,
            source=finding.source,
            partition=finding.partition,
            offsets=_span(finding.offset, finding.offsets),
            seqs=_span(finding.seq, finding.events),
            positions=_places(finding.position, finding.end_position),
            times=(finding.from_time, finding.to_time),
            events=finding.events,
        )

    @property
    def subject(self) -> tuple[str | int, ...]:
        """The part of a fault that stays the same while it grows."""
        return (
            *(self.topic, self.kind, self.tier, self.destination),
            *(self.host, self.path, self.source, self.partition),
        )

    def covers(self, other: "KnownFinding") -> bool:
        """Whether `other` is this fault or a part of it. A fault that has grown counts as a new
        one."""
        if self.subject != other.subject:
            return False
        places = list(zip(self._places(), other._places(), strict=True))
        if not all(_covers(own_place, other_place) for own_place, other_place in places):
            return False
        is_located = any(NOWHERE not in place for place in places)
        # Without positions, times and the number of events are compared.
        return is_located or (_covers(self.times, other.times) and other.events <= self.events)

    def _places(self) -> Iterator[Span]:
        yield from (self.offsets, self.seqs, self.positions)


def _places(first: int, end: int) -> Span:
    """The span; NOWHERE if its end is unknown."""
    return (first, end) if first >= 0 and end >= 0 else NOWHERE


def _span(first: int, count: int) -> Span:
    return (first, first + count) if first >= 0 and count >= 0 else NOWHERE


def _covers(own: Span, theirs: Span) -> bool:
    """Whether `theirs` is inside `own`; NOWHERE covers every span."""
    return own == NOWHERE or (theirs != NOWHERE and own[0] <= theirs[0] and theirs[1] <= own[1])


class AuditBefore(msgspec.Struct, frozen=True, kw_only=True):
    """The faults that were known to an audit before the change."""

    findings: Sequence[KnownFinding] = ()
    failing_loads: Sequence[tuple[str, str, str]] = ()  # cluster, topic, destination
    silent: Sequence[tuple[str, str, str]] = ()  # cluster, host, agent


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a pipeline before a change. `audit` and `remarks` (by address of a broker's
    page) are None if they were not recorded."""

    version: int = VERSION
    made: int
    cluster: str
    brokers: Sequence[int]
    topics: int
    audit: AuditBefore | None = None
    remarks: dict[str, list[str]] | None = None


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Writes the file atomically."""
    try:
        replace_file(path, msgspec.json.encode(baseline))
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None


def read_baseline(file: BinaryIO) -> Baseline:
    body = file.read(_MOST_BYTES + 1)
    try:
        if len(body) > _MOST_BYTES:
            raise msgspec.ValidationError(f"larger than {_MOST_BYTES} bytes")
        baseline = msgspec.json.decode(body, type=known_type(Baseline))
        if baseline.version != VERSION:
            raise msgspec.ValidationError(f"its version is {baseline.version}; expected {VERSION}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WrongConfiguration(
            f"{file.name} was not made by `penstock gate record`: {error}"
        ) from None
    return baseline
