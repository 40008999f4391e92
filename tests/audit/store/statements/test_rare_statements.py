"""What is said seldom, as pictures have it: whatever numbers are in it. And what is longer than any
path or name is not kept, nor shown, as it is."""

from pathlib import Path

from audit.reconciling.picture import Acceptance
from audit.store.folding.columns import MOST_TEXT, cut
from tests.audit.audited_ledger import AuditedLedger
from tests.audit.store.said import (
    BEGIN,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    entry,
    excepted,
    passage,
    run,
    window,
)

BEYOND = 2**63 - 1


def accepted_of(ledger: AuditedLedger, **given: object) -> Acceptance:
    """An operator's acceptance, folded and read again."""
    shipped = passage(0, 0, 10, [window(BEGIN, 10)])
    said: Json = {"topic": TOPIC, "partition": 0, **given}
    ledger.fold(
        entry("agent", "a", 0, BEGIN + MINUTE, passages=[shipped]),
        entry("operator", "operator-1", 0, BEGIN + MINUTE, accepted=[said]),
    )
    (accepted,) = ledger.picture().accepted
    return accepted


def test_what_is_accepted_to_the_end_ends_where_numbers_do(ledger: AuditedLedger) -> None:
    accepted = accepted_of(
        ledger,
        offsets=[{"first": 5, "count": BEYOND}],
        runs=[run("file", 7, BEYOND), run("other", 0, 0, position=3, end_position=BEYOND)],
    )
    assert accepted.offsets == ((5, 1 << 62),)
    assert accepted.seqs == {"file": ((7, 1 << 62),)}
    assert accepted.bytes == {"other": ((3, 1 << 62),)}


def test_offsets_that_cannot_be_are_not_any(ledger: AuditedLedger) -> None:
    accepted = accepted_of(ledger, offsets=[{"first": -BEYOND, "count": 9}])
    assert accepted.offsets == ((-1, -1),)


LONG = "ab" * 500_000
SIZE = 2_000_000  # bytes


def test_what_is_cut_stays_another() -> None:
    assert cut("a" * MOST_TEXT) == "a" * MOST_TEXT
    assert cut(LONG) == cut(LONG) != cut(LONG + "c")
    assert cut(LONG).startswith("abab")
    assert len(cut(LONG)) < MOST_TEXT + 30
    assert "\0" not in cut(LONG + "\0") + cut("a\0b")


def test_nothing_is_kept_in_full(tmp_path: Path) -> None:
    runs = [run(LONG, 0, 10, path=LONG, excepted=[excepted("lost", 1, 1, LONG)])]
    said = passage(0, 0, 10, [window(BEGIN, 10)], runs=runs)
    beat = {"until": BEGIN, "topics": [TOPIC, LONG], "program_version": LONG}
    finished = {"topic": LONG, "source": LONG, "events": 10, "size": 10}
    agent = entry("agent", LONG, 0, BEGIN, passages=[said], heartbeats=[beat], finished=[finished])
    agent["header"]["host"] = LONG
    fault = {
        "path": LONG, "hour": BEGIN, "fault": "missing", "committed_rows": 3, "found_rows": 0,
    }  # fmt: skip
    times = {"from_time": BEGIN, "to_time": BEGIN + HOUR}
    checked = {"topic": TOPIC, "files": 1, "rows": 3, "faults": [fault], **times}
    spoilt = {"topic": TOPIC, "offsets": {"first": 1, "count": 1}, "reason": LONG}
    rebuilt = {"topic": TOPIC, "topic_id": LONG, **times}
    loader = entry(
        "hdfs", "check", 0, BEGIN, destination=ROOT,
        checked=[checked], damaged=[spoilt], rebuilt=[rebuilt],
    )  # fmt: skip
    accepted = {"topic": TOPIC, "topic_id": TOPIC_ID, "host": LONG, "reason": LONG, "runs": runs}
    retired = {"host": LONG, "agent": LONG, "reason": LONG, "operator": LONG}
    operator = entry("operator", "o", 0, BEGIN, accepted=[accepted], retired=[retired])
    with AuditedLedger(tmp_path) as ledger:
        ledger.fold(agent, loader, operator)
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < SIZE
