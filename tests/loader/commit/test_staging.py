"""What a job has left is just what its reports say."""

from collections.abc import Callable, Sequence

import msgspec
import pytest
from msgspec.structs import replace

from loader.commit.sources import LandedSources
from loader.commit.staging import (
    Staged,
    StagedFile,
    check,
    memory_warnings,
    read_again,
    reshaped,
    staged,
    verified,
)
from loader.errors import Mismatch
from loader.landing.pieces import FileKind
from loader.store.store import Store
from loader.values.reports import LandedWindow, SliceReport
from tests.loader.commit.made_up import HOUR, NEXT_HOUR, left_by, piece, report

JOB = "_penstock/t/staging/run-1-x/pieces"
AT = "dt=2026-11-20/hour=00"
NONE = "dt=none/hour=none"


def put(store: Store, path: str, data: bytes = b"rows") -> None:
    store.replace(f"{JOB}/{path}", data)


def put_report(store: Store, of: SliceReport, name: str = "part-0.txt") -> None:
    path = f"kind=report/slice={of.slice}/{NONE}/{name}"
    put(store, path, msgspec.json.encode(of) + b"PAR1")


def test_what_a_job_has_left(store: Store) -> None:
    first = report(piece(0, 0, 10), {HOUR: 9}, dead=1)
    put_report(store, first)
    put(store, f"kind=rows/slice=0/{AT}/part-0-abc.c000.txt")
    put(store, f"kind=rows/slice=0/{AT}/.part-0-abc.c000.txt.crc")
    put(store, f"kind=dead/slice=0/{NONE}/part-0-abc.c000.txt", b"dead.")
    put(store, "_SUCCESS", b"")
    left = staged(store, JOB, LandedSources())
    assert left.reports == {0: first}
    assert set(left.files) == {
        StagedFile(FileKind.ROWS, 0, HOUR, f"{JOB}/kind=rows/slice=0/{AT}/part-0-abc.c000.txt", 4),
        StagedFile(
            FileKind.DEAD, 0, None, f"{JOB}/kind=dead/slice=0/{NONE}/part-0-abc.c000.txt", 5
        ),
    }
    check([piece(0, 0, 10)], left)


REPORT = f"kind=report/slice=0/{NONE}"
ROWS = f"kind=rows/slice=0/{AT}"
OF_SLICE_1 = msgspec.json.encode(report(piece(1, 0, 10), {}))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        *(
            ({path: b"rows"}, f"{path} is not a file of a load")
            for path in (
                "part-0.txt",
                f"kind=rows/slice=x/{AT}/part-0.txt",
                f"kind=odd/slice=0/{AT}/part-0.txt",
                f"kind=rows/{AT}/part-0.txt",
                f"{ROWS}/deeper/part-0.txt",
                f"slice=0/{AT}/part-0.txt",
            )
        ),
        *(
            ({f"{REPORT}/part-0.txt": content}, "is not a report")
            for content in (b"", b"PAR1", b"{}PAR1", b'{"slice": 0')
        ),
        ({f"{REPORT}/part-0.txt": OF_SLICE_1}, "is the report of slice 1"),
        (dict.fromkeys([f"{ROWS}/1", f"{ROWS}/2"], b""), "slice 0 has two files of rows"),
        (dict.fromkeys([f"{REPORT}/1", f"{REPORT}/2"], b"{}"), "slice 0 has two reports"),
    ],
)
def test_what_no_load_has_left(store: Store, files: dict[str, bytes], said: str) -> None:
    for path, data in files.items():
        put(store, path, data)
    with pytest.raises(Mismatch, match=said):
        staged(store, JOB, LandedSources())


def test_other_formats_take_the_place_of_rows(store: Store) -> None:
    put(store, f"kind=rows/slice=0/{AT}/part-0.txt")
    put(store, f"kind=mixed/slice=0/{NONE}/part-0.txt")
    put(store, f"kind=dead/slice=0/{NONE}/part-0.txt")
    divided = reshaped(staged(store, JOB, LandedSources()), {FileKind.MIXED}, store, "none")
    assert {each.kind for each in divided.files} == {FileKind.ROWS, FileKind.DEAD}
    for name in ("part-0-x.c000.zstd.orc", "part-1-x.c000.zstd.orc", "_SUCCESS"):
        store.replace(f"orc/slice=0/{AT}/{name}", b"orc")
    left = reshaped(
        staged(store, JOB, LandedSources()), {FileKind.ROWS, FileKind.MIXED}, store, "orc"
    )
    assert [(each.kind, each.hour, each.suffix) for each in left.files] == [
        (FileKind.DEAD, None, ".parquet"),
        (FileKind.ROWS, HOUR, ".zstd.orc"),
        (FileKind.ROWS, HOUR, ".zstd.orc"),
    ]


def test_what_cannot_be_remembered_is_told() -> None:
    plain, wild = piece(0, 0, 10), piece(1, 10, 20)
    left = left_by(report(plain, {HOUR: 10}, sources={"a": ((0, 9),)}))
    assert list(memory_warnings(left)) == []
    wildly = report(wild, {HOUR: 10}, scattered=("b", "c"))
    untracked = msgspec.structs.replace(report(plain, {HOUR: 10}), untracked=1_234)
    scattered, many = memory_warnings(left_by(untracked, wildly))
    assert scattered.startswith("the numbers of 2 sources, such as b, are too scattered")
    assert many.startswith("1,234 rows are of more sources than a task can remember")


def test_slices_that_were_landed_again() -> None:
    slices = [piece(0, 0, 10), piece(1, 10, 20)]
    first = left_by(report(slices[0], {HOUR: 10}), report(slices[1], {HOUR: 5, NEXT_HOUR: 5}))
    second = left_by(report(slices[1], {HOUR: 5}, duplicates=5))
    left = read_again(first, second)
    check(slices, left)
    assert left.reports[1].duplicates == 5
    assert [(each.slice, each.hour) for each in left.files] == [(0, HOUR), (1, HOUR)]


PIECES = [piece(0, 0, 10), piece(1, 10, 20)]
REPORTS = [report(PIECES[0], {HOUR: 9}, dead=1), report(PIECES[1], {HOUR: 5, NEXT_HOUR: 5})]


def test_what_fits() -> None:
    check(PIECES, left_by(*REPORTS))
    check([piece(0, 0, 10)], left_by(report(piece(0, 0, 10), {}, no_events=0)))  # one hole
    check([piece(0, 0, 10)], left_by(report(piece(0, 0, 10), {HOUR: 12}, next_offset=12)))


def with_files(change: Callable[[Sequence[StagedFile]], Sequence[StagedFile]]) -> Staged:
    left = left_by(*REPORTS)
    return replace(left, files=tuple(change(left.files)))


def changed(**fields: object) -> Staged:
    return left_by(msgspec.structs.replace(REPORTS[0], **fields), REPORTS[1])


def accounted(**fields: object) -> Staged:
    account = msgspec.structs.replace(REPORTS[0].accounts[0], **fields)
    return changed(accounts=(account,))


MISFITS = {
    "a slice without a report": (left_by(REPORTS[0]), "missing or unexpected reports: \\[1\\]"),
    "a report without a slice": (left_by(*REPORTS, report(piece(2, 20, 30), {})), "3 of 2 slices"),
    "a file is missing": (
        with_files(lambda files: files[1:]),
        "slice 0: files of rows are missing or superfluous",
    ),
    "a file too many": (
        with_files(lambda files: [*files, replace(files[0], hour=NEXT_HOUR)]),
        "slice 0: files of rows are missing or superfluous",
    ),
    "rows were not divided": (
        with_files(lambda files: [replace(files[0], kind=FileKind.MIXED, hour=None), *files[1:]]),
        "slice 0: files of ",
    ),
    "another topic": (changed(topic="u"), "the report of slice 0 does not add up"),
    "another partition": (changed(partition=1), "the report of slice 0 does not add up"),
    "another range": (changed(first=1), "the report of slice 0 does not add up"),
    "not read to its end": (changed(next_offset=9), "does not add up"),
    "an account that ends too early": (accounted(next_offset=9), "does not add up"),
    "more rows than in windows": (changed(rows={HOUR: 8}), "does not add up"),
    "fewer rows than are accounted for": (accounted(rows=8, compacted=1), "does not add up"),
    "rows in another hour": (changed(rows={NEXT_HOUR: 9}), "does not add up"),
    "duplicates of no window": (accounted(duplicates=1, rows=8), "does not add up"),
    "other dead letters": (changed(dead={"x": 2}), "does not add up"),
    "offsets of which nothing is known": (accounted(rows=8), "does not add up"),
    "more than there are offsets": (accounted(compacted=1), "does not add up"),
    "an offset read twice": (
        left_by(report(PIECES[0], {HOUR: 11}, next_offset=11), REPORTS[1]),
        "t-0: offsets 10 to 10 were read by two slices",
    ),
    "an offset that is nobody's": (
        left_by(REPORTS[0], report(PIECES[1], {HOUR: 8}, no_events=0, leads=0)),
        "t-0: offsets 10 to 11 were read by no slice",
    ),
}


@pytest.mark.parametrize(("left", "says"), MISFITS.values(), ids=MISFITS.keys())
def test_what_does_not_fit(left: Staged, says: str) -> None:
    with pytest.raises(Mismatch, match=says):
        check(PIECES, left)


def test_a_batch_that_reaches_into_the_next_slice() -> None:
    """Which begins with the batch behind it."""
    first = report(PIECES[0], {HOUR: 12}, next_offset=12)
    check(PIECES, left_by(first, report(PIECES[1], {HOUR: 8}, no_events=0, leads=0)))


def test_partitions_do_not_overlap() -> None:
    other = piece(1, 5, 15, partition=1)
    check([PIECES[0], other], left_by(REPORTS[0], report(other, {HOUR: 10})))


def test_of_some_hours_the_dead_of_others_are_not_told_by_window() -> None:
    account = REPORTS[0].accounts[0]
    account = msgspec.structs.replace(account, windows=(LandedWindow(start=HOUR, rows=9),))
    found = msgspec.structs.replace(REPORTS[0], accounts=(account,))
    check(PIECES, left_by(found, REPORTS[1]), some_hours=True)
    with pytest.raises(Mismatch):
        check(PIECES, left_by(found, REPORTS[1]))


def test_rows_are_those_that_were_counted() -> None:
    left = left_by(*REPORTS)
    uncounted = replace(left, files=tuple(replace(file, rows=-1) for file in left.files))
    counts = {file.path: file.rows for file in left.files}
    assert verified(counts, uncounted) == left
    for path, rows in counts.items():
        with pytest.raises(Mismatch, match="were written, and"):
            verified({**counts, path: rows + 1}, uncounted)
        with pytest.raises(Mismatch, match="was not counted"):
            verified({each: n for each, n in counts.items() if each != path}, uncounted)
