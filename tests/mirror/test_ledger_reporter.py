"""Whatever fails, and whoever is killed when: in the end the ledger is told of all that was copied.

The ledger and the copy are stood in for, so that each can fail at every step; the programs do the
same in tests/system/mirror/test_told_of_both.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from client.errors import ConnectionLost
from ledger.counting.counted_offsets import Json, furthest_copied
from ledger.counting.journal import PartitionKey
from ledger.counting.sealed_entries import SealedEntry
from ledger.health import HealthProbe
from mirror.ledger_reporter import LedgerReporter, StoredBatch
from mirror.partitions.copied_count import Spread
from mirror.partitions.partition import CopiedPartition
from mirror.topics import Standing, TopicCopy
from tests.ledger.chains import Walked
from tests.ledger.counting.encoding import COUNTERS_KEY, EncodesAtOnce
from tests.mirror.headers import header
from tests.mirror.workers import mirror_config
from wire.record_batches.batch import BatchHeader
from wire.record_batches.records import Record

KEY = PartitionKey("dc1.clicks", "an-id", 0)
COPY = TopicCopy(KEY.topic, "clicks", Standing.COPIED, partitions=1, topic_id=KEY.topic_id)


@dataclass
class Target(EncodesAtOnce):
    """A copy with a ledger, which goes away after so many questions."""

    log: list[BatchHeader] = field(default_factory=list)
    entries: list[Json] = field(default_factory=list)
    answers: int | None = None  # are left; None: however many
    unseen: int = 0  # the last entries, which nobody who asks is shown
    walked: dict[str, Walked] = field(default_factory=dict)  # by journal

    @property
    def end(self) -> int:
        return self.log[-1].base_offset + self.log[-1].record_count if self.log else 0

    def grows(self, events: int) -> BatchHeader:
        self.log.append(header(self.end, events))
        return self.log[-1]

    def offsets_told(self) -> set[int]:
        return {
            offset
            for entry in self.entries
            for passage in entry["passages"]
            for each in passage["offsets"]
            for offset in range(each["first"], each["first"] + each["count"])
        }

    def events_counted(self) -> int:
        """As the audit counts them: what is told twice counts once, and what was told together with
        that does not."""
        found, known = 0, set[int]()
        for entry in self.entries:
            for passage in entry["passages"]:
                (span,) = passage["offsets"]
                offsets = set(range(span["first"], span["first"] + span["count"]))
                if not offsets & known:
                    found += sum(each["events"] for each in passage["windows"])
                known |= offsets
        return found

    def _asked(self) -> None:
        if self.answers is not None:
            if not self.answers:
                raise ConnectionLost("it is away")
            self.answers -= 1

    def send(self, sealed: SealedEntry) -> None:
        self._asked()
        self.entries.append(sealed.entry)
        source = sealed.entry["header"]["source"]
        record = Record(0, 0, None, sealed.value, (("proof", sealed.proof),))
        self.walked.setdefault(source, Walked()).add(record, sealed.entry)

    def times(self, key: PartitionKey, batch: Spread) -> Sequence[int]:
        return ()

    def reported_ends(self, keys: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
        self._asked()
        return furthest_copied(self.entries[: len(self.entries) - self.unseen], set(keys))

    def batches(self, key: PartitionKey, first: int, end: int) -> Iterator[StoredBatch]:
        self._asked()
        return (StoredBatch(each, tuple) for each in self.log if first <= each.base_offset < end)

    def close(self) -> None: ...


class Worker:
    """Copies, and tells of it when it is told to."""

    def __init__(self, target: Target, directory: Path) -> None:
        config = mirror_config(data_dir=str(directory))
        self.target = target
        probe = HealthProbe("0.1", name="dc1", directories=(str(directory),))
        self.telling = LedgerReporter(config, target, target, COUNTERS_KEY, probe=probe)
        self.partition = CopiedPartition((KEY.topic, KEY.partition), ("clicks", 0))
        self.begin()

    def begin(self) -> None:
        self.partition.copied = self.partition.position = self.target.end
        self.telling.begun(COPY, self.partition)

    def copy(self, events: int) -> None:
        self.telling.written(self.partition, [self.target.grows(events)])

    def look(self, answers: int | None = None) -> None:
        self.target.answers = answers
        self.telling.look()
        self.target.answers = None


def test_what_is_copied_is_told_with_the_next_look(tmp_path: Path) -> None:
    target = Target()
    worker = Worker(target, tmp_path)
    worker.copy(3)
    worker.look()
    assert target.offsets_told() == {0, 1, 2}
    worker.look()
    assert [each["name"] for entry in target.entries for each in entry.get("health", ())] == ["dc1"]
    assert len(target.entries) == 2


def test_what_a_killed_one_has_told_may_be_seen_late(tmp_path: Path) -> None:
    """The ledger has it, and does not show it before it is on disk."""
    target = Target()
    target.grows(1)
    Worker(target, tmp_path)
    target.entries.append(_told_of(target))
    worker = Worker(target, tmp_path)
    for events in (3, 4):
        worker.copy(events)
        worker.look()
    worker.copy(5)
    target.unseen = 1
    worker = Worker(target, tmp_path)
    worker.look()
    assert target.offsets_told() == set(range(1 + 3 + 4 + 5))
    assert target.events_counted() == 1 + 3 + 4 + 5


COPIES = st.tuples(st.just("copies"), st.integers(1, 4))
LOOKS = st.tuples(st.just("looks"), st.integers(0, 5))
ALONE = st.tuples(st.sampled_from(["is killed", "begins anew", "another copies"]), st.just(2))


@given(st.lists(COPIES | LOOKS | ALONE, max_size=16))
@example([("copies", 2), ("is killed", 0), ("copies", 2), ("looks", 1), ("is killed", 0)])
@example([("copies", 2), ("another copies", 2), ("begins anew", 0), ("copies", 2), ("looks", 1)])
def test_nothing_is_left_out_for_good(actions: list[tuple[str, int]]) -> None:
    directory, target = Path("/nowhere"), Target()
    target.grows(1)  # something was told once: before that nothing is read again
    worker = Worker(target, directory)
    target.entries.append(_told_of(target))
    for action, number in actions:
        match action:
            case "copies":
                if worker.partition.copied < target.end:
                    worker.begin()
                worker.copy(number)
                worker.partition.copied = target.end
            case "looks":
                worker.look(number)
            case "another copies":
                target.grows(number)
            case "begins anew":
                worker.begin()
            case "is killed":
                worker = Worker(target, directory)
    worker = Worker(target, directory)
    worker.look()
    assert target.offsets_told() == set(range(target.end))
    assert target.walked
    for journal in target.walked.values():
        assert journal.proofs.keys() == journal.values.keys()
        assert journal.breaks == []
        assert journal.keys == [COUNTERS_KEY.public.raw]


def _told_of(target: Target) -> Json:
    """By somebody before."""
    name = {"topic": KEY.topic, "topic_id": KEY.topic_id, "partition": KEY.partition}
    offsets = [{"first": 0, "count": target.end}]
    windows = [{"events": target.end}]
    return {"tier": "mirror", "passages": [{**name, "offsets": offsets, "windows": windows}]}
