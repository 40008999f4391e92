"""Which open files are kept where not all can be, and what they are called, there and back."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.accounting.runs import SourceId
from agent.open_files.descriptor_store import DescriptorStore as AgentsSide
from agent.open_files.kept_files import (
    BUDGET,
    Keeping,
    KeptKind,
    KeptName,
    file_name,
    own_name,
    read_name,
    with_path,
)
from penstock.up.descriptor_store import ProgramDescriptors

AGENT = "0123456789ABCDEFGHIJ"
OTHER = "ABCDEFGHIJ0123456789"


@given(path=st.binary(max_size=300), source=st.sampled_from(["", "s"]))
def test_there_and_back(path: bytes, source: str) -> None:
    name = file_name(AGENT, (65024, 9994449), SourceId(source))
    kind = KeptKind.FILE if source else KeptKind.NEW
    assert read_name(name, AGENT) == KeptName(kind)
    longer = with_path(name, path.decode(errors="surrogateescape"))
    # What systemd takes for a name.
    assert len(longer) <= 255
    assert all(" " < character < "\x7f" and character != ":" for character in longer)
    found = read_name(longer, AGENT)
    assert found is not None
    assert found.path.encode(errors="surrogateescape") == (path if longer != name else b"")
    assert read_name(longer, OTHER) is None


@pytest.mark.parametrize("name", ["", "stored", "a.b.c", f"{AGENT[:12]}.other.1-2", "..", "."])
def test_what_others_have_stored(name: str) -> None:
    assert read_name(name, AGENT) is None


def test_the_queue_of_events() -> None:
    assert read_name(own_name(AGENT, KeptKind.EVENTS), AGENT) == KeptName(KeptKind.EVENTS)


class File:
    """One that is open."""

    def __init__(
        self,
        path: Path,
        number: int,
        *,
        unread: int = 0,
        nameless: bool = False,
        written: float = 0.0,
        source: str = "s",
    ) -> None:
        self.path = str(path)
        self.identity = (1, number)
        self.fd: int | None = os.open(path, os.O_RDONLY)
        self.unread, self.nameless, self.idle_since = unread, nameless, written
        self.source = SourceId(source)


class Run:
    """A store for so many, and an agent's side of it."""

    def __init__(self, most: int, folder: Path) -> None:
        self.store = ProgramDescriptors(most)
        self.store.listen_to(os.getpid())
        self.keeping = Keeping(AgentsSide(self.store.environment), AGENT)
        self.now = 0.0
        self.files: list[File] = []
        self._path = folder / "file"
        self._path.touch()

    def open(self, number: int, **more: object) -> File:
        file = File(self._path, number, **more)  # type: ignore[arg-type]
        self.files.append(file)
        self.keeping.opened(file)
        return file

    def close(self, file: File) -> None:
        assert file.fd is not None
        os.close(file.fd)
        file.fd = None
        self.files.remove(file)
        self.keeping.closed(file)

    def kept(self, looks: int = 60) -> list[int]:
        """Numbers of those that are, after some looks."""
        for _ in range(looks):
            self.now += 0.05
            self.keeping.flush(self.now)
            self.store.kept()  # makes room in the queue
        return sorted(int(name.rpartition("-")[2], 16) for name in self.store.kept())

    def end(self) -> None:
        for file in list(self.files):
            self.close(file)
        self.keeping.close()
        self.store.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(6, tmp_path)  # two places of which are for what is no file
    yield run
    run.end()


def test_what_is_open_is_kept_and_nothing_else(run: Run) -> None:
    files = [run.open(number) for number in range(4)]
    assert run.kept() == [0, 1, 2, 3]
    run.close(files[1])
    run.close(files[3])
    assert run.kept() == [0, 2]
    again = run.open(1)
    run.close(again)  # between two looks
    assert run.kept() == [0, 2]


def test_two_handles_of_one_file_are_one(run: Run) -> None:
    one, _other = run.open(7), run.open(7)
    assert run.kept() == [7]
    run.close(one)
    assert run.kept() == [7]


def test_the_limit_is_never_exceeded_and_what_matters_most_is_kept(run: Run) -> None:
    for number in range(4):
        run.open(number, written=float(number))
    assert run.kept() == [0, 1, 2, 3]
    run.open(10, unread=1)
    run.open(11, written=100.0)
    run.open(12, written=-5.0)
    run.open(13, unread=1, nameless=True)
    assert run.kept() == [3, 10, 11, 13]
    assert len(run.store.kept()) == run.keeping.kept == 4
    run.close(run.files[3])  # 3, so that the one that was written before it has a place
    assert run.kept() == [2, 10, 11, 13]


def test_those_that_matter_alike_take_no_turns(run: Run) -> None:
    for number in range(20):
        run.open(number)
    first = run.kept()
    assert len(first) == 4
    assert run.kept() == first


@pytest.mark.not_quick("measures time")
def test_handles_that_come_and_go_cost_little(run: Run) -> None:
    """As where there are many more files than handles."""
    sent: list[str] = []
    keep, give_back = run.keeping._store.keep, run.keeping._store.give_back

    def count_kept(name: str, fd: int) -> None:
        sent.append(name)
        keep(name, fd)

    def count_given_back(name: str) -> None:
        sent.append(name)
        give_back(name)

    run.keeping._store.keep = count_kept  # type: ignore[method-assign]
    run.keeping._store.give_back = count_given_back  # type: ignore[method-assign]
    last = None
    for number in range(20_000):
        if last is not None:
            run.close(last)
        last = run.open(number)
        if number % 10 == 0:
            run.kept(1)  # twenty looks a second
    assert len(sent) < 2 * (2_000 + 100 * run.now)
    assert run.kept(400) == [19_999], "what is open in the end is kept, and nothing else"


@pytest.mark.not_quick("very many files")
def test_all_names_fit_into_one_variable(tmp_path: Path) -> None:
    """Of very many files, each of which is new and has a long path."""
    run = Run(20_000, tmp_path)
    try:
        for number in range(6_000):
            file = run.open(number, source="")
            file.path = f"/{'x' * 150}/{number}"
            os.close(file.fd or 0)  # a test has not so many
            file.fd = run.files[0].fd if number else os.open(tmp_path, os.O_RDONLY)
        sent: list[str] = []
        run.keeping._store.keep = lambda name, fd: sent.append(name)  # type: ignore[method-assign]
        for _ in range(1_500):
            run.now += 0.05
            run.keeping.flush(run.now)
        assert len(":".join(sent)) <= BUDGET < 128 * 1024
        assert len(sent) > 1_500
        found = read_name(sent[0], AGENT)
        assert found is not None
        assert found.kind is KeptKind.NEW
        assert found.path.endswith("/0")
    finally:
        for file in run.files[1:]:
            file.fd = None
        run.files = run.files[:1]
        run.end()


def test_without_a_store_nothing_is_given_away(tmp_path: Path) -> None:
    keeping = Keeping(AgentsSide({"NOTIFY_SOCKET": str(tmp_path / "absent")}), AGENT)
    (tmp_path / "file").touch()
    file = File(tmp_path / "file", 1)
    keeping.opened(file)
    keeping.flush(1.0)
    assert keeping.kept == 0
    os.close(file.fd or 0)


def test_a_store_that_does_not_answer_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = {"NOTIFY_SOCKET": str(tmp_path / "absent"), "FDSTORE": "10"}
    keeping = Keeping(AgentsSide(address), AGENT)
    (tmp_path / "file").touch()
    file = File(tmp_path / "file", 1)
    keeping.opened(file)
    for now in range(10):
        keeping.flush(float(now))
    assert keeping.kept == 0
    assert len([each for each in caplog.messages if "cannot keep" in each]) == 1
    keeping.close()
    os.close(file.fd or 0)
