"""Where to begin in a partition: at its beginning, its end, an offset, or a time."""

from collections.abc import Collection
from dataclasses import dataclass

from client.brokers import Brokers
from client.errors import check
from wire.messages import list_offsets
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


@dataclass(frozen=True, slots=True)
class Beginning:
    pass


@dataclass(frozen=True, slots=True)
class End:
    """What is written from now on."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message of this time or later, in milliseconds; the end if there is none."""

    timestamp: int


Start = Beginning | End | AtOffset | AtTime


def start_offsets(
    brokers: Brokers, topic: str, partitions: Collection[int], start: Start
) -> dict[int, int]:
    """The offset at which to begin, by partition."""
    match start:
        case AtOffset(offset):
            return dict.fromkeys(partitions, offset)
        case Beginning():
            return offsets_at(brokers, topic, partitions, list_offsets.EARLIEST)
        case End():
            return offsets_at(brokers, topic, partitions, list_offsets.LATEST)
        case AtTime(timestamp):
            found = offsets_at(brokers, topic, partitions, timestamp)
            without = [partition for partition, offset in found.items() if offset < 0]
            return found | offsets_at(brokers, topic, without, list_offsets.LATEST)


def offsets_at(
    brokers: Brokers, topic: str, partitions: Collection[int], timestamp: int
) -> dict[int, int]:
    """Kafka's answer for a timestamp, which may be one of the special ones; -1 where none fits."""
    found: dict[int, int] = {}

    def attempt() -> dict[int, int]:
        brokers.refresh([topic])
        missing = [partition for partition in partitions if partition not in found]
        for leader, led in brokers.leaders(topic, missing).items():
            wanted = tuple(
                ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
                for partition in led
            )
            request = ListOffsetsRequest(topics=(ListOffsetsTopic(name=topic, partitions=wanted),))
            answer = brokers.broker(leader).call(list_offsets.API, request)
            for each in (part for named in answer.topics for part in named.partitions):
                check(each.error_code, f"{topic}-{each.partition_index}")
                found[each.partition_index] = each.offset
        return found

    return brokers.persist(attempt) if partitions else found
