"""Archives that were never read as plain files are read, once."""

import gzip
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.files.archive_states import plan_without_agent
from agent.files.backfill_plan import ArchiveState, ArchiveStatus, BackfillPlan
from agent.files.happenings import Compressed, Ended, EndUnseen
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import LogFolder, append, of_sources, settle, tick
from tests.agent.files.packing import PACKERS, lines, pack

DAY = 86_400


def old_archive(
    logs: LogFolder, text: str, name: str = "app.log.9.gz", *, days: float = 30
) -> Path:
    """As rotation left it many days ago."""
    path = logs / name
    path.write_bytes(PACKERS[name.rpartition(".")[2]](text.encode()))
    os.utime(path, (time.time() - days * DAY,) * 2)
    return path


def noise(count: int, seed: int = 0) -> str:
    """Lines that do not become much smaller."""
    return "".join(f"{zlib.crc32(f'{seed} {number}'.encode()):08x}\n" for number in range(count))


@pytest.mark.parametrize("suffix", PACKERS)
def test_archives_from_before_the_input_are_read_once(logs: LogFolder, suffix: str) -> None:
    append(logs.log, "now\n")
    old_archive(logs, lines(0, 5000), f"app.log.2.{suffix}", days=2)
    old_archive(logs, noise(30_000), f"app.log.3.{suffix}", days=3)
    files = logs.follow(reads_archives=True)
    settle(files)
    assert files.text.decode() == "now\n" + noise(30_000) + lines(0, 5000), "the oldest first"
    assert len(list(files.of(Ended))) == 2
    assert files.unwatched == []
    for number in (3, 2):
        (logs / f"app.log.{number}.{suffix}").rename(logs / f"app.log.{number + 1}.{suffix}")
    settle(files)
    files.restart()
    settle(files)
    assert files.text.decode().count("000001\n") == 1
    assert len(files.journal) == 3


def test_an_input_that_does_not_read_archives_says_so(logs: LogFolder) -> None:
    old_archive(logs, lines(0, 100))
    files = logs.follow()
    settle(files)
    assert files.text == b""
    assert [each.why for each in files.of(Compressed)] == [""]


@pytest.mark.parametrize("most", [1000, 70_000])
def test_a_killed_agent_continues_within_the_archive(
    logs: LogFolder, store: ProgramDescriptors, most: int
) -> None:
    text = noise(most // 2)
    old_archive(logs, text)
    files = logs.follow(reads_archives=True, store=store)
    for _ in range(12):
        for _ in range(3):
            files.look()
            files.read_some(most // 5, files=1)
        files.crash()
        files.restart_closed()
    settle(files)
    assert files.text.decode() == text
    assert len({source for source, _, _ in files.read}) == 1
    assert of_sources(files) == []


def gzip_and_remove(logs: LogFolder) -> None:
    pack(logs.log)


def gzip_and_keep(logs: LogFolder) -> None:
    (logs / "app.log.1.gz").write_bytes(gzip.compress(logs.log.read_bytes()))


def rename_and_gzip(logs: LogFolder) -> None:
    pack(logs.log.rename(logs / "app.log.1"))
    append(logs.log, "next\n")


def copy_and_truncate(logs: LogFolder) -> None:
    gzip_and_keep(logs)
    os.truncate(logs.log, 0)


@pytest.mark.parametrize("count", [3, 300], ids=["few", "many"])
@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
@pytest.mark.parametrize(
    "rotate", [gzip_and_remove, gzip_and_keep, rename_and_gzip, copy_and_truncate]
)
def test_lines_are_read_plain_or_compressed_not_both(
    logs: LogFolder, rotate: Callable[[LogFolder], None], count: int, *, is_down: bool
) -> None:
    append(logs.log, lines(0, count))
    files = logs.follow(reads_archives=True)
    settle(files)
    if is_down:
        files.crash()
    append(logs.log, lines(count, count + 5))
    if not is_down:
        files.turn()
    rotate(logs)
    if is_down:
        files.restart_closed()
    for _ in range(2):
        settle(files)
        files.restart()
    settle(files)
    assert files.text.decode().replace("next\n", "") == lines(0, count + 5)


def test_an_archive_is_known_when_its_source_is_forgotten(logs: LogFolder) -> None:
    append(logs.log, lines(0, 300))
    files = logs.follow(reads_archives=True, wall=time.time())
    settle(files)
    rename_and_gzip(logs)
    settle(files)
    for _ in range(2):
        assert files.wall is not None
        files.wall += 2 * DAY
        settle(files)
        files.restart()
        settle(files)
    paths = {Path(known.path).name for known in files.journal.values()}
    assert paths == {"app.log", "app.log.1.gz"}
    assert len(files.journal) == 2
    assert files.text.decode() == lines(0, 300) + "next\n"


def test_an_unpacked_archive_is_not_read_again(logs: LogFolder) -> None:
    archive = old_archive(logs, lines(0, 300))
    files = logs.follow(reads_archives=True)
    settle(files)
    (logs / "app.log.9").write_bytes(gzip.decompress(archive.read_bytes()))
    settle(files)
    append(logs / "app.log.9", "more\n")
    settle(files)
    assert files.text.decode() == lines(0, 300) + "more\n"


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_archive_that_is_unpacked_while_the_agent_is_down(
    logs: LogFolder, *, is_kept: bool
) -> None:
    archive = old_archive(logs, noise(3000))
    files = logs.follow(reads_archives=True)
    for _ in range(2):
        files.look()
    files.read_some(900, files=1)
    files.crash()
    unpacked, times = logs / "app.log.9", (archive.stat().st_mtime,) * 2
    unpacked.write_bytes(gzip.decompress(archive.read_bytes()))
    os.utime(unpacked, times)
    if not is_kept:
        archive.unlink()
    files.restart_closed()
    settle(files)
    assert files.text.decode() == noise(3000)


@pytest.mark.parametrize("is_read", [False, True], ids=["not read yet", "read before"])
@pytest.mark.parametrize("seconds", [0.05, 6.0])
def test_an_archive_is_unpacked_while_the_agent_looks(
    logs: LogFolder, seconds: float, *, is_read: bool
) -> None:
    """Its source reads on in the unpacked file, or has read it already, however long the disk
    takes."""
    archive = old_archive(logs, noise(3000))
    files = logs.follow(reads_archives=True)
    if is_read:
        settle(files)
    with (logs / "app.log.9").open("wb", buffering=0) as unpacked:
        for start in range(0, 27_000, 9000):
            unpacked.write(noise(3000).encode()[start : start + 9000])
            for _ in range(2):
                files.turn(seconds)
            files.crash()
            files.restart_closed()
    os.utime(logs / "app.log.9", (archive.stat().st_mtime,) * 2)
    settle(files)
    assert files.text.decode() == noise(3000)


def test_a_short_archive_that_is_unpacked_before_its_turn(logs: LogFolder) -> None:
    """The content is too short to be known by; the time of modification is the archive's."""
    old_archive(logs, noise(3000), "app.log.10.gz", days=40)
    archive = old_archive(logs, "a\nb\n")
    files = logs.follow(reads_archives=True)
    (logs / "app.log.9").write_bytes(gzip.decompress(archive.read_bytes()))
    files.look()
    os.utime(logs / "app.log.9", (archive.stat().st_mtime,) * 2)
    settle(files)
    assert files.text.decode().count("a\nb\n") == 1


def test_another_archive_with_the_same_lines(logs: LogFolder) -> None:
    """Of a host that was restored, or in another folder."""
    old_archive(logs, lines(0, 3000))
    files = logs.follow("**/app.log*", reads_archives=True)
    settle(files)
    (logs / "copies").mkdir()
    old_archive(logs, lines(0, 3000), "copies/app.log.xz")
    old_archive(logs, lines(0, 2000), "copies/app.log.2.xz")
    settle(files)
    files.restart()
    settle(files)
    assert files.text.decode() == lines(0, 3000) + lines(0, 2000), "it ends elsewhere"


def test_archives_of_a_time_when_the_input_was_followed(logs: LogFolder) -> None:
    """Their lines were read before, when the input did not read archives yet."""
    old_archive(logs, "before\n", "app.log.2.gz", days=5)
    tick()
    files = logs.follow()
    settle(files)
    tick()
    old_archive(logs, "read\n", "app.log.1.gz", days=3)
    settle(files)
    files.crash()
    tick()
    files.archives_since = {"in": time.time_ns() // 1_000_000}
    tick()
    old_archive(logs, "of another host\n", "app.log.3.gz", days=1)
    files.said.clear()
    files.inputs = [replace(each, reads_archives=True) for each in files.inputs]
    files.restart_closed()
    settle(files)
    files.restart()
    settle(files)
    assert files.text.decode() == "before\nof another host\n"
    (left,) = {(Path(each.path).name, each.why) for each in files.of(Compressed)}
    assert left == ("app.log.1.gz", "the input may have read its lines before")


@pytest.mark.parametrize(
    ("options", "text"),
    [({"start": "end"}, ""), ({"ignore_older": 7.0 * DAY}, "two\n"), ({}, "forty\ntwo\n")],
    ids=["start", "ignore_older", "all"],
)
def test_what_is_not_begun(logs: LogFolder, options: dict[str, object], text: str) -> None:
    old_archive(logs, "forty\n", "app.log.3.gz", days=40)
    old_archive(logs, "two\n", "app.log.2.gz", days=2)
    files = logs.follow(reads_archives=True, **options)
    settle(files)
    files.restart()
    settle(files)
    assert files.text.decode() == text


@pytest.mark.parametrize("suffix", PACKERS)
def test_an_archive_that_is_written(logs: LogFolder, suffix: str) -> None:
    """It is read when its writer has closed it."""
    files = logs.follow(reads_archives=True)
    settle(files)
    text = noise(2000)
    content = PACKERS[suffix](text.encode())
    with (logs / f"app.log.1.{suffix}").open("wb", buffering=0) as file:
        for end in (0, 10, 5000, len(content)):
            file.write(content[file.tell() : end])
            settle(files)
            assert files.text == b""
    settle(files)
    assert files.text.decode() == text
    assert files.unwatched == []


def test_an_input_that_no_longer_reads_archives(logs: LogFolder) -> None:
    """It does not wait for those that are written."""
    files = logs.follow(reads_archives=True)
    with (logs / "app.log.1.gz").open("wb"):
        settle(files)
        assert (files.files.undecided, files.files.waiting_archives("in")) == ({"t"}, 1)
        files.files.reconfigure([replace(each, reads_archives=False) for each in files.inputs])
        settle(files)
        assert (files.files.undecided, files.files.waiting_archives("in")) == (set(), 0)


@pytest.mark.parametrize("suffix", PACKERS)
def test_members_are_one_content_and_may_be_added(logs: LogFolder, suffix: str) -> None:
    archive = old_archive(logs, lines(0, 300), f"app.log.1.{suffix}")
    files = logs.follow(reads_archives=True)
    for end in (400, 900):
        settle(files)
        with archive.open("ab") as file:
            file.write(PACKERS[suffix](lines(end - 100, end).encode()))
            file.write(PACKERS[suffix](b""))
        files.restart()
    settle(files)
    assert files.text.decode() == lines(0, 400) + lines(800, 900)
    files.restart()
    settle(files)
    assert len(files.journal) == 1


@pytest.mark.parametrize("suffix", ["gz", "zst"])
@pytest.mark.parametrize("harm", ["truncated", "damaged"])
def test_a_harmed_archive(logs: LogFolder, suffix: str, harm: str) -> None:
    """What can be unpacked is read; from there on it is unknown."""
    text = noise(100_000)
    archive = old_archive(logs, text, f"app.log.1.{suffix}")
    size = archive.stat().st_size
    with archive.open("r+b") as file:
        file.seek(size * 2 // 3)
        if harm == "truncated":
            file.truncate()
        else:
            file.write(os.urandom(100))
    files = logs.follow(reads_archives=True)
    settle(files)
    settle(files)
    read = files.text.decode()
    assert read.startswith(text[: len(text) // 3]), "what is near the damage may be harmed"
    (unseen,) = files.of(EndUnseen)
    assert unseen.unwatched.position == len(read)
    assert f"app.log.1.{suffix}: the archive is " in unseen.unwatched.reason
    files.restart()
    settle(files)
    assert files.text.decode() == read


def test_an_archive_that_is_not_one(logs: LogFolder) -> None:
    (logs / "app.log.1.gz").write_text("plain\n")
    (logs / "app.log.2.gz").write_bytes(gzip.compress(b""))
    files = logs.follow(reads_archives=True)
    settle(files)
    assert files.text == b""
    assert [each.why for each in files.of(Compressed)] == ["unsupported compression format"]


@pytest.mark.parametrize("suffix", ["bz2", "zst"])
def test_a_bomb_is_refused(logs: LogFolder, suffix: str) -> None:
    old_archive(logs, "a" * 50_000_000, f"app.log.1.{suffix}")
    files = logs.follow(reads_archives=True)
    settle(files)
    files.restart()
    settle(files)
    assert files.text == b""
    (unseen,) = files.of(EndUnseen)
    assert "exceeds 1,000 times the archive's size" in unseen.unwatched.reason


def test_an_archive_larger_than_the_limit(logs: LogFolder) -> None:
    text = noise(100_000) * 15
    old_archive(logs, text)
    files = logs.follow(reads_archives=True, max_archive_bytes=10_000_000)
    settle(files)
    settle(files)
    assert 10_000_000 <= len(files.text) < 12_000_000
    assert text.startswith(files.text.decode())
    (unseen,) = files.of(EndUnseen)
    assert "max_archive_bytes, 10,000,000" in unseen.unwatched.reason


def test_an_archive_that_was_removed_before_its_end(logs: LogFolder) -> None:
    archive = old_archive(logs, noise(30_000))
    files = logs.follow(reads_archives=True)
    files.look()
    files.look()
    files.read_some(1000, files=1)
    files.crash()
    archive.unlink()
    files.restart_closed()
    settle(files)
    (unseen,) = files.of(EndUnseen)
    assert unseen.unwatched.position == len(files.text)
    assert files.lost == 0


def test_disk_space_is_given_back(logs: LogFolder) -> None:
    text = noise(100_000) * 36
    old_archive(logs, text, "app.log.9.zst")
    files = logs.follow(reads_archives=True)
    most_blocks = 0
    while len(files.text) < len(text):
        files.turn()
        (archive,) = (each for each in files.files.following() if each.end.unpacked)
        if archive.fd is not None:
            most_blocks = max(most_blocks, os.fstat(archive.fd).st_blocks)
    assert files.text.decode() == text
    assert most_blocks * 512 < 24 * 1024 * 1024


def states(plan: BackfillPlan | None) -> dict[str, tuple[str, str]]:
    assert plan is not None
    assert sum(total.archives for total in plan.totals) == len(plan.archives)
    return {Path(each.path).name: (each.state.value, each.why) for each in plan.archives}


def first(plan: BackfillPlan | None) -> ArchiveStatus:
    assert plan is not None
    return plan.archives[0]


def test_the_plan_says_what_happens_with_each_archive(logs: LogFolder) -> None:
    damaged = old_archive(logs, noise(30_000), "app.log.8.gz", days=8)
    damaged.write_bytes(damaged.read_bytes()[:-1000])
    os.utime(damaged, (time.time() - 8 * DAY,) * 2)
    big = old_archive(logs, noise(1_000_000, 1), "app.log.7.gz", days=7)
    old_archive(logs, lines(0, 300), "app.log.6.gz", days=6)
    old_archive(logs, lines(0, 300), "app.log.50.gz", days=50)
    old_archive(logs, "", "app.log.5.gz", days=5)
    for name in ("app.log.4.lz4", "app.log.3\n.gz"):
        (logs / name).write_bytes(b"no archive")
    files = logs.follow(reads_archives=True, ignore_older=40 * DAY)
    left = {
        "app.log.50.gz": ("skipped", "it is older than ignore_older"),
        "app.log.4.lz4": ("skipped", "its format is not read"),
    }
    without_agent = plan_without_agent(files.inputs[0], (), 1 << 50, 1 << 50, time.time())
    others = ("app.log.3\\n.gz", "app.log.5.gz", "app.log.6.gz", "app.log.7.gz", "app.log.8.gz")
    assert states(without_agent) == left | dict.fromkeys(others, ("next", ""))
    with (logs / "app.log.2.gz").open("wb") as written:
        written.write(b"\x1f\x8b")
        files.look()
        reads_big = str(big), ArchiveState.READING
        while ((row := first(files.files.backfill_plan("in"))).path, row.state) != reads_big:
            files.read_some(1 << 20)
            files.look()
        files.read_some(100_000, files=1)
        reading = first(files.files.backfill_plan("in"))
        assert reading.position == 100_000 < reading.unpacked_bytes < 9_000_000
        assert 0 < reading.compressed_bytes < reading.size == big.stat().st_size
        assert reading.bytes_per_second > 0
        while {"reading", "next"} & {
            state for state, _ in states(files.files.backfill_plan("in")).values()
        }:
            settle(files)
        read = {
            "app.log.8.gz": ("read", "the archive is truncated"),
            "app.log.7.gz": ("read", ""),
            "app.log.6.gz": ("read", ""),
            "app.log.5.gz": ("skipped", "it is empty"),
            "app.log.3\\n.gz": ("skipped", "unsupported compression format"),
        }
        waits = {"app.log.2.gz": ("waits", "until it is closed or can be read")}
        assert states(files.files.backfill_plan("in")) == left | read | waits
    (logs / "app.log.2.gz").unlink()
    (logs / "app.log.6.gz").rename(logs / "app.log.9.gz")
    settle(files)
    shown = states(files.files.backfill_plan("in"))
    assert shown == left | {name: read[name] for name in read if "6" not in name} | {
        "app.log.9.gz": ("read", "")
    }
    without_agent = plan_without_agent(
        files.inputs[0], files.journal.values(), 1 << 50, 1 << 50, time.time()
    )
    assert {name for name, (state, _) in states(without_agent).items() if state == "read"} == {
        "app.log.7.gz",
        "app.log.8.gz",
        "app.log.9.gz",
    }
