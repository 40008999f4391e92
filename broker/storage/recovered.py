"""What a log goes on with: made by recovery of what lies in its directory, or new."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from broker.storage import layout
from broker.storage.epochs import LeaderEpochs
from broker.storage.producers import ProducerStates
from broker.storage.segment import Segment


@dataclass(slots=True, kw_only=True)
class Recovered:
    """All that a log needs to go on. Everything in it is on disk."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: ProducerStates = field(default_factory=ProducerStates)
    snapshots: list[int] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    active_since_ms: float = inf


def nothing_yet(directory: Path, first: int, index_interval: int) -> Recovered:
    """A log in a directory that is there and empty: its first record will have that offset."""
    return Recovered(
        segments=[Segment.create(directory, first, index_interval)],
        epochs=LeaderEpochs(directory / layout.LEADER_EPOCHS),
        start_offset=first,
        end_offset=first,
        recovery_point=first,
    )
