"""From where to where each partition is read, by what a user says and what there is.

Pure. Both ends are exact: offset by offset, whatever batches there are.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from client.delivery import TopicPartition
from loader.errors import GapError
from loader.planning.facts import PartitionFacts, TopicFacts
from loader.planning.slicing import Range
from loader.source.errors import OptionRefused
from loader.source.positions import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    Earliest,
    Latest,
    Position,
)

REMEDY: Final = "To read what is there: option failOnDataLoss=false"

Times = Mapping[TopicPartition, int]


class Bound(StrEnum):
    """Which option says it."""

    STARTING = "startingOffsets"
    ENDING = "endingOffsets"


def ranges(
    facts: Mapping[str, TopicFacts],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> list[Range]:
    """Those that are not empty."""
    return [
        range_of(found, partition, first[target], end[target])
        for found in facts.values()
        for partition in sorted(found.partitions)
        if first[target := TopicPartition(found.topic, partition)] < end[target]
    ]


def range_of(facts: TopicFacts, partition: int, first: int, end: int) -> Range:
    return Range(
        topic=facts.topic,
        topic_id=facts.topic_id,
        cluster="",
        partition=partition,
        first=first,
        end=end,
    )


def places(
    facts: Mapping[str, TopicFacts],
    where: Position,
    times: Times,
    *,
    bound: Bound,
    fail_on_data_loss: bool,
) -> dict[TopicPartition, int]:
    """The offset in each partition. GapError for one that the log does not have, and should."""
    if isinstance(where, AtOffsets):
        _check_names(facts, where, bound)
    found = {}
    for topic, about in facts.items():
        for partition, log in about.partitions.items():
            target = TopicPartition(topic, partition)
            match where:
                case Earliest():
                    found[target] = log.earliest
                case Latest():
                    found[target] = log.end
                case AtTime():
                    # What came since the end was asked for is not read.
                    time = times[target]
                    found[target] = log.end if time < 0 else max(log.earliest, min(time, log.end))
                case AtOffsets(offsets):
                    wanted = offsets[topic][partition]
                    found[target] = _place(target, wanted, log, fail_on_data_loss)
    return found


def _place(target: TopicPartition, wanted: int, log: PartitionFacts, fail: bool) -> int:
    if wanted == EARLIEST:
        return log.earliest
    if wanted == LATEST:
        return log.end
    if fail and wanted < log.earliest:
        raise GapError(
            f"{target}: offset {wanted} was deleted, the log begins at {log.earliest}. {REMEDY}"
        )
    if fail and wanted > log.end:
        raise GapError(
            f"{target}: there is no offset {wanted}, the log ends at {log.end}. {REMEDY}"
        )
    return max(log.earliest, min(wanted, log.end))


def _check_names(facts: Mapping[str, TopicFacts], where: AtOffsets, bound: Bound) -> None:
    named = {
        TopicPartition(topic, partition)
        for topic, partitions in where.offsets.items()
        for partition in partitions
    }
    there = {TopicPartition(topic, each) for topic in facts for each in facts[topic].partitions}
    for why, targets in (("is not read", named - there), ("is missing", there - named)):
        if targets:
            more = f" (and {len(targets) - 1} more)" if len(targets) > 1 else ""
            raise OptionRefused(
                f"option `{bound}` must name every partition that is read, and no others: "
                f"{min(targets)} {why}{more}. -2 is the earliest, -1 the latest"
            )
