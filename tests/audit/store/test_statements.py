"""What is said seldom, as pictures have it: whatever numbers are in it."""

from pathlib import Path

from audit.picture import Acceptance, TopicKey
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    TOPIC,
    TOPIC_ID,
    Json,
    body,
    entry,
    passage,
    run,
    window,
)

KEY = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
BEYOND = 2**63 - 1


def accepted_of(directory: Path, **given: object) -> Acceptance:
    """An operator's acceptance, folded and read again."""
    shipped = passage(0, 0, 10, [window(BEGIN, 10)])
    said: Json = {"topic": TOPIC, "partition": 0, **given}
    entries = [
        entry("agent", "a", 0, BEGIN + MINUTE, passages=[shipped]),
        entry("operator", "operator-1", 0, BEGIN + MINUTE, accepted=[said]),
    ]
    store = AuditStore.open(directory)
    reading = store.reading()
    try:
        store.fold(CLUSTER, body(entries), LedgerPositions())
        seen = reading.picture(KEY, BEGIN, BEGIN + HOUR, BEGIN + HOUR, expected_millis=HOUR)
    finally:
        reading.close()
        store.close()
    (accepted,) = seen.accepted
    return accepted


def test_what_is_accepted_to_the_end_ends_where_numbers_do(tmp_path: Path) -> None:
    accepted = accepted_of(
        tmp_path,
        offsets=[{"first": 5, "count": BEYOND}],
        runs=[run("file", 7, BEYOND), run("other", 0, 0, position=3, end_position=BEYOND)],
    )
    assert accepted.offsets == ((5, 1 << 62),)
    assert accepted.seqs == {"file": ((7, 1 << 62),)}
    assert accepted.bytes == {"other": ((3, 1 << 62),)}


def test_offsets_that_cannot_be_are_not_any(tmp_path: Path) -> None:
    accepted = accepted_of(tmp_path, offsets=[{"first": -BEYOND, "count": 9}])
    assert accepted.offsets == ((-1, -1),)
