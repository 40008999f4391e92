"""Whether a file is one that is remembered, when device and inode say so."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.accounting.runs import KnownSource, Progress, SourceId
from agent.files.listing import sighting_from
from agent.open_files.open_file_limit import Handles
from agent.recognition.file_properties import born_ns
from agent.recognition.followed import Followed
from agent.recognition.identity import FULL, Sighting, fingerprint
from agent.recognition.memory import FoundFile, Memory
from agent.recognition.originals import Originals

TEXT = b"backup done\n" * 10
SEEN_NS = 5_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[FoundFile, Sighting]]:
    """Born when it was seen."""
    path = tmp_path / "app.log"
    path.write_bytes(TEXT)
    fd = os.open(path, os.O_RDONLY)
    sighting = sighting_from(os.fstat(fd), str(path))
    yield replace(FoundFile.of(fd, len(TEXT)), born_ns=SEEN_NS), sighting
    os.close(fd)


def known(sighting: Sighting, mark: int = 0) -> KnownSource:
    return KnownSource(
        SourceId("s1"),
        "in",
        "t",
        sighting.path,
        *sighting.identity,
        fingerprint(TEXT),
        Progress(len(TEXT), mark=mark),
        finished=True,
        seen_millis=SEEN_NS // 1_000_000,
    )


def finds(remembered: KnownSource, found: FoundFile, sighting: Sighting) -> bool:
    memory = Memory()
    memory.add(remembered)
    return memory.find(sighting, found, lambda _: False) is remembered


@pytest.mark.parametrize(
    ("born", "same"), [(SEEN_NS, True), (SEEN_NS - 1, True), (SEEN_NS + 1, False), (0, True)]
)
def test_a_file_that_is_made_later_is_another_one(
    file: tuple[FoundFile, Sighting], born: int, same: bool
) -> None:
    found, sighting = file
    assert finds(known(sighting), replace(found, born_ns=born), sighting) is same
    never_seen = replace(known(sighting), seen_millis=0)
    assert finds(never_seen, replace(found, born_ns=born), sighting)


def test_what_was_read_last_stands_there(file: tuple[FoundFile, Sighting]) -> None:
    found, sighting = file
    assert finds(known(sighting, mark=zlib.crc32(TEXT[-64:])), found, sighting)
    assert not finds(known(sighting, mark=zlib.crc32(TEXT[-64:]) ^ 1), found, sighting)
    assert not finds(known(sighting, mark=zlib.crc32(TEXT[-63:])), found, sighting)


def test_when_a_file_was_made(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        made = born_ns(file.fileno())
        status = os.fstat(file.fileno())
        assert made <= status.st_mtime_ns
        if made:  # not every file system knows
            file.write("x")
            file.flush()
            assert born_ns(file.fileno()) == made > status.st_mtime_ns - 10**9
    assert born_ns(-1) == 0


@pytest.mark.parametrize(("size", "is_known"), [(FULL, True), (FULL - 1, False)])
def test_renamed_while_devices_were_numbered_anew(
    tmp_path: Path, size: int, is_known: bool
) -> None:
    """As on file systems that have another number after each start of the machine. Of a file that
    begins as it did, and no more is known than that, the name must be the same."""
    path = tmp_path / "app.log.1"
    path.write_bytes(b"x" * size)
    fd = os.open(path, os.O_RDONLY)
    sighting = sighting_from(os.fstat(fd), str(path))
    before = replace(
        known(sighting),
        device=sighting.device + 1,
        path=str(tmp_path / "app.log"),
        fingerprint=fingerprint(b"x" * size),
        seen_millis=0,
        progress=Progress(size),
    )
    memory = Memory()
    memory.add(before)
    found = memory.find(sighting, FoundFile.of(fd, size), lambda _: False)
    os.close(fd)
    assert (found == before) == is_known


# Which of very many files that begin alike a copy may have been made of

HEAD = b"#" * 1024


def test_the_one_whose_name_it_has_is_found_among_thousands() -> None:
    originals, handles = Originals(), Handles(1)
    files = [Followed(f"/logs/{at}.x.log", (1, at), None, handles) for at in range(3000)]
    for each in files:
        each.content.head = HEAD
        originals.note(each)
    for name in ("7.x.log.1", "7.x-20261120.log", "7.x.log"):
        found = list(originals.of(HEAD, f"/logs/{name}"))
        assert found[0] is files[7]
        assert len(found) < 1000
        assert len(set(found)) == len(found)
    for each in files:
        originals.drop(each)
    assert list(originals.of(HEAD, "/logs/7.x.log.1")) == []
