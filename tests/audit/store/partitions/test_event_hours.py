"""What is found once all tiers have passed is about its own hour, and no other."""

from audit.reconciling.findings import State
from audit.reconciling.gate import hour_gate
from audit.reconciling.verdict import reconcile
from tests.audit.audited_ledger import FIRST, KEY, AuditedLedger
from tests.audit.log_entries import load
from tests.audit.store.said import HOUR, MINUTE, TOPIC, Json, entry, passage, window

HOURS = 5
LATER = FIRST + HOURS * HOUR


def hours_passed(ledger: AuditedLedger, *, landed: int = 100, late: bool = False) -> None:
    """A hundred events an hour; the loader has so many of the first hour, and all of the others."""
    for hour in range(HOURS):
        time = FIRST + hour * HOUR + 30 * MINUTE
        first = hour * 100
        beat: Json = {"until": LATER, "topics": [TOPIC]}
        whole = passage(0, first, 100, [window(time, 100)])
        found = landed if hour == 0 else 100
        read = passage(0, first, found, [window(time, found)])
        said = [
            entry("agent", "a", hour, time, passages=[whole], heartbeats=[beat]),
            entry("broker", "b", hour, time, passages=[whole]),
            load(hour, read, time=time),
        ]
        if late and hour == HOURS - 1:
            event = passage(0, first + 100, 1, [window(FIRST, 1)])
            said += [entry("agent", "late", 0, time, passages=[event])]
        ledger.fold(*said)


def states(ledger: AuditedLedger) -> list[State]:
    hours = [FIRST + hour * HOUR for hour in range(HOURS)]
    return [reconcile(ledger.picture(at, at + HOUR, LATER)).state for at in hours]


def damage(first: int) -> Json:
    offsets = {"first": first, "count": 10}
    said = {"topic": TOPIC, "partition": 0, "offsets": offsets, "reason": "CRC"}
    return entry("broker", "counter", 0, LATER - HOUR, damaged=[said])


def test_damage_is_of_its_own_hour(ledger: AuditedLedger) -> None:
    hours_passed(ledger)
    assert states(ledger) == [State.COMPLETE] * HOURS
    touched = ledger.fold(damage(150))
    assert (KEY, FIRST + HOUR) in touched.hours
    changed = [State.COMPLETE] * HOURS
    changed[1] = State.CHANGED
    assert states(ledger) == changed
    at = FIRST + 2 * HOUR
    assert hour_gate(ledger.picture(at, at + HOUR, LATER)).complete


def test_a_late_event_makes_no_hour_reach_over_the_others(ledger: AuditedLedger) -> None:
    hours_passed(ledger, late=True)
    ledger.fold(damage(250))
    seen = ledger.picture(FIRST, LATER, LATER)
    (spoilt,) = seen.damaged
    assert FIRST + 2 * HOUR <= spoilt.from_time < spoilt.to_time <= FIRST + 3 * HOUR


def test_damage_of_which_nobody_spoke_is_of_when_it_was_found(ledger: AuditedLedger) -> None:
    hours_passed(ledger)
    ledger.fold(damage(10_000))
    seen = ledger.picture(FIRST, LATER, LATER)
    (spoilt,) = seen.damaged
    assert (spoilt.from_time, spoilt.to_time) == (LATER - HOUR, LATER - HOUR + 1)


def test_offsets_that_were_passed_over_are_of_their_own_hour(ledger: AuditedLedger) -> None:
    hours_passed(ledger, landed=60)
    assert states(ledger) == [State.MISSING, *[State.COMPLETE] * (HOURS - 1)]


def test_what_is_older_than_is_kept_is_no_fault_of_now(ledger: AuditedLedger) -> None:
    hours_passed(ledger, landed=60)
    ledger.store.expire(FIRST + 2 * HOUR + ledger.store.retention_millis)
    assert states(ledger) == [State.COMPLETE] * HOURS
