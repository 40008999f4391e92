"""Ships as an agent should, or with one fault: what judges of agents are tried on.

Made with `client` alone, so that the judge is right or wrong for itself: files are read as a whole,
cut into lines, sent in batches as asked, and entered in the ledger.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from client.batch_producer import BatchProducer
from client.brokers import Brokers
from client.delivery import Acknowledged, Batch, TopicPartition
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, LOG_LINE, built_in
from schemas.registry_client import RegistryClient
from tests.system.agent.ledger import printed
from wire.batch import read_header
from wire.records import Record, build_batch

WINDOW = 60_000
Value = dict[str, Any]


class Line(msgspec.Struct):
    source: str
    seq: int
    position: int
    end_position: int
    time: int
    message: str
    path: str = "/logs/a.log"


def lines_of(source: str, data: bytes, at: int) -> list[Line]:
    """What an agent makes of a file, one millisecond after the other."""
    found, position = [], 0
    for seq, raw in enumerate(data.splitlines(keepends=True)):
        text = raw.decode(errors="replace").removesuffix("\n")
        found.append(Line(source, seq, position, position + len(raw), at + seq, text))
        position += len(raw)
    return found


class Double(msgspec.Struct):
    """One host's agent; `tamper` changes an entry of the ledger before it is written."""

    brokers: Brokers
    registry: RegistryClient
    topic: str
    host: str
    tamper: Callable[[Value], None] = lambda value: None
    statements: list[Value] = []
    finished: list[Value] = []
    entries: int = 0

    def ship(self, lines: Sequence[Line], *, partition: int = 0) -> None:
        """One batch, and the statement about it."""
        schema = built_in(LOG_LINE)
        encoder = Encoder(schema, self.registry.register(f"{self.topic}-value", schema.text))
        values = [encoder.encode(self._log_line(line)) for line in lines]
        data, offset = self._publish(self.topic, partition, [line.time for line in lines], values)
        self.statements.append(self._passage(lines, partition, offset, data))

    def except_(self, run: Value) -> None:
        """A run without events."""
        self.statements.append(self._passage_of(-1, [], [], [run], []))

    def speak(self) -> None:
        """All statements in one entry of the ledger."""
        schema = built_in(LEDGER)
        encoder = Encoder(schema, self.registry.register("_audit-value", schema.text))
        now = time.time_ns() // 1_000_000
        value: Value = {
            "header": self._header(now, f"agent-{self.host}", self.entries, 0),
            "version": 1,
            "tier": "agent",
            "cluster": "test",
            "destination": "",
            "run": -1,
            "window_millis": WINDOW,
            "passages": self.statements,
            "rebuilt": [],
            "finished": self.finished,
            "heartbeats": [],
            "retired": [],
            "accepted": [],
        }
        self.entries += 1
        self.statements, self.finished = [], []
        self.tamper(value)
        self._publish("_audit", 0, [now], [encoder.encode(value)])

    def _log_line(self, line: Line) -> Value:
        header = self._header(line.time, line.source, line.seq, line.position)
        return {"header": header, "path": line.path, "message": line.message}

    def _header(self, at: int, source: str, seq: int, position: int) -> Value:
        return {
            "time": at,
            "host": self.host,
            "app": self.topic,
            "source": source,
            "seq": seq,
            "position": position,
        }

    def _publish(
        self, topic: str, partition: int, times: Sequence[int], values: Sequence[bytes]
    ) -> tuple[bytes, int]:
        records = [
            Record(at, when, None, value)
            for at, (when, value) in enumerate(zip(times, values, strict=True))
        ]
        batch = Batch(TopicPartition(topic, partition), build_batch(records, leader_epoch=-1))
        sent: list[bytes] = []
        with BatchProducer(
            self.brokers.bootstrap, journal=lambda found: sent.extend(each.data for each in found)
        ) as producer:
            assert producer.submit(batch)
            while True:
                producer.pump(1.0)
                for event in producer.collect():
                    assert isinstance(event, Acknowledged)
                    assert event.base_offset is not None
                    return sent[0], event.base_offset

    def _passage(self, lines: Sequence[Line], partition: int, offset: int, data: bytes) -> Value:
        header = read_header(data)
        windows: dict[int, Value] = {}
        for line in lines:
            start = line.time // WINDOW * WINDOW
            window = windows.setdefault(
                start,
                {"start": start, "events": 0, "bytes": 0, "crc_sum": 0, "late": 0, "excepted": []},
            )
            window["events"] += 1
        first = windows[header.base_timestamp // WINDOW * WINDOW]
        first["bytes"], first["crc_sum"] = header.size, header.crc
        runs: list[Value] = []
        for line in lines:
            if runs and runs[-1]["source"] == line.source:
                runs[-1]["events"] += 1
                runs[-1]["end_position"] = line.end_position
            else:
                runs.append(run_of(line.source, line.seq, 1, line.position, line.end_position))
        stretches = [{"first": offset, "count": len(lines)}]
        return self._passage_of(partition, stretches, list(windows.values()), runs, [len(lines)])

    def _passage_of(
        self,
        partition: int,
        offsets: list[Value],
        windows: list[Value],
        runs: list[Value],
        delays: list[int],
    ) -> Value:
        return {
            "topic": self.topic,
            "topic_id": printed(self.brokers.topic(self.topic).id),
            "partition": partition,
            "leader_epoch": -1,
            "offsets": offsets,
            "no_events": 0,
            "windows": windows,
            "runs": runs,
            "delays": delays,
            "origin": None,
        }


def run_of(source: str, seq: int, events: int, position: int, end: int) -> Value:
    return {
        "source": source,
        "path": "/logs/a.log",
        "seq": seq,
        "events": events,
        "position": position,
        "end_position": end,
        "lines": -1,
        "excepted": [],
    }


def moved(line: Line, **changes: Any) -> Line:
    return replace(line, **changes)
