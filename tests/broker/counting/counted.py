"""A counter of a data directory, and a ledger that shows to each counter what is in it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from broker.configs.config import Checks
from broker.counting.partition_counting import PartitionCounting
from broker.counting.reports import CountingReport, CountingResult, Led, LostOffsets, Task
from broker.storage.log import Log
from client.connection.security import Security
from ledger.counting.batches import Json
from ledger.counting.counted_offsets import CountedUpTo, EpochStart, History, furthest
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CountingJournal, PartitionKey
from ledger.counting.sealed_entries import SealedEntry
from schemas.remote.address import RegistryAddress
from tests.ledger.counting.encoding import COUNTERS_KEY, EncodesAtOnce


class ShownLedger:
    """`asked` are the partitions of which somebody wanted to know."""

    def __init__(self) -> None:
        self.is_silent = False
        self.entries: list[Json] = []
        self.asked: list[PartitionKey] = []

    def ends(self, histories: Mapping[PartitionKey, History]) -> Mapping[PartitionKey, CountedUpTo]:
        if self.is_silent:
            raise ConnectionRefusedError("nobody is there")
        self.asked += histories
        return furthest(self.entries, histories)


class Counted(EncodesAtOnce):
    """A counter of a data directory, and what it has told."""

    def __init__(self, directory: Path, checks: Checks | None = None) -> None:
        self.told: list[Json] = []
        self.is_silent = False
        self.journal = CountingJournal(directory / "ledger-counter", "broker", COUNTERS_KEY)
        speaker = Speaker(self.journal.source, "h", "a", "dc1", 60_000)
        place = (str(directory), "", Security(), RegistryAddress(""), "dc1", "h")
        task = Task(*place, 60_000, 10.0, checks or Checks())
        self.ledger = ShownLedger()
        counter = Counter(self.journal, speaker, self)
        self._following = PartitionCounting(task, counter, self.ledger)

    def send(self, sealed: SealedEntry) -> None:
        if self.is_silent:
            raise ConnectionRefusedError("nobody is there")
        self.told.append(sealed.entry)

    def told_of(self, led: Led, lost: LostOffsets) -> CountingResult:
        return self._following.look(CountingReport([led], [], [lost]))

    def look(self, *led: Led, not_served: Sequence[tuple[str, int]] = ()) -> str:
        return self._following.look(CountingReport(list(led), list(not_served))).trouble

    @property
    def passages(self) -> list[Any]:
        return [passage for entry in self.told for passage in entry["passages"]]

    def offsets(self, topic_id: str = "one") -> list[tuple[int, int]]:
        return [
            (each["first"], each["first"] + each["count"])
            for passage in self.passages
            if passage["topic_id"] == topic_id
            for each in passage["offsets"]
            if each["count"]
        ]

    @property
    def epochs(self) -> list[int]:
        return [
            passage["leader_epoch"]
            for passage in self.passages
            if any(each["count"] for each in passage["offsets"])
        ]

    @property
    def known(self) -> set[str]:
        return {key.topic_id for key in self.journal.places}


def led_at(log: Log, epoch: int) -> Led:
    """Its leader writes from now on under this epoch."""
    start, exposed, end = log.start_offset, log.exposed_offset, log.end_offset
    epochs = [EpochStart(*each) for each in log.epochs.entries]
    if log.epochs.latest < epoch:
        epochs.append(EpochStart(epoch, end))
    place = ("t", "one", 0, str(log.directory), start, exposed, epoch)
    return Led(*place, compacts=False, end=end, epochs=epochs)


def under(led: Led, epoch: int, first: int) -> Led:
    """Another leader epoch began there."""
    before = [each for each in led.epochs if each.first < first]
    return led._replace(leader_epoch=epoch, epochs=[*before, EpochStart(epoch, first)])
