"""The judge of agents can say no: to each kind of fault, in the log and in the ledger."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import pytest

from tests.system.agent.incarnations import (
    Incarnation,
    Violated,
    check_numbered,
    check_one_partition,
)
from tests.system.agent.ledger import Ledger
from tests.system.agent.shipped import Content, Event, Stored
from tests.system.agent.site import judge
from tests.system.agent.writer import Numbered
from wire.record_batches.batch import read_header
from wire.record_batches.records import Record, build_batch

HOST, TOPIC, TOPIC_ID, WINDOW = "web-1", "logs", "5QDhz2mVQt6JbSHYXm9lKg", 60_000
BEGAN = 1_700_000_040_000
Value = dict[str, Any]


class Line(NamedTuple):
    source: str
    seq: int
    position: int
    end_position: int
    time: int
    message: str


def lines_of(source: str, data: bytes, at: int) -> list[Line]:
    """What an agent makes of a file, one millisecond after the other."""
    found, position = [], 0
    for seq, raw in enumerate(data.splitlines(keepends=True)):
        end = position + len(raw)
        found.append(Line(source, seq, position, end, at + seq, raw.decode().removesuffix("\n")))
        position = end
    return found


def run_of(line: Line, events: int = 1, **more: object) -> Value:
    name = {"source": line.source, "path": "/logs/a.log", "seq": line.seq, "events": events}
    bytes_ = {"position": line.position, "end_position": line.end_position}
    return {**name, **bytes_, "lines": -1, "excepted": [], **more}


class Double:
    """An agent that has two files in three batches, as they should be, unless a test changes
    something; and what it says of them."""

    def __init__(self) -> None:
        self.files = [Incarnation("one"), Incarnation("two")]
        for file, count in zip(self.files, (6, 3), strict=True):
            for number in range(count):
                file.append(file.line(number, padding=number))
        self.one = lines_of("s1", bytes(self.files[0].data), BEGAN)
        self.two = lines_of("s2", bytes(self.files[1].data), BEGAN + 90_000)
        self.shipped = Content(TOPIC)
        header = {"source": f"agent-{HOST}", "seq": 0}
        self.said: Value = {"header": header, "version": 1, "tier": "agent", "cluster": "test"}
        self.said |= {"window_millis": WINDOW, "passages": [], "finished": [], "heartbeats": []}
        self._next = [0, 0]

    def ship(self, *batches: Sequence[Line], partition: int = 0) -> None:
        """Each with the statement about it."""
        for lines in batches:
            first = self._next[partition]
            made = [
                Record(first + at, line.time, None, line.message.encode())
                for at, line in enumerate(lines)
            ]
            data = build_batch(made, base_offset=first)
            header = read_header(data)
            self.shipped.batches.append(Stored(partition, header, sha256(data[21:]).digest()))
            for at, line in enumerate(lines):
                place = partition, first + at, line.time, None, line.time, HOST, TOPIC
                value = {"message": line.message}
                self.shipped.events.append(
                    Event(*place, line.source, line.seq, line.position, value)
                )
            self._next[partition] += len(lines)
            windows: dict[int, Value] = {}
            for line in lines:
                start = line.time // WINDOW * WINDOW
                windows.setdefault(start, {"start": start, "events": 0, "bytes": 0, "crc_sum": 0})
                windows[start]["events"] += 1
            windows[header.base_timestamp // WINDOW * WINDOW].update(
                bytes=header.size, crc_sum=header.crc
            )
            runs: list[Value] = []
            for line in lines:
                if runs and runs[-1]["source"] == line.source:
                    runs[-1]["events"] += 1
                    runs[-1]["end_position"] = line.end_position
                else:
                    runs.append(run_of(line))
            self.state(partition, [{"first": first, "count": len(lines)}], windows, runs)

    def state(
        self, partition: int, offsets: list[Value], windows: dict[int, Value], runs: list[Value]
    ) -> None:
        said = {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": partition, "offsets": offsets}
        delays = [sum(each["count"] for each in offsets)]
        said |= {"windows": list(windows.values()), "runs": runs, "delays": delays}
        digests = [
            batch.digest
            for stretch in offsets
            for batch in self.shipped.batches
            if batch.partition == partition
            and 0 <= batch.header.base_offset - stretch["first"] < stretch["count"]
        ]
        said["digest"] = sha256(b"".join(digests)).digest()[:16]
        self.said["passages"].append(said)

    def ship_all(self) -> None:
        self.ship(self.one[:2], self.one[2:] + self.two[:1], self.two[1:])

    def cut_the_last_line(self) -> list[Line]:
        """It becomes two."""
        last = self.two.pop()
        middle = last.position + 4
        return [
            last._replace(message=last.message[:4], end_position=middle),
            last._replace(message=last.message[4:], position=middle, seq=last.seq + 1),
        ]

    def judge(self) -> None:
        audit, header = Content("_audit"), self.said["header"]
        place = 0, 0, BEGAN, None, BEGAN, HOST, "agent"
        audit.events.append(Event(*place, header["source"], header["seq"], 0, self.said))
        judge(self.shipped, Ledger.of(audit, [HOST]), self.files, topic_id=TOPIC_ID)


def test_what_is_right() -> None:
    double = Double()
    double.ship_all()
    said = {"topic": TOPIC, "source": "s1", "path": "/logs/a", "events": 6}
    double.said["finished"].append({**said, "size": len(double.files[0].data)})
    double.judge()


def a_batch_twice(double: Double) -> None:
    double.ship(double.one[:2], double.one[:2], double.one[2:], double.two)


def a_source_in_two_partitions(double: Double) -> None:
    double.ship(double.one[:2], double.two)
    double.ship(double.one[2:], partition=1)


def a_changed_byte(double: Double) -> None:
    double.one[4] = double.one[4]._replace(message="one 4 xxxy")
    double.ship_all()


def a_line_nobody_wrote(double: Double) -> None:
    double.ship_all()
    double.ship([double.two[0]._replace(source="s3", message="three 0 ")])


def a_file_twice(double: Double) -> None:
    again = [line._replace(source="s3") for line in double.two]
    double.ship(double.one, double.two, again)


WRONG_LOGS: dict[str, tuple[Callable[[Double], None], str]] = {
    "a line is missing": (lambda d: d.ship(d.one, d.two[:2]), r"two ends at \d+ of"),
    "a line in between is missing": (
        lambda d: d.ship(d.one, [d.two[0], d.two[2]._replace(seq=1)]),
        "not 'two 0 '",
    ),
    "a file is missing": (lambda d: d.ship(d.one), "two: nothing of"),
    "a batch is there twice": (a_batch_twice, "seq 0 where 2 belongs"),
    "a file is there twice": (a_file_twice, "two was shipped before, as another source"),
    "disorder": (lambda d: d.ship(d.two, d.one[2:], d.one[:2]), "seq 2 where 0 belongs"),
    "two partitions": (a_source_in_two_partitions, "before it was in partition 0"),
    "a changed byte": (a_changed_byte, "not 'one 4 xxxy'"),
    "a line in two pieces": (
        lambda d: d.ship(d.one, d.two[:2] + d.cut_the_last_line()),
        "ends within a line",
    ),
    "a line nobody wrote": (a_line_nobody_wrote, "nobody wrote 'three 0 '"),
}


@pytest.mark.parametrize("fault", WRONG_LOGS)
def test_a_log_that_is_wrong(fault: str) -> None:
    spoil, complaint = WRONG_LOGS[fault]
    double = Double()
    spoil(double)
    with pytest.raises(Violated, match=complaint):
        double.judge()


def test_a_line_in_two_pieces_where_its_end_came_late() -> None:
    double = Double()
    pieces = double.cut_the_last_line()
    double.files[1].cuts.add(pieces[1].position)
    double.ship(double.one, double.two + pieces)
    double.judge()


def test_lost_bytes_that_the_ledger_names() -> None:
    """Only where they may be lost, and not if they are shipped after all."""
    double = Double()
    left = {"fate": "lost", "count": 1, "bytes": 8, "reason": "truncated"}
    double.ship(double.one, double.two[:2])
    double.state(-1, [], {}, [run_of(double.two[2], events=0, excepted=[left])])
    double.files[1].safe = double.two[1].position
    double.judge()
    double.files[1].safe = double.two[2].end_position
    with pytest.raises(Violated, match="two ends at"):
        double.judge()


WRONG_LEDGERS: dict[str, tuple[Callable[[Value], object], str]] = {
    "crc": (lambda v: v["passages"][0]["windows"][0].update(crc_sum=1), "the windows are"),
    "digest": (lambda v: v["passages"][0].update(digest=b"x" * 16), "have another digest"),
    "no digest": (lambda v: v["passages"][0].update(digest=b""), "have another digest"),
    "bytes": (lambda v: v["passages"][1]["windows"][0].update(bytes=1), "the windows are"),
    "window": (lambda v: v["passages"][2]["windows"][0].update(start=0), "the windows are"),
    "a passage less": (lambda v: v["passages"].pop(1), "offsets not in the ledger"),
    "a passage twice": (
        lambda v: v["passages"].append(v["passages"][0]),
        "counts 2 offsets twice",
    ),
    "too far": (lambda v: v["passages"][2]["offsets"][0].update(count=3), "that are not there"),
    "runs in disorder": (lambda v: v["passages"][1]["runs"].reverse(), "the runs say"),
    "skipped bytes": (
        lambda v: v["passages"][0]["runs"][0].update(end_position=9),
        "the one before ends at",
    ),
    "no runs": (lambda v: v["passages"][1]["runs"].clear(), "s1: 6 events, 2 in the ledger"),
    "another topic": (lambda v: v["passages"][1].update(topic_id="A" * 22), "its id is"),
    "too few delays": (lambda v: v["passages"][1].update(delays=[1]), "1 delays of 5 events"),
    "a wrong end": (
        lambda v: v["finished"].append({"topic": TOPIC, "source": "s1", "events": 5, "size": 60}),
        "finished with",
    ),
    "a skipped entry": (lambda v: v["header"].update(seq=1), "entry 1 where 0 belongs"),
    "another cluster": (lambda v: v.update(cluster="elsewhere"), "an entry of"),
}


@pytest.mark.parametrize("fault", WRONG_LEDGERS)
def test_a_ledger_that_is_wrong(fault: str) -> None:
    tamper, complaint = WRONG_LEDGERS[fault]
    double = Double()
    double.ship_all()
    tamper(double.said)
    with pytest.raises(Violated, match=complaint):
        double.judge()


NUMBERED = Numbered("w", 20)


@pytest.mark.parametrize(
    ("sources", "complaint"),
    [
        ([[0, 1, 2], [3, 4]], ""),
        ([[3, 4], [0, 1, 2]], ""),
        ([[0, 1], [3, 4]], r"1 of 5 are missing: \[2\]"),
        ([[0, 1, 3], [2, 4]], "line 3 after 1"),
        ([[0, 1, 2], [2, 3, 4]], r"1 lines are there twice: \[2\]"),
        ([[0, 1, 2, 3, 4, 5]], "line 5 was never written"),
    ],
)
def test_numbered_lines(sources: list[list[int]], complaint: str) -> None:
    double = Double()
    for at, numbers in enumerate(sources):
        data = "".join(f"{NUMBERED.line(number)}\n" for number in numbers).encode()
        double.ship(lines_of(f"s{at}", data, BEGAN))
    events = double.shipped.events
    check_one_partition(events)
    if not complaint:
        check_numbered(events, NUMBERED, 5)
        return
    with pytest.raises(Violated, match=complaint):
        check_numbered(events, NUMBERED, 5)
