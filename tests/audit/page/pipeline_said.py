"""What the tiers of a small pipeline have said in `_audit`, so that a page has something to show.

A topic has one partition and one file of 1,000 events, ten bytes each, ten to a window. What a
fault takes away is left out of what the brokers, or the files, speak of.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

WINDOW: Final = 60_000
PER_WINDOW: Final = 10
EVENT_BYTES: Final = 10
DESTINATION: Final = "hdfs://namenode:8020/logs"

Entry = dict[str, Any]
GIB: Final = 2**30
ROOMY: Final = {"label": "/var/lib/penstock/agent", "free": 40 * GIB, "total": 100 * GIB}


def health(started: int, **more: object) -> Entry:
    """A statement of health."""
    return {"started": started, "program_version": "0.1.0", "interval_millis": WINDOW, **more}


def mirror_said(time: int, host: str) -> Entry:
    """All that a mirror has ever said."""
    header = {"time": time, "host": host, "app": "penstock-mirror", "source": "mirror-1"}
    return {
        "header": {**header, "seq": 0, "position": 0},
        "version": 1,
        "tier": "mirror",
        "cluster": "test",
        "window_millis": WINDOW,
        "health": [health(time, name="dc1-to-dc2", disks=[ROOMY])],
    }


class Said(NamedTuple):
    """Of one topic. `missing` are events, from one to before another, that brokers lack."""

    topic: str
    host: str
    path: str
    began: int  # a multiple of WINDOW
    events: int = 1_000
    missing: tuple[int, int] = (0, 0)
    until: int = 0  # of the agent's heartbeat
    topic_id: str = ""
    disk: Mapping[str, object] = ROOMY  # of the agent

    def entries(self) -> list[Entry]:
        journal = self.topic
        gone = range(*self.missing)
        there = [each for each in range(self.events) if each not in gone]
        agent = self._entry("agent", f"agent-{journal}", self._passage(range(self.events)))
        agent["passages"][0]["runs"] = [self._run(*each) for each in self._batches()]
        beat = {"until": self.until, "topics": [self.topic], "lag_bytes": 0}
        agent["heartbeats"] = [beat | {"program_version": "0.1.0"}]
        agent["health"] = [health(self.began, disks=[self.disk])]
        files = self._entry("hdfs", f"loader-{journal}", self._passage(there))
        files["passages"][0]["runs"] = [self._run(*each) for each in _stretches(there)]
        files |= {"destination": DESTINATION, "run": 1}
        return [agent, self._entry("broker", f"broker-{journal}", self._passage(there)), files]

    def _entry(self, tier: str, journal: str, passage: Entry) -> Entry:
        app = {"agent": "penstock-agent", "broker": "penstock-broker", "hdfs": "penstock-loader"}
        time = self.began + self.events // PER_WINDOW * WINDOW
        header = {
            "time": time,
            "host": self.host if tier == "agent" else f"{tier}-1",
            "app": app[tier],
            "source": journal,
            "seq": 0,
            "position": 0,
        }
        return {
            "header": header,
            "version": 1,
            "tier": tier,
            "cluster": "test",
            "window_millis": WINDOW,
            "passages": [passage],
        }

    def _passage(self, events: Sequence[int]) -> Entry:
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partition": 0,
            "leader_epoch": 0,
            "offsets": [{"first": first, "count": count} for first, count in _stretches(events)],
            "windows": [
                {
                    "start": self.began + number * WINDOW,
                    "events": count,
                    "bytes": count * EVENT_BYTES,
                    "crc_sum": count,
                }
                for number in range(self.events // PER_WINDOW)
                if (count := sum(each // PER_WINDOW == number for each in events))
            ],
            "delays": [0, 0, 0, 0, 0, 0, 0, 0, 0, 700, 290, 9, 1],
        }

    def _batches(self) -> list[tuple[int, int]]:
        """As the agent sent them: first and count. What went missing was a batch of its own."""
        ends = sorted({0, *self.missing, self.events})
        return [(first, end - first) for first, end in pairwise(ends)]

    def _run(self, first: int, count: int) -> Entry:
        return {
            "source": f"source-of-{self.topic}",
            "path": self.path,
            "seq": first,
            "events": count,
            "position": first * EVENT_BYTES,
            "end_position": (first + count) * EVENT_BYTES,
        }


def _stretches(events: Sequence[int]) -> list[tuple[int, int]]:
    """First and count of each run of consecutive numbers."""
    found: list[tuple[int, int]] = []
    for each in events:
        if found and sum(found[-1]) == each:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((each, 1))
    return found


def said_later(entry: Mapping[str, Any], seq: int, **lists: object) -> Entry:
    """More by the same journal, which speaks of no events."""
    header = {**entry["header"], "seq": seq}
    return {**entry, "header": header, "passages": [], "heartbeats": [], **lists}
