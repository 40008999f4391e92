"""What readers cut from files, for tests: and what is in a parcel, read back."""

from collections.abc import Iterator, Sequence
from typing import Any

from agent.accounting.cuts import Cut, Events
from agent.accounting.parcels import BatchKind, Outgoing, Parcel
from agent.accounting.runs import Progress
from agent.encoding.batches.packer import Packer
from agent.encoding.batches.plan import SourceHeader
from schemas.envelope import Decoder
from schemas.event_schemas import DEAD_LETTER, LOG_LINE, built_in
from wire.record_batches.records import Record, records

NOW = 1_795_132_800_000
START = Progress(0)
LINES_ID, DEAD_ID = 7, 8

_decoder = Decoder({LINES_ID: built_in(LOG_LINE), DEAD_ID: built_in(DEAD_LETTER)}.get)


def lines(
    *messages: bytes, position: int = 0, times: Sequence[int] | int = NOW, **more: Any
) -> tuple[Cut, int]:
    """What is cut from a file that has these lines from a position on, and where they end."""
    positions = [position]
    for message in messages:
        positions.append(positions[-1] + len(message) + 1)
    events = Events(
        times if isinstance(times, int) else list(times), positions[:-1], list(messages), **more
    )
    return Cut(positions[-1] - position, events, lines=len(messages)), positions[-1]


def put(
    packer: Packer, source: SourceHeader, made: tuple[Cut, int], progress: Progress = START
) -> Progress:
    return packer.add(source, made[0], progress, made[1])


def read(outgoing: Outgoing) -> list[tuple[Record, Any]]:
    """The records of a batch, with their events."""
    found = []
    for record in records(outgoing.batch.data):
        assert record.value is not None
        event = _decoder.decode(record.value)
        assert event["header"]["time"] == record.timestamp
        found.append((record, event))
    return found


def events_of(parcel: Parcel, kind: BatchKind = BatchKind.EVENTS) -> Iterator[Any]:
    """In the order in which they are sent."""
    for each in parcel.batches:
        if each.kind is kind:
            yield from (event for _, event in read(each))
