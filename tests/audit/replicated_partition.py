"""A partition with replicas that lead in turn, each with a log and a counter of its own; and what
is true of its lines, which nobody here is asked for but those who wrote and moved them.

Logs, counters and the ledger's entries are real. Agent and loader are told here: what the one has
had acknowledged, and what the other has read from the log of whoever leads.
"""

import uuid
from collections import Counter as Tally
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from broker.configs.config import Checks
from broker.counting.counter import epochs_of
from broker.counting.partition_counting import PartitionCounting
from broker.counting.reports import CountingReport, Led, Task
from broker.storage.config import LogConfig
from broker.storage.log import Log
from client.connection.security import Security
from harness.penstock.made_batches import agents_batch
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CountingJournal
from ledger.counting.sealed_entries import SealedEntry
from schemas.remote.address import RegistryAddress
from tests.audit.audited_ledger import FIRST, NOW
from tests.audit.log_entries import lines as file_lines
from tests.audit.store.said import (
    CLUSTER,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    entry,
    passage,
    run,
    window,
)
from tests.broker.counting.counted import ShownLedger
from tests.broker.storage.log_files import NOW as WRITTEN
from tests.broker.storage.log_files import append, flush, log_file, read_on
from tests.ledger.counting.encoding import COUNTERS_KEY, EncodesAtOnce
from wire.record_batches.batch import BatchHeader, check_batch, headers

_FIRST_PRODUCER: Final = 1_000


class Replica(EncodesAtOnce):
    """One broker's. While it is `silent`, what it has counted waits in its journal."""

    def __init__(self, directory: Path, ledger: ShownLedger) -> None:
        self.directory = directory
        directory.mkdir()
        self.log = Log.create(directory / f"{TOPIC}-0", uuid.uuid4(), LogConfig())
        self.log.replicated(0)
        self.silent = False
        self._ledger = ledger
        self.start()

    def start(self) -> None:
        """Its counting process, again."""
        journal = CountingJournal(self.directory / "ledger-counter", "broker", COUNTERS_KEY)
        speaker = Speaker(journal.source, self.directory.name, "a", CLUSTER, MINUTE)
        registry = RegistryAddress("")
        directory = str(self.directory)
        task = Task(
            directory, "", Security(), registry, CLUSTER, "h", MINUTE, 10.0, Checks(landed=True)
        )
        self._following = PartitionCounting(task, Counter(journal, speaker, self), self._ledger)

    def send(self, sealed: SealedEntry) -> None:
        said = sealed.entry
        if self.silent:
            raise ConnectionRefusedError("nobody is there")
        self._ledger.entries.append({**said, "header": {**said["header"], "time": FIRST}})

    def look(self, *led: Led) -> None:
        trouble = self._following.look(CountingReport(list(led), [])).trouble
        assert bool(trouble) <= self.silent, trouble


@dataclass
class ReplicatedPartition:
    directory: Path
    brokers: int = 2
    leader: int = 0
    epoch: int = 0
    told: ShownLedger = field(default_factory=ShownLedger)
    others: list[Json] = field(default_factory=list)  # what agent and loader have told
    lines: int = 0
    acknowledged: set[int] = field(default_factory=set)
    landed: Tally[int] = field(default_factory=Tally)
    unclean: list[int] = field(default_factory=list)  # leader epochs

    def __post_init__(self) -> None:
        self.directory.mkdir(exist_ok=True)
        each = range(self.brokers)
        self.replicas = [Replica(self.directory / f"b{at}", self.told) for at in each]
        self.in_sync = set(each)
        self.holds: list[list[int]] = [[] for _ in each]  # by replica and offset: which line
        self._numbers: Tally[str] = Tally()
        self._loaded = self._loaded_epoch = 0
        self._says_itself()

    # What happens

    def write(self, count: int, minute: int = 0) -> None:
        """A batch, to the leader; acknowledged when all that are in sync have it."""
        self.append(count, minute)
        self.replicate()
        self.acknowledge()

    def append(self, count: int, minute: int = 0) -> None:
        leader = self.replicas[self.leader]
        times = [FIRST + minute * MINUTE] * count
        sent = bytearray(agents_batch(times, producer=_FIRST_PRODUCER + self.lines))
        appended = append(leader.log, sent, leader_epoch=self.epoch)
        lines = range(self.lines, self.lines + count)
        self.holds[self.leader] += lines
        self.lines += count
        self._sent = (check_batch(memoryview(sent)), appended.base_offset, lines, minute)
        flush(leader.log)

    def acknowledge(self) -> None:
        header, first, lines, minute = self._sent
        runs = [file_lines(lines[0], len(lines))]
        there = self._windows(header, minute)
        said = passage(0, first, len(lines), there, runs=runs, leader_epoch=self.epoch)
        self.acknowledged.update(lines)
        self._say("agent", "agent", passages=[said])

    def replicate(self) -> None:
        """To all that are in sync, or could be again."""
        leader = self.replicas[self.leader].log
        for number in self.in_sync - {self.leader}:
            self._follow(number)
        exposed = min(len(self.holds[each]) for each in self.in_sync)
        leader.replicated(exposed)
        for number in self.in_sync - {self.leader}:
            self.replicas[number].log.replicated(exposed)

    def fall_behind(self, number: int) -> None:
        if len(self.in_sync) > 1:
            self.in_sync.discard(number)
            self.replicate()

    def catch_up(self, number: int) -> None:
        self._follow(number)
        self.in_sync.add(number)
        self.replicate()

    def elect(self, number: int) -> None:
        """One that is in sync; or another, which is alone then: an unclean election."""
        self.epoch += 1
        if number not in self.in_sync:
            self.in_sync = {number}
            self.unclean.append(self.epoch)
        self.leader = number
        self.replicate()

    def count(self, number: int | None = None) -> None:
        """The counting process of a broker is told what that leads."""
        number = self.leader if number is None else number
        self.replicas[number].look(*([self.led()] if number == self.leader else []))

    def led(self) -> Led:
        log = self.replicas[self.leader].log
        return Led(
            TOPIC,
            TOPIC_ID,
            0,
            str(log.directory),
            log.start_offset,
            log.exposed_offset,
            self.epoch,
            compacts=False,
            end=log.end_offset,
            epochs=epochs_of(log, self.epoch),
            unclean=tuple(self.unclean),
        )

    def load(self) -> None:
        """All that consumers see, from where the last load ended, if that is still there."""
        log = self.replicas[self.leader].log
        _, end = log.epochs.end_offset_for(self._loaded_epoch, log.end_offset)
        self._loaded = min(self._loaded, end) if end >= 0 else self._loaded
        is_new = self._loaded < log.exposed_offset
        batches = [each for each, _ in read_on(log, self._loaded)] if is_new else []
        passages = []
        for epoch, some in groupby(batches, lambda each: each.leader_epoch):
            found = list(some)
            first, end = found[0].base_offset, found[-1].next_offset
            lines = self.holds[self.leader][first:end]
            self.landed.update(lines)
            runs = [run("file", each, 1) for each in lines]
            there = [one for each in found for one in self._windows(each, self._minute(each))]
            said = passage(0, first, end - first, there, runs=runs, leader_epoch=epoch)
            passages.append(said)
            self._loaded, self._loaded_epoch = end, epoch
        if passages:
            number = self._numbers["loader"]
            self._say("hdfs", "loader", passages=passages, destination=ROOT, run=number)

    # What was said of it

    @property
    def entries(self) -> list[Json]:
        """Of all tiers, as they came."""
        return [*self.others, *self.told.entries]

    @property
    def lost(self) -> set[int]:
        """Lines that were acknowledged, and are neither in the log nor landed."""
        return self.acknowledged - set(self.holds[self.leader]) - self.landed.keys()

    def _says_itself(self) -> None:
        self._say("agent", "agent", heartbeats=[{"until": NOW, "topics": [TOPIC]}])

    def _say(self, tier: str, journal: str, **lists: object) -> None:
        lists.setdefault("passages", [])
        self.others.append(entry(tier, journal, self._numbers[journal], FIRST, **lists))
        self._numbers[journal] += 1

    def _windows(self, header: BatchHeader, minute: int) -> list[Json]:
        start = FIRST + minute * MINUTE
        return [window(start, header.record_count, bytes=header.size, crc_sum=header.crc)]

    def _minute(self, header: BatchHeader) -> int:
        return (header.base_timestamp - FIRST) // MINUTE

    # How followers go after the leader

    def _follow(self, number: int) -> None:
        leader, log = self.replicas[self.leader].log, self.replicas[number].log
        mine, theirs = self.holds[number], self.holds[self.leader]
        while log.end_offset > 0:
            latest = log.epochs.latest
            epoch, end = leader.epochs.end_offset_for(latest, leader.end_offset)
            _, own_end = log.epochs.end_offset_for(epoch, log.end_offset)
            if epoch == latest and end >= log.end_offset:
                break
            log.truncate(min(end, own_end if own_end >= 0 else end), WRITTEN)
            del mine[log.end_offset :]
        stored = log_file(leader).read_bytes()
        for position, header in headers(stored):
            if header.base_offset >= log.end_offset:
                view = memoryview(bytearray(stored[position : position + header.size]))
                log.append_copy(view, header, WRITTEN)
                mine += theirs[header.base_offset : header.next_offset]
        flush(log)
