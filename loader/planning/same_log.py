"""Whether a partition's log is still the one that was read. Pure.

A topic's id says which topic it is, and not which log: a broker whose directory was removed begins
an empty one under the same id. Leader epochs tell, where the broker begins a new one with it. Where
they do not, batches do: the last one that was read must be there still, at the same offsets, with
the same CRC. That of an earlier run that is there still says how far the logs are the same.

Compaction writes batches anew. Of topics that are compacted nothing can be told by batches.
"""

from collections.abc import Iterable

from loader.manifests import PartitionState, TopicState
from loader.planning.facts import PartitionFacts, TopicFacts
from loader.reports import LastBatch
from wire.batch import BatchHeader


def is_another(facts: TopicFacts, known: TopicState) -> bool:
    """Whether the topic is not the one that was read, but of the same name. Only ids tell."""
    return bool(facts.topic_id and known.topic_id) and facts.topic_id != known.topic_id


def asked_offset(facts: PartitionFacts, known: PartitionState) -> int | None:
    """Whose batch tells whether the log is the one that was read. None if none does: epochs have
    told already, nothing was read or is to be, or the log begins behind it now."""
    if facts.epoch_end is not None and facts.epoch_end < known.next_offset:
        return None
    offset = (known.next_offset if known.last is None else known.last.next_offset) - 1
    return offset if facts.earliest <= offset < facts.end != known.next_offset else None


def is_same(known: PartitionState, found: BatchHeader) -> bool:
    """Whether the batch at that offset is the one that was read."""
    if known.last is not None:
        return is_batch(known.last, found)
    # Penstock 0.1 kept nothing of it. But what it read ended where a batch did.
    return not found.base_offset < known.next_offset < found.next_offset


def is_batch(known: LastBatch, found: BatchHeader) -> bool:
    seen = (found.base_offset, found.next_offset, found.crc)
    return seen == (known.base_offset, known.next_offset, known.crc)


def candidates(facts: PartitionFacts, earlier: Iterable[LastBatch]) -> list[LastBatch]:
    """Those that may be there still, the newest first."""
    known = {each.next_offset: each for each in earlier}
    return [known[end] for end in sorted(known, reverse=True) if facts.earliest < end <= facts.end]


def described(found: BatchHeader | None) -> str:
    """What is there now, in words."""
    if found is None:
        return "the log ends before that"
    return str(
        LastBatch(
            base_offset=found.base_offset,
            next_offset=found.next_offset,
            crc=found.crc,
            max_timestamp=found.max_timestamp,
        )
    )
