"""Open files that outlive the program that had them: kept, given back, and handed over."""

import os
import socket
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent.open_files.descriptor_store import DescriptorStore as AgentsSide
from harness.processes.waiting import wait_until
from penstock.up.child_process import Child
from penstock.up.descriptor_store import ProgramDescriptors

WITHIN = 30.0


@pytest.fixture
def store() -> Iterator[ProgramDescriptors]:
    with ProgramDescriptors(3) as store:
        store.listen_to(os.getpid())
        yield store


@pytest.fixture
def side(store: ProgramDescriptors) -> Iterator[AgentsSide]:
    side = AgentsSide(store.environment)
    yield side
    side.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_text("words")
    fd = os.open(path, os.O_RDONLY)
    path.unlink()
    yield fd
    os.close(fd)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def tell(store: ProgramDescriptors, message: bytes, fds: Sequence[int] = ()) -> None:
    address = "\0" + store.environment["NOTIFY_SOCKET"][1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        channel.sendmsg([message], rights, 0, address)


def test_kept_until_it_is_given_back(
    store: ProgramDescriptors, side: AgentsSide, file: int
) -> None:
    assert side.most == 3
    side.keep("one", file)
    (kept,) = store.kept().items()
    assert kept[0] == "one"
    assert os.pread(kept[1], 10, 0) == b"words"
    assert os.fstat(kept[1]).st_nlink == 0
    assert not os.get_inheritable(kept[1])
    side.give_back("one")
    assert not store.kept()


def test_nothing_is_left_open(store: ProgramDescriptors, side: AgentsSide, file: int) -> None:
    before = open_files()
    for name in ("a", "a", "b", "c", "d", "e"):
        side.keep(name, file)
        store.kept()
    assert sorted(store.kept()) == ["a", "b", "c"]
    assert open_files() == before + 4, "three files, and the socket of the agent's side"
    side.give_back("never kept")
    for name in store.kept():
        side.give_back(name)
    store.kept()
    assert open_files() == before + 1


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"FDSTORE=1",
        b"FDNAME=one",
        b"FDSTORE=0\nFDNAME=one",
        b"FDSTORE=1\nFDNAME=",
        b"FDSTORE=1\nFDNAME=\xff",
        b"FDSTORE=1\nFDNAME=one\n" + b"x" * 5000,
    ],
)
def test_what_does_not_ask_for_it_is_not_kept(
    store: ProgramDescriptors, file: int, message: bytes
) -> None:
    before = open_files()
    tell(store, message, [file])
    assert not store.kept()
    assert open_files() == before


def test_many_in_one_message(store: ProgramDescriptors, file: int) -> None:
    """One name, one file."""
    before = open_files()
    tell(store, b"FDSTORE=1\nFDNAME=one", [file] * 253)
    assert list(store.kept()) == ["one"]
    assert open_files() == before + 1


def test_only_the_program_is_listened_to(
    store: ProgramDescriptors, side: AgentsSide, file: int
) -> None:
    before = open_files()
    store.listen_to(1)
    side.keep("one", file)
    assert not store.kept()
    assert open_files() == before + 1


def test_a_thread_takes_what_comes(store: ProgramDescriptors, side: AgentsSide, file: int) -> None:
    """A queue of datagrams is short: nobody who looks after programs is waited for."""
    for number in range(2_000):
        name = str(number % 3)

        def is_taken(name: str = name) -> bool:
            try:
                side.keep(name, file)
                side.give_back(name)
            except BlockingIOError:
                return False
            return True

        wait_until(is_taken, within=WITHIN, what="there is room again", every=0.001)


SAYS_WHAT_IT_HAS = """
import os
from agent.open_files.descriptor_store import take_over
for each in take_over():
    print(each.fd, each.name, os.pread(each.fd, 10, 0).decode(), os.get_inheritable(each.fd))
print([name for name in os.environ if name.startswith("LISTEN")], flush=True)
"""


def test_handed_to_the_next_process(tmp_path: Path, store: ProgramDescriptors) -> None:
    side = AgentsSide(store.environment)
    for name in ("a.1", "b.2", "c.3"):
        path = tmp_path / name
        path.write_text(f"of {name}")
        fd = os.open(path, os.O_RDONLY)
        side.keep(name, fd)
        os.close(fd)
    side.close()
    log = tmp_path / "log"
    child = Child(
        [sys.executable, "-c", SAYS_WHAT_IT_HAS],
        log=log,
        directory=Path.cwd(),
        environment=store.environment,
        open_files=store.kept(),
    )
    wait_until(lambda: bool(child.ended), within=WITHIN, what="it has ended")
    assert child.ended == "exit code 0", log.read_text()
    *said, left = log.read_text().splitlines()
    names = sorted(store.kept(), key=store.kept().__getitem__)  # in the order of their numbers
    assert said == [f"{3 + at} {name} of {name} False" for at, name in enumerate(names)]
    assert left == "[]"
    assert len(store.kept()) == 3, "they stay, for the one after it"


def test_what_is_meant_for_another_process_is_not_taken() -> None:
    script = "from agent.open_files.descriptor_store import take_over; print(list(take_over()))"
    said = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LISTEN_PID": "1", "LISTEN_FDS": "5", "LISTEN_FDNAMES": "a"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "[]\n"
