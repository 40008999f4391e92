"""What a packer makes of what was cut from files: batches, accounts, and nothing missing."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from agent.batches.packer import Packer
from agent.batches.plan import SourceHeader, TopicPlan
from agent.events.cuts import Cut, Events
from agent.parcels import Cargo, Parcel
from agent.runs import Progress, Run, SourceId, WindowCount
from client.delivery import TopicPartition
from schemas.envelope import Decoder
from schemas.event_schemas import DEAD_LETTER, LOG_LINE, built_in
from wire.records import records

NOW = 1_795_132_800_000
PLAN = TopicPlan("lines", 7, 8, "web-17", partition=2, partitions=4, dead_partition=1)
A = SourceHeader(SourceId("aaaa"), "/var/log/a.log", "shop")
B = SourceHeader(SourceId("bbbb"), "/var/log/b.log", "cart")
START = Progress(0)


def events_of(parcel: Parcel, cargo: Cargo = Cargo.EVENTS) -> Iterator[tuple[int, Any]]:
    """Partition and event of all records in a parcel."""
    decoder = Decoder({7: built_in(LOG_LINE), 8: built_in(DEAD_LETTER)}.get)
    for each in parcel.batches:
        if each.cargo is cargo:
            for record in records(each.batch.data):
                assert record.value is not None
                event = decoder.decode(record.value)
                assert event["header"]["time"] == record.timestamp
                yield each.batch.target.partition, event


def lines(
    *messages: bytes, position: int = 0, times: Sequence[int] | int = NOW, **more: Any
) -> tuple[Cut, int]:
    """What is cut from a file that has these lines from a position on, and where they end."""
    positions = [position]
    for message in messages:
        positions.append(positions[-1] + len(message) + 1)
    times = times if isinstance(times, int) else list(times)
    events = Events(times, positions[:-1], list(messages), **more)
    return Cut(positions[-1] - position, events, lines=len(messages)), positions[-1]


def closed(packer: Packer, now: int = NOW) -> Parcel:
    parcel = packer.close(now, count(1).__next__)
    assert packer.oldest is None
    assert packer.size == 0
    return parcel


def test_lines_of_several_files_share_a_batch_file_by_file() -> None:
    now = count(5)
    packer = Packer(PLAN, clock=lambda: float(next(now)))
    assert packer.oldest is None
    after_a = packer.add(A, *added(lines(b"a0", b"a1"), Progress(0)))
    packer.add(B, *added(lines(b"b0"), Progress(0)))
    assert after_a == Progress(6, 2, 0)
    assert packer.add(A, *added(lines(b"a2", position=6), after_a)) == Progress(9, 3, 0)
    assert packer.oldest == 5.0
    parcel = closed(packer, NOW + 3)
    (outgoing,) = parcel.batches
    assert outgoing.number == 1
    assert outgoing.batch.target == TopicPartition("lines", 2)
    assert outgoing.runs == (Run(A.id, 0, 3, 0, 9, 3), Run(B.id, 0, 1, 0, 3, 1))
    assert outgoing.windows == (WindowCount(NOW, 4),)
    assert outgoing.delays == (0, 0, 4)
    assert parcel.progress == {A.id: Progress(9, 3, 0), B.id: Progress(3, 1, 0)}
    events = [event for _, event in events_of(parcel)]
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


def added(made: tuple[Cut, int], progress: Progress) -> tuple[Cut, Progress, int]:
    return made[0], progress, made[1]
