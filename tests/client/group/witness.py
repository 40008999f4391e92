"""A record of reads and commits, and the rules that hold whatever happens to a group's members.

A stint is the time in which a member owns a partition: from its claim to its release or loss. A
message is recorded with the times of its request and its receipt, between which the claim was
checked. So an overlap of these times is a real one, however busy the machine is.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from client.group.consumer import GroupConsumer, GroupRecord
from cluster.values import TopicPartition


class Read(msgspec.Struct, frozen=True):
    stint: str
    topic: str
    partition: int
    offset: int
    asked: float
    got: float


class Committed(msgspec.Struct, frozen=True):
    """An acknowledged commit; `offset` is the next to read."""

    stint: str
    topic: str
    partition: int
    offset: int


class Witness:
    """Kept in memory for threads, or in a file for processes."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._read_up_to = 0
        self._decoded: list[dict[str, Any]] = []
        self._reads: list[Read] = []
        self._commits: list[Committed] = []

    def note(self, what: Read | Committed) -> None:
        if self._path is not None:
            with self._path.open("ab", buffering=0) as file:  # appended whole
                file.write(json.dumps(asdict(what)).encode() + b"\n")
            return
        with self._lock:
            if isinstance(what, Read):
                self._reads.append(what)
            else:
                self._commits.append(what)

    @property
    def reads(self) -> list[Read]:
        if self._path is None:
            with self._lock:
                return list(self._reads)
        return [Read(**each) for each in self._noted() if "got" in each]

    @property
    def commits(self) -> list[Committed]:
        if self._path is None:
            with self._lock:
                return list(self._commits)
        return [Committed(**each) for each in self._noted() if "got" not in each]

    def _noted(self) -> list[dict[str, Any]]:
        """The file's new lines; each is read once."""
        assert self._path is not None
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read_up_to)
                lines = file.read().split(b"\n")[:-1]  # who is killed may leave a rest
            self._read_up_to += sum(len(line) + 1 for line in lines)
            self._decoded += [json.loads(line) for line in lines]
        return self._decoded


class WitnessedConsumer(GroupConsumer):
    """A consumer that counts its stints."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.stints: defaultdict[TopicPartition, int] = defaultdict(int)

    def gained(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = list(partitions)
        for each in partitions:
            self.stints[each] += 1
        super().gained(partitions)

    def stint(self, where: TopicPartition) -> str:
        return f"{self.member.name}/{self.stints[where]}"

    def read(self, message: GroupRecord, asked: float, got: float) -> Read:
        where = TopicPartition(message.topic, message.partition)
        return Read(self.stint(where), *where, message.record.offset, asked, got)

    def commit_noted(self, witness: Witness) -> None:
        """Commit, and record what was acknowledged."""
        offsets = {
            each: (self.stint(each), position.offset) for each, position in self._positions.items()
        }
        self.commit()
        for each, (stint, offset) in offsets.items():
            witness.note(Committed(stint, *each, offset))


def judge(witness: Witness, written: dict[TopicPartition, int]) -> None:
    """No stints overlap, each message was read, and no committed message was read again."""
    reads: defaultdict[TopicPartition, list[Read]] = defaultdict(list)
    for each in witness.reads:
        reads[TopicPartition(each.topic, each.partition)].append(each)
    commits = witness.commits
    for where, count in written.items():
        of_stint: defaultdict[str, list[Read]] = defaultdict(list)
        for each in reads[where]:
            of_stint[each.stint].append(each)
        for stint, its in of_stint.items():
            offsets = [each.offset for each in its]
            assert offsets == sorted(set(offsets)), f"{where}, {stint}: out of order"
        _no_overlap(where, of_stint)
        missing = set(range(count)) - {each.offset for each in reads[where]}
        assert not missing, f"{where}: nobody has read {sorted(missing)[:10]}"
        order = sorted(of_stint, key=lambda stint: of_stint[stint][0].got)
        for number, stint in enumerate(order):
            acknowledged = [
                each.offset
                for each in commits
                if (each.topic, each.partition, each.stint) == (*where, stint)
            ]
            for later in order[number + 1 :]:
                first = of_stint[later][0].offset
                assert first >= max(acknowledged, default=0), (
                    f"{where}: {later} began at {first}, {stint} had committed {acknowledged}"
                )


def _no_overlap(where: TopicPartition, of_stint: dict[str, list[Read]]) -> None:
    for one, its in of_stint.items():
        first_got = min(each.got for each in its)
        last_asked = max(each.asked for each in its)
        for other, others in of_stint.items():
            between = [
                each
                for each in others
                if other != one and each.asked > first_got and each.got < last_asked
            ]
            assert not between, f"{where}: {other} has read while {one} did: {between[0]}"
