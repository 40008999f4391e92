"""What is found, as the ledger has it: whole, bounded, and text whatever files are called."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loader.checks.comparing import FaultyFile, FileFaultKind, HourOutcome
from loader.checks.statements import (
    MOST_FAULTS,
    digest,
    printable,
    statements,
    weight,
)
from loader.ledger.entries import MOST_BYTES
from loader.ledger.observations import divided
from loader.tables import HOUR_MILLIS, Hour
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in

HOUR = Hour(497_000 * HOUR_MILLIS)
ENCODER = Encoder(built_in(LEDGER), 1)


def outcome(*faults: FaultyFile) -> HourOutcome:
    return HourOutcome(HOUR, "t/dt=2026-09-11/hour=08", 3, 40, faults)


def encoded(checked: Sequence[Mapping[str, Any]]) -> bytes:
    header = {"time": 0, "host": "h", "app": "a", "source": "s", "seq": 0, "position": 0}
    entry = {"header": header, "version": 1, "tier": "hdfs", "cluster": "c", "checked": checked}
    return ENCODER.encode(entry)


@given(st.text(st.characters(exclude_categories=()), max_size=600))
def test_any_name_is_text_that_can_be_sent(name: str) -> None:
    (said,) = statements(outcome(FaultyFile(name, FileFaultKind.EXTRA, 0, 1)), ["t"])
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
    (said,) = statements(outcome(*faults), ["t"])
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
    said = {each["topic"]: each for each in statements(outcome(*faults), ["dc1.t", "dc2.t"])}
    rows = {
        topic: [(f["path"], f["committed_rows"], f["found_rows"]) for f in each["faults"]]
        for topic, each in said.items()
    }
    of_both = [("merged", -1, 0), ("odd", 0, -1), ("old", -1, -1)]
    assert rows == {"dc1.t": [("a", 5, 0), *of_both], "dc2.t": of_both}


def test_entries_are_bounded() -> None:
    long = "p" * 400
    faults = [FaultyFile(f"{at}{long}", FileFaultKind.MISSING, 2, 0) for at in range(MOST_FAULTS)]
    said = [each for _ in range(5) for each in statements(outcome(*faults), ["t"])]
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
    digests = {digest(statements(outcome(*each), ["t"])) for each in ((), faults[:1], faults[1:])}
    assert len(digests) == 3
    assert digest(statements(outcome(), ["t"])) in digests
