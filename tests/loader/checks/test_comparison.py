"""A folder against what should lie in it, by a model that knows what was done to each file; and
found as the ledger has it: whole, bounded, and text whatever files are called."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loader.checks.comparison import (
    UNKNOWN,
    CommittedFile,
    ExpectedHour,
    FaultyFile,
    FileFaultKind,
    HourOutcome,
    outcome_of,
    to_count,
)
from loader.checks.statements import MOST_FAULTS, digest, printable, statements, weight
from loader.ledger.entries import MOST_BYTES
from loader.ledger.observations import divided
from loader.values.tables import HOUR_MILLIS, Hour
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in

HOUR = Hour(0)
FOLDER = "t/dt=1970-01-01/hour=00"


def outcome(
    hour: ExpectedHour, sizes: dict[str, int], rows: dict[str, int], *, all_: bool = False
) -> list[FaultyFile]:
    wanted = to_count(hour, sizes, all_=all_)
    counted = {path: rows[path] for path in wanted}
    return list(outcome_of(hour, sizes, counted, all_=all_).faults)


def others(names: set[str], rows: int, size: int, unlisted: int = 0) -> ExpectedHour:
    return ExpectedHour(HOUR, FOLDER, {}, frozenset(names), unlisted, rows, size)


@given(
    st.dictionaries(
        st.text("abcd", min_size=1, max_size=3),
        st.tuples(
            st.sampled_from(["left", "gone", "cut", "spoilt", "swapped", "extra"]),
            st.integers(1, 9),
            st.integers(10, 99),
        ),
    ),
    st.booleans(),
)
def test_every_file_that_is_not_as_it_was_is_named(
    files: dict[str, tuple[str, int, int]], all_: bool
) -> None:
    known, sizes, rows = {}, {}, {}
    faults: list[FaultyFile] = []
    for path, (what, count, size) in files.items():
        if what != "extra":
            known[path] = CommittedFile(count, size, "t")
        if what != "gone":
            sizes[path], rows[path] = size, count
        match what:
            case "gone":
                faults.append(FaultyFile(path, FileFaultKind.MISSING, count, 0, "t"))
            case "cut":
                sizes[path], rows[path] = size - 1, count - 1
                faults.append(FaultyFile(path, FileFaultKind.CHANGED, count, count - 1, "t"))
            case "spoilt":
                sizes[path], rows[path] = size - 1, UNKNOWN
                faults.append(FaultyFile(path, FileFaultKind.CHANGED, count, UNKNOWN, "t"))
            case "swapped":  # for another one of the same length
                rows[path] = count + 1
                if all_:
                    faults.append(FaultyFile(path, FileFaultKind.CHANGED, count, count + 1, "t"))
            case "extra":
                faults.append(FaultyFile(path, FileFaultKind.EXTRA, 0, count))
    hour = ExpectedHour(HOUR, FOLDER, known)
    assert outcome(hour, sizes, rows, all_=all_) == sorted(faults)
    if not all_:
        wanted = [p for p, (what, *_) in files.items() if what in {"cut", "spoilt", "extra"}]
        assert to_count(hour, sizes, all_=False) == sorted(wanted)


MISSING, EXTRA, CHANGED = FileFaultKind


def test_files_of_which_only_the_sum_is_known() -> None:
    hour = others({"a", "b"}, 10, 100)
    assert (hour.files, hour.rows) == (2, 10)
    assert outcome(hour, {"a": 40, "b": 60}, {}) == []
    assert outcome(hour, {"a": 40, "b": 60}, {"a": 4, "b": 6}, all_=True) == []
    both, longer = {"a": 40, "b": 60}, {"a": 40, "b": 61}
    for sizes, rows, all_, fault in [
        (both, {"a": 4, "b": 7}, True, FaultyFile(FOLDER, CHANGED, 10, 11)),
        (longer, {"a": 4, "b": 7}, False, FaultyFile(FOLDER, CHANGED, 10, 11)),
        (longer, {"a": 4, "b": UNKNOWN}, False, FaultyFile(FOLDER, CHANGED, 10, UNKNOWN)),
        ({"a": 40}, {"a": 4}, False, FaultyFile("b", MISSING, UNKNOWN, 0)),
        ({**both, "c": 5}, {"c": 1}, False, FaultyFile("c", EXTRA, 0, 1)),
    ]:
        assert outcome(hour, sizes, rows, all_=all_) == [fault]
    alone = others({"a"}, 10, 100)
    assert outcome(alone, {}, {}) == [FaultyFile("a", FileFaultKind.MISSING, 10, 0)]
    assert outcome(alone, {"a": 99}, {"a": 9}) == [FaultyFile("a", FileFaultKind.CHANGED, 10, 9)]


def test_files_without_a_name() -> None:
    hour = others(set(), 10, 100, unlisted=2)
    assert hour.files == 2
    assert outcome(hour, {"a": 40, "b": 60}, {}) == []
    assert outcome(hour, {"a": 40}, {"a": 4}) == [FaultyFile(FOLDER, FileFaultKind.MISSING, 10, 4)]
    doubled = {"a": 40, "b": 60, "c": 60}
    rows = {"a": 4, "b": 6, "c": 6}
    assert outcome(hour, doubled, rows) == [FaultyFile(FOLDER, EXTRA, 10, 16)]
    longer = {"a": 41, "b": 60}
    assert outcome(hour, longer, {"a": 4, "b": 6}) == [FaultyFile(FOLDER, CHANGED, 10, 10)]
    # Nobody can count them: their number has to do.
    for sizes, fault in [({"a": 40}, MISSING), (doubled, EXTRA), (longer, CHANGED)]:
        unknown = dict.fromkeys(sizes, UNKNOWN)
        assert outcome(hour, sizes, unknown) == [FaultyFile(FOLDER, fault, 10, UNKNOWN)]


def test_faults_in_words() -> None:
    said = {
        str(FaultyFile("a", FileFaultKind.MISSING, 1_000, 0)): "a is missing (1,000 rows)",
        str(FaultyFile("a", FileFaultKind.EXTRA, 0, 7)): "a was written by no run (7 rows)",
        str(FaultyFile("a", FileFaultKind.CHANGED, 8, 7)): "a has 7 rows, not 8 rows",
        str(FaultyFile("a", FileFaultKind.EXTRA, 8, 9)): "a has 9 rows, not 8 rows",
        str(FaultyFile("a", CHANGED, 8, -1)): "a has an unknown number of rows, not 8 rows",
    }
    assert list(said) == list(said.values())


SEPTEMBER = Hour(497_000 * HOUR_MILLIS)
ENCODER = Encoder(built_in(LEDGER), 1)


def found_in(*faults: FaultyFile) -> HourOutcome:
    return HourOutcome(SEPTEMBER, "t/dt=2026-09-11/hour=08", 3, 40, faults)


def encoded(checked: Sequence[Mapping[str, Any]]) -> bytes:
    header = {"time": 0, "host": "h", "app": "a", "source": "s", "seq": 0, "position": 0}
    entry = {"header": header, "version": 1, "tier": "hdfs", "cluster": "c", "checked": checked}
    return ENCODER.encode(entry)


@given(st.text(st.characters(exclude_categories=()), max_size=600))
def test_any_name_is_text_that_can_be_sent(name: str) -> None:
    (said,) = statements(found_in(FaultyFile(name, FileFaultKind.EXTRA, 0, 1)), ["t"])
    encoded([said])
    assert printable(name).isprintable()


def test_names_stay_what_they_are() -> None:
    assert printable("t/hour=08/part-é-1.parquet") == "t/hour=08/part-é-1.parquet"
    assert printable("a\n\u202eb\udc80") == "a\\n\\u202eb\\x80"


def test_very_many_faults_are_said_together() -> None:
    faults = [
        FaultyFile(f"{at:05}", FileFaultKind.MISSING, 2, 0) for at in range(MOST_FAULTS + 100)
    ]
    faults += [
        FaultyFile("x", FileFaultKind.EXTRA, 0, -1),
        FaultyFile("y", FileFaultKind.EXTRA, 0, 1),
    ]
    (said,) = statements(found_in(*faults), ["t"])
    *_, missing, extra = said["faults"]
    assert len(said["faults"]) == MOST_FAULTS + 2
    assert (missing["fault"], missing["committed_rows"], missing["found_rows"]) == (
        "missing",
        200,
        0,
    )
    assert missing["path"] == "t/dt=2026-09-11/hour=08 (100 more files)"
    assert (extra["fault"], extra["committed_rows"], extra["found_rows"]) == ("extra", 0, -1)


def test_a_table_of_several_topics() -> None:
    faults = (
        FaultyFile("a", FileFaultKind.MISSING, 5, 0, "dc1.t"),
        FaultyFile("merged", FileFaultKind.MISSING, 7, 0),
        FaultyFile("odd", FileFaultKind.EXTRA, 0, 9),
        FaultyFile("old", FileFaultKind.CHANGED, 4, 3, "dc9.t"),
    )
    said = {each["topic"]: each for each in statements(found_in(*faults), ["dc1.t", "dc2.t"])}
    rows = {
        topic: [(f["path"], f["committed_rows"], f["found_rows"]) for f in each["faults"]]
        for topic, each in said.items()
    }
    of_both = [("merged", -1, 0), ("odd", 0, -1), ("old", -1, -1)]
    assert rows == {"dc1.t": [("a", 5, 0), *of_both], "dc2.t": of_both}


def test_entries_are_bounded() -> None:
    long = "p" * 400
    faults = [FaultyFile(f"{at}{long}", FileFaultKind.MISSING, 2, 0) for at in range(MOST_FAULTS)]
    said = [each for _ in range(5) for each in statements(found_in(*faults), ["t"])]
    parts = list(divided(said, weight))
    assert [each for part in parts for each in part] == said
    assert len(parts) > 1
    assert max(len(encoded(part)) for part in parts) < MOST_BYTES
    assert list(divided([], weight)) == []


def test_a_digest_is_of_all_that_is_said() -> None:
    faults = (
        FaultyFile("a", FileFaultKind.MISSING, 5, 0),
        FaultyFile("a", FileFaultKind.MISSING, 5, 1),
    )
    digests = {digest(statements(found_in(*each), ["t"])) for each in ((), faults[:1], faults[1:])}
    assert len(digests) == 3
    assert digest(statements(found_in(), ["t"])) in digests
