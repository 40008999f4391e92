"""What tests of the journal tell it, and what they compare afterwards."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.accounting.parcels import BatchKind, Eventless, Outgoing, Parcel
from agent.accounting.runs import Fingerprint, KnownSource, Progress, Run, SourceId, WindowCount
from agent.journal.binding import Binding
from agent.journal.contents import JournalContents
from agent.journal.generations import GenerationFile, path_of
from agent.journal.journal import Journal
from agent.journal.opening import OpenedJournal, lock, opened
from agent.journal.recovery import JournalOwner
from agent.journal.state import JournalState, OpenBatch, Statement
from client.producing.delivery import Batch, TopicPartition
from client.producing.identity import Identity
from wire.record_batches.records import Record, build_batch

ME = Identity(7, 0)
A, B = SourceId("a"), SourceId("b")
LIMIT = 1 << 30
OPEN: list[tuple[Path, Journal]] = []


def open_journal(
    directory: Path, *, sync: bool = False, limit: int = LIMIT, ledger: bool = True
) -> tuple[Journal, JournalState]:
    """Closed when the test is over, if not before."""
    binding = Binding.of(directory)
    journal, state = Journal.open(
        directory, sync=sync, limit_bytes=limit, host_binding=binding, ledger=ledger
    )
    OPEN.append((directory, journal))
    return journal, state


def journal_on(
    tmp_path: Path, device: str, *, sync: bool = False, size: int = 0, limit: int = LIMIT
) -> Journal:
    """One whose file is a device that takes writes as disks do when they fail."""
    held = lock(tmp_path)
    first = opened(tmp_path, Binding.of(tmp_path))
    first.file.close()
    fd = os.open(device, os.O_RDWR)
    generation = first.generation + 1
    broken = GenerationFile(path_of(tmp_path, generation), fd, size)
    owner = JournalOwner(first.owner.agent_id, first.owner.binding, first.owner.salt)
    found = OpenedJournal(owner, JournalContents(owner.agent_id), first.key, broken, generation, 0)
    journal = Journal(found, held, sync=sync, limit_bytes=limit)
    OPEN.append((tmp_path, journal))
    return journal


def reopened(directory: Path, **options: Any) -> tuple[Journal, JournalState]:
    close_journals(directory)
    return open_journal(directory, **options)


def close_journals(directory: Path | None = None) -> None:
    """Those of this directory; all of them without one."""
    for each in OPEN[:]:
        if directory in {None, each[0]}:
            OPEN.remove(each)
            each[1].close()


def known(source: SourceId = A, position: int = 0, **other: object) -> KnownSource:
    values: dict[str, object] = {
        "input": "shop",
        "topic": "views",
        "path": f"/var/log/{source}.log",
        "device": 1,
        "inode": 2**63 + 5,
        "fingerprint": Fingerprint(3, b"abc"),
    }
    progress = Progress(position)
    return KnownSource(id=source, progress=progress, **(values | other))  # type: ignore[arg-type]


def batch(records: int = 1, topic: str = "views", partition: int = 0, fill: bytes = b"x") -> Batch:
    messages = [Record(offset, 60_000, None, fill) for offset in range(records)]
    return Batch(TopicPartition(topic, partition), build_batch(messages, leader_epoch=-1))


def run(source: SourceId = A, seq: int = 0, events: int = 1, position: int = 0) -> Run:
    return Run(source, seq, events, position, position + 10 * events, events)


def outgoing(number: int, *runs: Run, **other: object) -> Outgoing:
    records = sum(each.events for each in runs) or 1
    values: dict[str, object] = {
        "kind": BatchKind.EVENTS,
        "batch": batch(records),
        "runs": runs,
        "windows": (WindowCount(60_000, records),),
        "delays": (records,),
    }
    return Outgoing(number, **(values | other))  # type: ignore[arg-type]


def ledger(number: int, *covers: int, entries: int = 1) -> Outgoing:
    return Outgoing(number, BatchKind.LEDGER, batch(entries, "_audit"), covers=covers)


def parcel(*batches: Outgoing, eventless: Sequence[Eventless] = ()) -> Parcel:
    """One that brings its sources to where its runs end."""
    runs = [run for each in batches for run in each.runs] + [each.run for each in eventless]
    progress = {run.source: Progress(run.end_position, run.seq + run.events) for run in runs}
    return Parcel(batches, eventless, progress)


@dataclass(frozen=True)
class Seen:
    """All that a journal holds, so that it can be compared."""

    sources: frozenset[KnownSource]
    open: tuple[object, ...]
    statements: tuple[object, ...]
    partitions: object
    acknowledged_offsets: object
    looked: object
    ledger_seq: int
    ledger_head: bytes


def seen(state: JournalState) -> Seen:
    return Seen(
        frozenset(state.sources),
        tuple(map(plain, state.open)),
        said(state.statements),
        dict(state.partitions),
        dict(state.acknowledged_offsets),
        dict(state.looked),
        state.ledger_seq,
        state.ledger_head,
    )


def seen_contents(contents: JournalContents) -> Seen:
    return Seen(
        frozenset(contents.sources()),
        tuple(map(plain, contents.open_in_order())),
        said(tuple(contents.statements.values())),
        dict(contents.partitions),
        dict(contents.acknowledged_offsets),
        dict(contents.looked),
        contents.ledger_seq,
        contents.ledger_head,
    )


def plain(each: OpenBatch) -> object:
    out = each.outgoing
    carried = (out.number, out.kind, out.batch.target, out.batch.data)
    told = (out.runs, out.windows, out.delays, out.covers)
    return carried, told, each.numbers, each.place


def said(statements: Sequence[Statement]) -> tuple[object, ...]:
    return tuple(
        (each.number, each.topic, each.run) if isinstance(each, Eventless) else each
        for each in statements
    )


def files(directory: Path) -> list[Path]:
    """The oldest first."""
    return sorted(path for path in directory.iterdir() if path.suffix == ".log")


def flip(path: Path, position: int, mask: int = 1) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        (byte,) = os.pread(fd, 1, position)
        os.pwrite(fd, bytes([byte ^ mask]), position)
    finally:
        os.close(fd)


def wait_for_new_file() -> None:
    """If one is being made."""
    for thread in threading.enumerate():
        if thread.name == "journal":
            thread.join()
