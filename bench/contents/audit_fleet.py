"""The ledger entries of a healthy fleet, minute by minute, as columns of `LEDGER_TYPE`.

Every agent writes an entry a minute: a heartbeat, and a passage for each of its two topics. Every
broker writes an entry for the partitions that it leads, and a loader writes one an hour for each
topic. The sums agree. Nothing is random: a minute of a fleet always has the same entries.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledger.columns import LEDGER_TYPE

MINUTE: Final = 60_000
HOUR: Final = 3_600_000
DAY: Final = 86_400_000
_TOPICS_EACH: Final = 2
_EVENTS: Final = 50  # per agent, topic and minute
_EVENT_BYTES: Final = 120
_HDFS: Final = "hdfs://logs/events"
_DELAYS: Final = (0, 0, 0, 0, 0, 0, 0, 5, 20, 20, 5)

Numbers = NDArray[np.int64]


class Lists(msgspec.Struct, frozen=True):
    """The values of a list column: the length of each list, and all items in one sequence."""

    lengths: Any
    items: Any


@dataclass(frozen=True)
class Fleet:
    """A fleet whose first minute starts at `begin`."""

    begin: int
    agents: int = 10_000
    topics: int = 100
    partitions: int = 8  # of each topic
    brokers: int = 3
    cluster: str = "local"

    def minute(self, number: int) -> pa.StructArray:
        """Returns the entries of agents and brokers about one minute, written after its end."""
        return pa.concat_arrays([self._agents(number), self._brokers(number)])

    def load(self, hour: int) -> pa.StructArray:
        """Returns the loader's entries about one hour, written some time after its end."""
        return pa.concat_arrays([self._load(hour, topic) for topic in range(self.topics)])

    @cached_property
    def _target(self) -> Numbers:
        """The partition, counted over all topics, of each agent and each of its topics."""
        agent = np.repeat(np.arange(self.agents), _TOPICS_EACH)
        topic = (agent * _TOPICS_EACH + np.tile(np.arange(_TOPICS_EACH), self.agents)) % self.topics
        return topic * self.partitions + (agent // self.topics) % self.partitions

    @cached_property
    def _place(self) -> Numbers:
        """The rank of each agent and topic among the writers of its partition."""
        order = np.argsort(self._target, kind="stable")
        target = self._target[order]
        starts_of_runs = np.flatnonzero(np.concatenate(([True], target[1:] != target[:-1])))
        sizes = np.diff(np.append(starts_of_runs, len(target)))
        run_indexes = np.empty(len(target), np.int64)
        run_indexes[order] = np.arange(len(target)) - np.repeat(starts_of_runs, sizes)
        return run_indexes

    @cached_property
    def _writers(self) -> Numbers:
        """The number of writers of each partition."""
        return np.bincount(self._target, minlength=self.topics * self.partitions)

    def _crc(self, target: Numbers, minute: int) -> Numbers:
        """The checksum of an agent's batch."""
        return (self._place * 2_654_435_761 + target * 40_503 + minute * 97) % (1 << 32)

    def _sources(self, minute: int) -> list[str]:
        day = (self.begin + minute * MINUTE) // DAY
        return [
            f"{agent:08x}{topic:04x}{day:020x}"
            for agent in range(self.agents)
            for topic in range(_TOPICS_EACH)
        ]

    def _names(self) -> pa.Array:
        return pa.array([f"clicks-{number:03}" for number in range(self.topics)])

    def _ids(self) -> pa.Array:
        return pa.array([f"topic-id-{number:013}" for number in range(self.topics)])

    def _agents(self, minute: int) -> pa.StructArray:
        count, end = self.agents, self.begin + (minute + 1) * MINUTE
        target, writers = self._target, self._writers[self._target]
        seq = self._seq(minute)
        has_names = minute % 60 == 0
        topics = self._names().take(pa.array(target // self.partitions))
        is_first_minute = seq == 0
        position = np.full(len(target), seq * _EVENT_BYTES)
        paths = (
            ["/var/log/shop/a.log", "/var/log/shop/b.log"]
            if has_names or is_first_minute
            else ["", ""]
        )
        runs = {
            "source": self._sources(minute),
            "path": paths * count,
            "seq": seq,
            "events": _EVENTS,
            "position": position,
            "end_position": position + _EVENTS * _EVENT_BYTES,
            "lines": -1,
        }
        windows = {
            "start": end - MINUTE,
            "events": _EVENTS,
            "bytes": _EVENTS * 40,
            "crc_sum": self._crc(target, minute),
        }
        passages = {
            "topic": topics,
            "topic_id": self._ids().take(pa.array(target // self.partitions)),
            "partition": target % self.partitions,
            "leader_epoch": 3,
            "offsets": Lists(
                1, {"first": (minute * writers + self._place) * _EVENTS, "count": _EVENTS}
            ),
            "windows": Lists(1, windows),
            "runs": Lists(1, runs),
            "delays": Lists(len(_DELAYS), np.tile(_DELAYS, len(target))),
        }
        beats = {
            "until": end - MINUTE,
            "topics": Lists(_TOPICS_EACH if has_names else 0, topics),
            "lag_bytes": 0,
            "program_version": "0.1.0" if has_names else "",
        }
        header = {
            "time": end + 1_000 + np.arange(count) % 9_000,
            "host": [f"web-{number:05}.example.com" for number in range(count)],
            "app": "penstock-agent",
            "source": [f"{number:032x}" for number in range(count)],
            "seq": minute,
        }
        return self._entries(
            count,
            {"header": header, "tier": "agent", "passages": Lists(_TOPICS_EACH, passages)}
            | {"heartbeats": Lists(1, beats)},
        )

    def _seq(self, minute: int) -> int:
        """The sequence number of a minute's first event in its file; files change daily."""
        run_start = max(
            self.begin, self.begin + minute * MINUTE - (self.begin + minute * MINUTE) % DAY
        )
        return (self.begin + minute * MINUTE - run_start) // MINUTE * _EVENTS

    def _brokers(self, minute: int) -> pa.StructArray:
        end = self.begin + (minute + 1) * MINUTE
        targets = np.flatnonzero(self._writers)
        targets = targets[np.argsort(targets % self.brokers, kind="stable")]
        events = self._writers[targets] * _EVENTS
        crc_sum = np.zeros(self.topics * self.partitions, np.int64)
        np.add.at(crc_sum, self._target, self._crc(self._target, minute))
        windows = {
            "start": end - MINUTE,
            "events": events,
            "bytes": events * 40,
            "crc_sum": crc_sum[targets],
        }
        passages = {
            "topic": self._names().take(pa.array(targets // self.partitions)),
            "topic_id": self._ids().take(pa.array(targets // self.partitions)),
            "partition": targets % self.partitions,
            "leader_epoch": 3,
            "offsets": Lists(1, {"first": minute * events, "count": events}),
            "windows": Lists(1, windows),
            "delays": Lists(2, np.column_stack((events * 0, events)).ravel()),
        }
        header = {
            "time": end + 9_000,
            "host": [f"broker-{number}.example.com" for number in range(self.brokers)],
            "app": "penstock-broker",
            "source": [f"broker-{number:032x}" for number in range(self.brokers)],
            "seq": minute,
        }
        led_partitions = np.bincount(targets % self.brokers, minlength=self.brokers)
        return self._entries(
            self.brokers,
            {"header": header, "tier": "broker", "passages": Lists(led_partitions, passages)},
        )

    def _load(self, hour: int, topic: int) -> pa.StructArray:
        """One entry; its runs are grouped by partition."""
        minutes = np.arange(hour * 60, hour * 60 + 60)
        targets = np.flatnonzero(self._writers)
        targets = targets[targets // self.partitions == topic]
        events = self._writers[targets] * _EVENTS
        lanes = np.flatnonzero(self._target // self.partitions == topic)
        lanes = lanes[np.argsort(self._target[lanes], kind="stable")]
        lanes_per_partition = np.bincount(
            self._target[lanes], minlength=self.topics * self.partitions
        )[targets]
        crc_sum = np.zeros((len(targets), 60), np.int64)
        run_indexes = np.searchsorted(targets, self._target[lanes])
        for column, minute in enumerate(minutes.tolist()):
            np.add.at(crc_sum[:, column], run_indexes, self._crc(self._target, minute)[lanes])
        runs = self._landed(hour, lanes, lanes_per_partition)
        windows = {
            "start": np.tile(self.begin + minutes * MINUTE, len(targets)),
            "events": np.repeat(events, 60),
            "bytes": np.repeat(events * 40, 60),
            "crc_sum": crc_sum.ravel(),
        }
        passages = {
            "topic": self._names().take(pa.array(targets // self.partitions)),
            "topic_id": self._ids().take(pa.array(targets // self.partitions)),
            "partition": targets % self.partitions,
            "leader_epoch": 3,
            "offsets": Lists(1, {"first": hour * 60 * events, "count": 60 * events}),
            "windows": Lists(60, windows),
            "runs": runs,
        }
        header = {
            "time": self.begin + (hour + 1) * HOUR + 300_000,
            "host": "edge-1.example.com",
            "app": "penstock-loader",
            "source": f"loader-{topic:032x}",
            "seq": hour,
        }
        return self._entries(
            1,
            {"header": header, "tier": "hdfs", "destination": _HDFS, "run": hour}
            | {"passages": Lists(len(targets), passages)},
        )

    def _landed(self, hour: int, lanes: Numbers, lanes_per_partition: Numbers) -> Lists:
        """The runs: one an hour for each source, or two in the hour in which its day ends."""
        previous_seq = self._seq(hour * 60 + 59)
        first = self._seq(hour * 60)
        if previous_seq < first:
            raise ValueError("the hour crosses the end of a source's day")
        names = self._sources(hour * 60)
        items = {
            "source": [names[lane] for lane in lanes.tolist()],
            "seq": first,
            "events": 60 * _EVENTS,
            "position": -1,
            "end_position": -1,
            "lines": -1,
        }
        return Lists(lanes_per_partition, items)

    def _entries(self, count: int, values: dict[str, Any]) -> pa.StructArray:
        defaults = {"version": 1, "cluster": self.cluster, "window_millis": MINUTE, "run": -1}
        return column(LEDGER_TYPE, count, defaults | values)


def column(type_: pa.DataType, count: int, value: Any) -> pa.Array:
    """Returns an array of this type. `values` are columns by field, lists, plain values, or one
    value to be repeated.

    Missing fields are null, zero or empty.
    """
    if pa.types.is_struct(type_):
        if value is None:
            return pa.nulls(count, type_)
        arrays = [
            column(field.type, count, value.get(field.name, _empty(field))) for field in type_
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(type_))
    if pa.types.is_list(type_):
        list_values = value or Lists(0, None)
        lengths = np.broadcast_to(np.asarray(list_values.lengths), (count,))
        ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        items = column(type_.value_type, int(ends[-1]), list_values.items if ends[-1] else None)
        return pa.ListArray.from_arrays(pa.array(ends), items, type=type_)
    if isinstance(value, pa.Array):
        return value.cast(type_)
    if isinstance(value, list | np.ndarray):
        return pa.array(value, type_)
    return pa.repeat(pa.scalar(value, type_), count)


def _empty(field: pa.Field) -> Any:
    if pa.types.is_struct(field.type) or pa.types.is_list(field.type):
        return None
    if pa.types.is_boolean(field.type):
        return False
    if pa.types.is_binary(field.type):
        return b""
    return "" if pa.types.is_string(field.type) else 0
