"""The kernel's events in memory that outlives whoever reads them."""

import os
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from inotify_simple import INotify, flags

from agent.history.memory import EventMemory, FolderNote, LastLook, NoteKind, RawEvent

WATCHED = FolderNote(NoteKind.WATCHED, 7, "/var/log/app", 1, 2)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[INotify]:
    with INotify(nonblocking=True) as inotify:
        inotify.add_watch(tmp_path, flags.CREATE | flags.DELETE)
        yield inotify


@pytest.fixture
def memory() -> Iterator[EventMemory]:
    made = EventMemory.made()
    yield made
    made.close()


def names(records: object) -> list[str]:
    return [each.name for each in records if isinstance(each, RawEvent)]  # type: ignore[attr-defined]


def successor(memory: EventMemory) -> EventMemory:
    kept = os.dup(memory.fd)
    memory.close()
    return EventMemory.adopted(kept)


def test_a_successor_finds_what_was_read_and_goes_on(
    tmp_path: Path, queue: INotify, memory: EventMemory
) -> None:
    assert memory.note(WATCHED, 0)
    (tmp_path / "one").touch()
    assert names(memory.read(queue.fileno(), 0)) == ["one"]
    memory.looked(LastLook(123, 45))
    epoch = memory.epoch
    (tmp_path / "two").touch()
    after = successor(memory)
    assert (after.epoch, after.next, after.last_look) == (epoch, 1, LastLook(123, 45))
    assert [each.name if isinstance(each, RawEvent) else each for each in after.records()] == [
        WATCHED,
        "one",
    ]
    (two,) = after.read(queue.fileno(), 0)
    assert (two.name, two.number) == ("two", 1)
    after.close()


def test_a_note_that_was_being_written_is_none(memory: EventMemory) -> None:
    """The watch number, which makes it one, comes last; and its remains are in nobody's way."""
    assert memory.note(WATCHED, 0)
    memory._bytes[memory._end + 4 : memory._end + 200] = b"x" * 196
    after = successor(memory)
    assert list(after.records()) == [WATCHED]
    assert after.note(WATCHED, 0)
    assert list(after.records()) == [WATCHED, WATCHED]
    after.close()


@pytest.mark.not_quick("very many events")
def test_what_is_no_longer_needed_makes_room(
    tmp_path: Path, queue: INotify, memory: EventMemory
) -> None:
    """And which folders are watched stays known, over any number of segments."""
    path, read = tmp_path / ("n" * 200), 0
    for number in range(50):
        assert memory.note(WATCHED._replace(watch=number + 10, path=f"/{number}"), read)
    for _ in range(60):
        for _ in range(100):
            path.touch()
            path.unlink()
        read += len(memory.read(queue.fileno(), read))
    assert read == memory.next == 12_000
    assert memory.first > 0
    assert os.fstat(memory.fd).st_size < 1 << 20
    notes = [each for each in memory.records() if isinstance(each, FolderNote)]
    assert [each.path for each in notes] == [f"/{number}" for number in range(50)]
    numbers = [each.number for each in memory.records() if isinstance(each, RawEvent)]
    assert numbers == list(range(memory.first, memory.next))
    after = successor(memory)
    assert (after.first, after.next) == (numbers[0], 12_000)
    after.close()


@pytest.mark.not_quick("very many events")
def test_it_is_said_now_and_then_what_is_no_longer_needed(
    tmp_path: Path, queue: INotify, memory: EventMemory
) -> None:
    """Each time costs a record in the journal: some five for each segment, however many looks."""
    path, said = tmp_path / ("n" * 200), 0
    for _ in range(40):
        for _ in range(50):
            path.touch()
            path.unlink()
        memory.read(queue.fileno(), memory.next)
        if memory.is_filling:
            said += 1
            memory.position_journalled()
    assert 10 <= said <= 20, "4,000 events of 224 bytes are 3.5 segments"


@pytest.mark.not_quick("very many events")
def test_what_is_needed_stays_until_there_is_no_room(tmp_path: Path, queue: INotify) -> None:
    """Then nothing is read, and the kernel's queue takes what comes: none of it is lost."""
    memory = EventMemory.made(largest=512 * 1024)
    made, read = 0, []
    while not memory.is_full:
        for _ in range(1000):
            (tmp_path / f"{made:0100d}").touch()
            made += 1
        read += memory.read(queue.fileno(), 0)
    assert made > 2000, "it grows first"
    waiting = made - len(read)
    assert waiting > 0
    assert names(memory.records()) == [f"{number:0100d}" for number in range(len(read))]
    read += memory.read(queue.fileno(), len(read))  # the journal has it all
    assert not memory.is_full
    while more := memory.read(queue.fileno(), memory.next):
        read += more
    assert names(read) == [f"{number:0100d}" for number in range(made)]
    memory.close()


def test_a_folder_that_was_given_up_is_known_until_the_kernels_last_word(
    tmp_path: Path, memory: EventMemory
) -> None:
    with INotify(nonblocking=True) as queue:
        watch = queue.add_watch(tmp_path, flags.CREATE)
        watched = FolderNote(NoteKind.WATCHED, watch, str(tmp_path), 1, 2)
        given_up = watched._replace(kind=NoteKind.GIVEN_UP)
        (tmp_path / "last").touch()
        memory.note(watched, 0)
        memory.note(given_up, 0)
        queue.rm_watch(watch)
        assert memory._renew(memory.next, 0)
        assert list(memory.records()) == [watched, given_up]
        memory.read(queue.fileno(), 0)  # "last", and that nothing more comes
        assert memory._renew(memory.next, 0)
        assert list(memory.records()) == []


def test_another_epoch_begins_with_the_folders_alone(
    tmp_path: Path, queue: INotify, memory: EventMemory
) -> None:
    memory.note(WATCHED, 0)
    (tmp_path / "one").touch()
    memory.read(queue.fileno(), 0)
    before = memory.epoch
    memory.begin_epoch()
    assert (memory.epoch != before, memory.first, memory.next) == (True, 0, 0)
    assert list(memory.records()) == [WATCHED]


@pytest.mark.parametrize("what", ["empty", "zeros", "text", "torn", "beyond"])
def test_what_is_no_memory_is_refused(tmp_path: Path, memory: EventMemory, what: str) -> None:
    path = tmp_path / "left"
    with path.open("wb") as file:
        if what in {"zeros", "text"}:
            file.write((b"\0" if what == "zeros" else b"x") * (1 << 20))
    fd = os.open(path, os.O_RDWR)
    if what in {"torn", "beyond"}:
        os.close(fd)
        memory.note(WATCHED, 0)
        fd = os.dup(memory.fd)
        if what == "torn":  # an event that is longer than all there is
            os.pwrite(fd, struct.pack("@iIII", 1, 0x100, 0, 1 << 30), 4096)
        else:  # a segment that is not there
            os.pwrite(fd, struct.pack("=QQ", 1 << 40, 1 << 20), 64 + 16)
    with pytest.raises(ValueError):
        EventMemory.adopted(fd)
    with pytest.raises(OSError):
        os.fstat(fd)


def test_a_reader_that_is_killed_anywhere_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Twenty readers, one after the other, each killed amid reading as fast as it can."""
    kept = EventMemory.made()
    with INotify(nonblocking=True) as queue:
        queue.add_watch(tmp_path, flags.CREATE)
        made, read_by_the_dead = 0, 0
        for life in range(20):
            before = kept.next
            child = os.fork()
            if not child:
                try:
                    memory = EventMemory.adopted(os.dup(kept.fd))
                    while True:
                        memory.read(queue.fileno(), 0)
                finally:
                    os._exit(1)
            until = time.monotonic() + 0.002 * (1 + life % 7)
            while time.monotonic() < until or made % 10:
                (tmp_path / f"{made:06d}").touch()
                made += 1
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            after = EventMemory.adopted(os.dup(kept.fd))
            kept.close()
            kept = after
            read_by_the_dead += kept.next - before
        kept.read(queue.fileno(), 0)
    assert names(kept.records()) == [f"{number:06d}" for number in range(made)]
    assert read_by_the_dead > 0
    kept.close()
