"""Whether a log is the one that was read, told by its batches where epochs tell nothing."""

from collections.abc import Iterator, Sequence

import pytest

from client.brokers import Brokers
from loader.manifests import PartitionState, TopicState
from loader.planning.asking import with_partings
from loader.planning.facts import Parted, PartitionFacts, TopicFacts
from loader.reports import LastBatch
from tests.client.scripted_log import TOPIC, ScriptedLog, scripted_log
from wire.batch import read_header
from wire.records import Record, build_batch

TIME = 1_795_132_800_000


def batch(first: int, end: int, text: bytes = b"x") -> bytes:
    messages = [Record(at, TIME + at, None, text) for at in range(first, end)]
    return build_batch(messages, base_offset=first)


def last(made: bytes) -> LastBatch:
    header = read_header(made)
    return LastBatch(
        base_offset=header.base_offset,
        next_offset=header.next_offset,
        crc=header.crc,
        max_timestamp=header.max_timestamp,
    )


READ = [batch(0, 100), batch(100, 300), batch(300, 500)]
AFTER = batch(500, 600)


@pytest.fixture
def scripted() -> Iterator[tuple[ScriptedLog, Brokers]]:
    with scripted_log() as (log, brokers):
        yield log, brokers


def parted(
    scripted: tuple[ScriptedLog, Brokers],
    there: Sequence[bytes],
    *,
    read: Sequence[bytes] = READ,
    known: bool = True,
    start: int = 0,
) -> Parted | None:
    """What is found out of a log that holds these batches now, where those were read."""
    log, brokers = scripted
    log.batches, log.start = there, start
    log.end = read_header(there[-1]).next_offset if there else start
    reached = last(read[-1])
    state = PartitionState(
        partition=0,
        next_offset=reached.next_offset,
        leader_epoch=0,
        last=reached if known else None,
    )
    facts = PartitionFacts(leader_epoch=0, earliest=start, end=log.end)
    topics = {TOPIC: TopicFacts(topic=TOPIC, topic_id="", partitions={0: facts})}
    topic = TopicState(topic=TOPIC, cluster="c", topic_id="", partitions=(state,))
    earlier = [last(each) for each in reversed(read)]
    found = with_partings(brokers, topics, [topic], lambda _topic, _partition: earlier)
    return found[TOPIC].partitions[0].parted


def test_the_log_that_was_read(scripted: tuple[ScriptedLog, Brokers]) -> None:
    assert parted(scripted, [*READ, AFTER]) is None
    assert scripted[0].described == 0
    assert len(scripted[0].fetches) == 1


def test_nothing_new_is_nothing_to_ask_for(scripted: tuple[ScriptedLog, Brokers]) -> None:
    assert parted(scripted, READ) is None
    assert scripted[0].fetches == []


def test_other_batches_where_the_last_was(scripted: tuple[ScriptedLog, Brokers]) -> None:
    anew = [batch(0, 1), batch(1, 702)]
    found = parted(scripted, anew)
    assert found == Parted(same_to=-1, was=str(last(READ[-1])), found=str(last(anew[-1])))


def test_a_batch_of_the_same_offsets_and_other_bytes(
    scripted: tuple[ScriptedLog, Brokers],
) -> None:
    found = parted(scripted, [*READ[:2], batch(300, 500, b"y"), AFTER])
    assert found is not None
    assert found.same_to == 300


def test_how_far_a_shorter_log_is_the_same(scripted: tuple[ScriptedLog, Brokers]) -> None:
    found = parted(scripted, [READ[0], batch(100, 250)])
    assert found is not None
    assert (found.same_to, found.found) == (100, "the log ends before that")


def test_where_the_last_batch_is_gone_nothing_can_be_told(
    scripted: tuple[ScriptedLog, Brokers],
) -> None:
    assert parted(scripted, [AFTER], start=500) is None
    assert scripted[0].fetches == []


def test_a_batch_whose_bytes_are_spoilt_tells_nothing(
    scripted: tuple[ScriptedLog, Brokers],
) -> None:
    assert parted(scripted, [*READ[:2], READ[2][:-1] + b"?", AFTER]) is None


def test_a_compacted_log_has_other_batches(scripted: tuple[ScriptedLog, Brokers]) -> None:
    scripted[0].cleanup = "compact"
    assert parted(scripted, [batch(0, 100), batch(400, 500), AFTER]) is None


def test_where_only_the_end_of_the_last_batch_is_known(
    scripted: tuple[ScriptedLog, Brokers],
) -> None:
    assert parted(scripted, [*READ, AFTER], known=False) is None
    found = parted(scripted, [batch(0, 1), batch(1, 702)], known=False)
    assert found is not None
    assert found.was == "one that ends at 499"
