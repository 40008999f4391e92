"""Which offsets of groups are carried."""

from client.groups.offset_commits import Consumed
from client.groups.offsets import Committed
from client.producing.delivery import TopicPartition
from mirror.clusters.group_offsets import due

T, U = TopicPartition("t", 0), TopicPartition("u", 0)
COPY = TopicPartition("dc1.t", 0)
ENDS = {T: (COPY, 100)}


def test_as_they_are_of_copied_topics_alone() -> None:
    assert due({T: Committed(50, 3), U: Committed(7)}, ENDS, {}) == {COPY: Consumed(50)}


def test_never_back_and_never_beyond_the_copys_end() -> None:
    assert due({T: Committed(50)}, ENDS, {COPY: Committed(50)}) == {}
    assert due({T: Committed(50)}, ENDS, {COPY: Committed(60)}) == {}
    assert due({T: Committed(150)}, ENDS, {COPY: Committed(60)}) == {COPY: Consumed(100)}
