"""A file that was compressed and is gone is read from its archive, from where its source stood."""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.configuration.config import HoldDeleted
from agent.files.happenings import Appeared, Ended, EndUnseen, Unpacked
from agent.history.blind_times import Traces
from agent.recognition.compressed import ArchiveDamaged, unpacked
from tests.agent.files.journalled_files import JournalledFiles, LogFolder, append
from tests.agent.files.packing import PACKERS, lines, pack
from tests.agent.files.scenarios import Scenario, check, scenarios
from tests.agent.full_disk import no_file_beyond


def rotate_while_down(files: JournalledFiles, log: Path, unread: str, suffix: str = "gz") -> Path:
    files.files.close()
    append(log, unread)
    log.rename(f"{log}.1")
    archive = pack(Path(f"{log}.1"), suffix)
    append(log, "next\n")
    return archive


def settle(files: JournalledFiles) -> bytes:
    return b"".join(files.turn(1.0) for _ in range(8))


SETTLE = "turn 1; " * 8


@scenarios(
    Scenario(
        "an archive of an earlier file is not taken, though it begins alike: it is older",
        "write app.log 0..300; gzip app.log app.log.2.gz; for -86400 app.log.2.gz; rm app.log; "
        f"write app.log 0..200; turn; stop; rm app.log; start; {SETTLE}",
        "0..200",
        ("vanished app.log from 1400: *",),
    ),
    Scenario(
        "an archive with another content is not taken: bytes before the position are others",
        "write app.log 0..1000; turn; stop; set app.log 0..900 other*1000; "
        f"gzip app.log app.log.gz; rm app.log; start; {SETTLE}",
        "0..1000",
        ("vanished app.log from 7000: *",),
    ),
    Scenario(
        "gzip -c app.log > app.log.1.gz; > app.log, with lines that were not read",
        "write app.log 0..300; turn; write app.log 300..400; gzip app.log app.log.1.gz; "
        f"truncate app.log; write app.log next; {SETTLE}",
        "0..400 next",
        counts={"unpacked": 1},
    ),
)
def test_whose_archive_it_is(logs: LogFolder, scenario: Scenario) -> None:
    check(logs, scenario, ignore="* .: *")


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("known", [50, 1000])
def test_the_rest_of_a_known_file_is_read_from_its_archive(
    logs: LogFolder, suffix: str, known: int
) -> None:
    files, log = logs.follow(), logs.log
    append(log, lines(0, known))
    files.turn()
    rotate_while_down(files, log, lines(known, 2000), suffix)
    files.restart_closed()
    settle(files)
    first = files.read[0][0]
    text = b"".join(data for source, _, data in files.read if source == first)
    assert text.decode() == lines(0, 2000)
    assert [each.followed.source for each in files.of(Ended)] == [first]
    assert list(files.of(EndUnseen)) == []
    files.restart()
    assert settle(files) == b""


def test_each_line_once_over_restarts(logs: LogFolder) -> None:
    files, log = logs.follow(), logs.log
    append(log, lines(0, 500))
    files.turn()
    rotate_while_down(files, log, lines(500, 5000))
    for _ in range(20):
        files.restart_closed()
        for _ in range(3):
            files.look()
            files.read_some(1000, files=1)
        files.files.close()
    files.restart_closed()
    settle(files)
    first = files.read[0][0]
    text = b"".join(data for source, _, data in files.read if source == first)
    assert text.decode() == lines(0, 5000)


@pytest.mark.not_quick("packs and unpacks megabytes")
@pytest.mark.parametrize("suffix", PACKERS)
def test_an_archive_that_ends_too_early(logs: LogFolder, suffix: str) -> None:
    """What can be read is; what follows is unknown, and that is said."""
    files, log = logs.follow(), logs.log
    append(log, lines(0, 100))
    files.turn()
    noise = "".join(f"{zlib.crc32(str(each).encode()):08x}\n" for each in range(220_000))
    archive = rotate_while_down(files, log, noise, suffix)
    size = archive.stat().st_size
    os.truncate(archive, size // 2)
    files.restart_closed()
    settle(files)
    first = files.read[0][0]
    text = b"".join(data for source, _, data in files.read if source == first).decode()
    assert (lines(0, 100) + noise).startswith(text)
    assert len(text) > 700
    (unseen,) = files.of(EndUnseen)
    assert unseen.unwatched.position == len(text)
    assert "app.log.1" in unseen.unwatched.reason
    assert "archive is truncated" in unseen.unwatched.reason


@pytest.mark.not_quick("packs and unpacks megabytes")
def test_an_archive_that_claims_to_be_endless(logs: LogFolder) -> None:
    """No more of it is unpacked than may be held."""
    hold = HoldDeleted(bytes=20 * 1024 * 1024)
    files, log = logs.follow(hold=hold), logs.log
    append(log, lines(0, 100))
    files.turn()
    files.files.close()
    log.unlink()
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = bomb.compress(lines(0, 100).encode())
    packed += b"".join(bomb.compress(bytes(1 << 20)) for _ in range(50)) + bomb.flush()
    (logs / "app.log.1.gz").write_bytes(packed)
    files.restart_closed()
    settle(files)
    for _ in range(20):
        settle(files)
    (unseen,) = files.of(EndUnseen)
    assert 20 * 1024 * 1024 <= unseen.unwatched.position < 22 * 1024 * 1024
    assert "hold_deleted.bytes" in unseen.unwatched.reason
    assert unseen.unwatched.traces is Traces.VANISHED


def test_a_full_disk_puts_off_what_is_unpacked(logs: LogFolder) -> None:
    """A piece for which there is no room is written whole once there is."""
    files, log = logs.follow(), logs.log
    append(log, lines(0, 50))
    files.turn()
    rotate_while_down(files, log, lines(50, 100_000))
    files.restart_closed()
    with no_file_beyond(300_000):
        settle(files)
        assert len(files.text) < 400_000
    settle(files)
    first = files.read[0][0]
    text = b"".join(data for source, _, data in files.read if source == first)
    assert text.decode() == lines(0, 100_000)
    assert list(files.of(EndUnseen)) == []


@contextmanager
def archive_of(folder: Path, content: bytes) -> Iterator[int]:
    """Open to be read."""
    path = folder / "archive"
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.parametrize("suffix", PACKERS)
def test_several_streams_are_one_content(tmp_path: Path, suffix: str) -> None:
    parts = [b"a" * 1_000_000, b"b" * 1_000_000]
    with archive_of(tmp_path, b"".join(map(PACKERS[suffix], parts))) as fd:
        pieces = list(unpacked(fd))
    assert b"".join(pieces) == b"".join(parts)
    assert max(map(len, pieces)) <= 1 << 20


@pytest.mark.not_quick("packs and unpacks megabytes")
@pytest.mark.parametrize("suffix", PACKERS)
def test_streams_of_nothing_keep_nobody_waiting_and_have_an_end(
    tmp_path: Path, suffix: str
) -> None:
    """The reader of an archive looks at the time after each piece."""
    empty = PACKERS[suffix](b"")
    with archive_of(tmp_path, empty * (5_000_000 // len(empty))) as fd:
        pieces = unpacked(fd)
        assert [next(pieces) for _ in range(1_000)] == [b""] * 1_000
        with pytest.raises(ArchiveDamaged, match="without data"):
            list(pieces)


@pytest.mark.parametrize("suffix", PACKERS)
def test_bytes_that_are_flipped(tmp_path: Path, suffix: str) -> None:
    packed = bytearray(PACKERS[suffix](os.urandom(300_000)))
    packed[len(packed) // 2] ^= 0x55
    with archive_of(tmp_path, bytes(packed)) as fd, pytest.raises(ArchiveDamaged):
        list(unpacked(fd))


@pytest.mark.parametrize(
    ("head", "size", "why"),
    [
        pytest.param(b"\x1f\x8b\x08\x08" + bytes(6), 5_000_000, "without data", id="no end"),
        pytest.param(b"\x04\x22\x4d\x18 lz4", 0, "unsupported compression", id="lz4"),
    ],
)
def test_what_cannot_be_unpacked_says_why(tmp_path: Path, head: bytes, size: int, why: str) -> None:
    with archive_of(tmp_path, head + b"a" * size) as fd, pytest.raises(ArchiveDamaged, match=why):
        list(unpacked(fd))


def test_a_source_is_known_under_its_own_file(logs: LogFolder) -> None:
    """Not under that into which its archive is unpacked: the next start would not find it."""
    files, log = logs.follow(), logs.log
    append(log, lines(0, 500))
    files.turn()
    (before,) = files.journal.values()
    rotate_while_down(files, log, lines(500, 5000))
    files.restart_closed()
    files.look()
    unpacked_now = next(files.of(Unpacked)).followed
    after = files.files.snapshot_of(unpacked_now)
    assert (after.device, after.inode, after.path) == (before.device, before.inode, before.path)
    assert after.seen_millis == before.seen_millis
    assert len(list(files.of(Appeared))) >= 2
