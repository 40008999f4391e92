"""Which files of an hour are rewritten, and the manifest of a run that does only that."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.commit.rewrites import rewrite_manifest, rewrite_of
from loader.errors import Mismatch
from loader.values.manifests import HourState, Manifest, Marker, RunKind
from loader.values.rewrites import Rewrite, RewriteReason, Rewritten, RewrittenFile
from tests.loader.hours.manifests import hour, manifest, path

SIZES = {"a": 99, "b": 100, "c": 50, "d": 99, "e": 3}


@pytest.mark.parametrize(
    ("files", "others", "chosen", "wanted"),
    [
        ("abcde", "", "acde", 2),
        ("ab", "", None, 0),
        ("b", "", None, 0),
        ("ac", "", "ac", 1),
        ("b", "b", "b", 1),
        ("abc", "b", "abc", 1),
    ],
)
def test_small_files_are_merged_and_files_of_other_columns_are_rewritten(
    files: str, others: str, chosen: str | None, wanted: int
) -> None:
    rewrite = rewrite_of(hour(0), files, SIZES, below=100, to=250, others=others)
    size = sum(SIZES[each] for each in chosen or "")
    assert rewrite == (chosen and Rewrite(hour(0), tuple(chosen), size, wanted))


@given(
    st.dictionaries(st.text("abc", min_size=1), st.integers(0, 50)),
    st.integers(1, 30),
    st.integers(1, 60),
)
def test_files_become_fewer_or_stay(sizes: dict[str, int], below: int, to: int) -> None:
    rewrite = rewrite_of(hour(0), sizes, sizes, below=below, to=to)
    if rewrite is not None:
        assert 1 <= rewrite.files_wanted < len(rewrite.files)
        assert all(sizes[each] < below for each in rewrite.files)
        assert rewrite.bytes == sum(sizes[each] for each in rewrite.files)
        assert rewrite.bytes <= rewrite.files_wanted * to


BEFORE = msgspec.structs.replace(
    manifest(
        {
            hour(0): HourState(rows=30, files=("a", "b", "c"), bytes=600, complete=3, late_rows=2),
            hour(1): HourState(rows=5, files=("d",), bytes=50),
            hour(2): HourState(rows=7, files=(), unlisted=3, complete=4, schema_number=1),
        }
    ),
    schema_number=2,
)


def rewritten(*rows: int, files: tuple[str, ...] = ("a", "b"), number: int = 0) -> Rewritten:
    rewrite = Rewrite(hour(number), files, 250, len(rows))
    written = (RewrittenFile(f"staged/{at}", each, 100, ".orc") for at, each in enumerate(rows))
    return Rewritten(rewrite, tuple(written))


def after(*parts: Rewritten) -> Manifest:
    return rewrite_manifest(
        BEFORE,
        parts,
        uniform=[hour(0), hour(1)],
        reason=RewriteReason.COLUMNS,
        now=BEFORE.committed,
        loader="me",
    )


def test_success_is_away_while_files_of_a_complete_hour_are_replaced() -> None:
    run = after(rewritten(10, 5), rewritten(5, files=("d",), number=1))
    new = (path(0, "part-merged-0000-6.orc"), path(0, "part-merged-0001-6.orc"))
    (open_hour,) = (each for each in run.adds if each.hour == hour(1))
    assert [each.path for each in run.adds] == [*new, open_hour.path]
    assert run.removes == ("a", "b", "d")
    removed, success, _ = run.markers  # and the ranges, which there were not yet
    assert removed == Marker(path=path(0, "_SUCCESS"))
    assert (success.path, json.loads(success.content)) == (
        removed.path,
        {
            "run": 6,
            "complete_since_run": 3,
            "rows": 30,
            "late_rows": 2,
            "files": 3,
            "bytes": 550,
            "schema_number": 2,
        },
    )
    assert run.hours == {
        hour(0): HourState(
            rows=30,
            files=("c", *new),
            bytes=550,
            complete=3,
            late_rows=2,
            schema_number=2,
            rewritten=6,
        ),
        hour(1): HourState(
            rows=5, files=(open_hour.path,), bytes=-100, schema_number=2, rewritten=6
        ),
        hour(2): BEFORE.hours[hour(2)],
    }
    assert (run.run, run.kind, run.reason) == (6, RunKind.REWRITE, RewriteReason.COLUMNS)
    assert (run.sources, run.schema, run.schema_number) == (BEFORE.sources, BEFORE.schema, 2)
    assert (run.ledger_seq, run.ledger_entries, run.passages) == (10, 0, ())
    assert [part.from_offset for topic in run.topics for part in topic.partitions] == [-1]
    assert msgspec.json.decode(msgspec.json.encode(run), type=Manifest) == run


@pytest.mark.parametrize(
    "odd",
    [rewritten(31), rewritten(29, files=("a", "b", "c")), rewritten(10, files=("a", "x"))],
)
def test_a_rewrite_must_leave_all_rows_of_the_hours_own_files(odd: Rewritten) -> None:
    with pytest.raises(Mismatch):
        after(odd)
