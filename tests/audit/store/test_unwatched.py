"""Times in which nobody watched: unknown where something happened, nothing where nothing did."""

from pathlib import Path
from typing import Any

import pytest

from audit.reconciling.findings import FaultKind, State
from audit.reconciling.gate import hour_gate
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from audit.store.judged_hours import by_hour
from audit.store.statements.rare_statements import _MOST_UNWATCHED
from tests.audit.audited_ledger import FIRST, KEY, NOW, AuditedLedger, judged, pictured
from tests.audit.log_entries import load, operator
from tests.audit.store.said import HOUR, MINUTE, TOPIC, Json, entry, passage, run, window

TIME = FIRST + 10 * MINUTE


def unwatched(from_time: int, to_time: int, traces: str = "changed", **more: Any) -> Json:
    said = {"topic": TOPIC, "path": "/var/log/shop", "from_time": from_time, "to_time": to_time}
    return said | {"traces": traces, "position": -1} | more


def fine() -> list[Json]:
    """A hundred events that arrived."""
    runs = [run("file", 0, 100, path="/var/log/shop/app.log", position=0, end_position=692)]
    beat = {"until": NOW, "topics": [TOPIC]}
    whole = passage(0, 0, 100, [window(TIME, 100)])
    return [
        entry("agent", "agent", 0, TIME, passages=[whole | {"runs": runs}], heartbeats=[beat]),
        entry("broker", "broker", 0, TIME, passages=[whole]),
        load(0, whole | {"runs": [run("file", 0, 100)]}, time=TIME),
    ]


def said_later(*lists: Json, seq: int = 1, **more: Any) -> Json:
    return entry("agent", "agent", seq, TIME + 2 * HOUR, unwatched=list(lists), **more)


def states(verdict: TopicVerdict) -> dict[int, str]:
    """By minute, those that are not complete."""
    return {
        (each.start - FIRST) // MINUTE: each.state.value
        for each in verdict.windows
        if each.state is not State.COMPLETE
    }


def test_windows_in_which_names_changed_are_unknown(tmp_path: Path) -> None:
    """Also those in which nothing is known to have happened."""
    blind = unwatched(TIME - MINUTE, TIME + MINUTE + 1, reason="app.log.3 came and went")
    verdict = judged(tmp_path, [[*fine(), said_later(blind)]])
    (finding,) = verdict.findings
    assert finding.words == (
        "host-of-agent: /var/log/shop was not watched from 2025-10-09 09:09:00 to 2025-10-09"
        " 09:11:00, and names changed there: app.log.3 came and went"
    )
    assert (finding.kind, finding.agent) == (FaultKind.UNKNOWN, "agent")
    assert finding.path == "/var/log/shop"
    assert states(verdict) == {9: "unknown", 10: "unknown", 11: "unknown"}
    assert verdict.state is State.UNKNOWN
    assert (verdict.totals.unknown, verdict.totals.state) == (1, State.UNKNOWN)
    assert [(each.host, each.totals.unknown) for each in verdict.hosts] == [("host-of-agent", 1)]


def test_where_nothing_changed_it_is_as_if_somebody_had_watched(tmp_path: Path) -> None:
    quiet = unwatched(TIME - MINUTE, TIME + MINUTE, "unchanged")
    verdict = judged(tmp_path, [[*fine(), said_later(quiet)]])
    assert (verdict.state, verdict.findings, len(verdict.windows)) == (State.COMPLETE, [], 1)


def test_a_moment_is_said_and_waits_for_nobody(tmp_path: Path) -> None:
    """Nor is it accepted where a person accepted a part of it."""
    moment = unwatched(TIME, TIME + 900, "brief", reason="x; may have been emptied: app.log")
    verdict = judged(tmp_path, [[*fine(), said_later(moment)]])
    (finding,) = verdict.findings
    assert finding.words.endswith(
        "09:10:00, and a file was begun there: x; may have been emptied: app.log"
    )
    assert finding.kind is FaultKind.UNKNOWN
    assert finding.harmless.startswith("for a moment only")
    assert (verdict.state, states(verdict)) == (State.COMPLETE, {})
    assert (verdict.totals.unknown, verdict.totals.state) == (0, State.COMPLETE)
    given = operator(from_time=TIME, to_time=TIME + 500)
    verdict = judged(tmp_path / "in-part", [[*fine(), said_later(moment), given]])
    assert verdict.state is State.COMPLETE
    assert [bool(each.harmless) - bool(each.accepted) for each in verdict.findings] == [1, 1]


def test_a_longer_time_is_no_moment(tmp_path: Path) -> None:
    """With the history of names, files may have been emptied then, and nothing else."""
    long = unwatched(TIME, TIME + 50_000, "brief", reason="x; may have been emptied: app.log")
    verdict = judged(tmp_path, [[*fine(), said_later(long)]])
    (finding,) = verdict.findings
    assert finding.harmless.startswith("every name is known, and new files are hardly ever")
    assert verdict.state is State.COMPLETE


def test_what_nobody_understands_is_a_change(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [[*fine(), said_later(unwatched(TIME, TIME, "other"))]])
    assert states(verdict) == {10: "unknown"}
    assert "what happened there is unknown" in verdict.findings[0].words


def test_hours_in_which_nothing_happened_are_there(ledger: AuditedLedger) -> None:
    """The audit judges them although no event is in them, and again after a start."""
    blind = unwatched(FIRST + HOUR - 1, FIRST + 2 * HOUR + 1)
    touched = ledger.fold(*fine(), said_later(blind))
    hours = {FIRST, FIRST + HOUR, FIRST + 2 * HOUR}
    assert {hour for _, hour in touched.hours} >= hours
    assert ledger.reading.hole_hours(KEY) == hours
    verdict = reconcile(ledger.picture(FIRST + HOUR, FIRST + 2 * HOUR, NOW))
    assert len(verdict.windows) == 60
    (hour,) = by_hour(verdict, [FIRST + HOUR])
    assert (hour.judged.state, hour.judged.events, hour.is_open) == ("unknown", 0, True)


def test_other_times_are_not_touched(tmp_path: Path) -> None:
    blind = unwatched(FIRST + 2 * HOUR, FIRST + 3 * HOUR)
    verdict = judged(tmp_path, [[*fine(), said_later(blind)]], hours=(0, 2))
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def vanished() -> Json:
    where = {"source": "file", "path": "/var/log/shop/app.log", "position": 692}
    return unwatched(TIME, TIME + MINUTE, "vanished", **where)


def test_the_end_of_a_file_that_nobody_saw(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [[*fine(), said_later(vanished())]])
    (finding,) = verdict.findings
    assert finding.words == (
        "host-of-agent: /var/log/shop/app.log vanished while no agent watched it, from 2025-10-09"
        " 09:10:00 to 2025-10-09 09:11:00; unknown beyond byte 692"
    )
    assert (finding.source, finding.position) == ("file", 692)
    assert states(verdict) == {10: "unknown"}


@pytest.mark.parametrize("backwards", [True, False])
def test_a_file_that_is_found_again_fills_it_in(tmp_path: Path, backwards: bool) -> None:
    """Once it is finished; before that, what is unknown begins further on."""
    whole = passage(0, 100, 50, [window(TIME, 50)])
    more = whole | {"runs": [run("file", 100, 50, position=692, end_position=1_042)]}
    tiers = [
        entry("broker", "broker", 1, TIME, passages=[whole]),
        load(1, whole | {"runs": [run("file", 100, 50)]}, time=TIME),
    ]
    chunks = [fine(), [said_later(vanished())], [said_later(seq=2, passages=[more])], tiers]
    verdict = judged(tmp_path / "some", chunks[::-1] if backwards else chunks)
    (finding,) = verdict.findings
    assert (finding.kind, finding.position) == (FaultKind.UNKNOWN, 1_042)
    done = {"topic": TOPIC, "source": "file", "events": 150, "size": 1_042}
    chunks.append([said_later(seq=3, finished=[done])])
    verdict = judged(tmp_path / "all", chunks[::-1] if backwards else chunks)
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_what_was_said_to_be_finished_before_fills_in_nothing(tmp_path: Path) -> None:
    done = {"topic": TOPIC, "source": "file", "events": 100, "size": 692}
    verdict = judged(tmp_path, [[*fine(), said_later(vanished(), finished=[done])]])
    assert verdict.state is State.UNKNOWN


@pytest.mark.parametrize(
    ("traces", "text"),
    [
        ("truncated", "was truncated while no agent watched it"),
        ("overwritten", "was overwritten in place from 2025-10-09 09:10:00 to"),
    ],
)
def test_a_file_that_was_truncated_is_never_filled_in(
    tmp_path: Path, traces: str, text: str
) -> None:
    cut = vanished() | {"traces": traces}
    done = {"topic": TOPIC, "source": "file", "events": 100, "size": 10_000}
    verdict = judged(tmp_path, [[*fine(), said_later(cut, finished=[done])]])
    (finding,) = verdict.findings
    assert text in finding.words


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({"host": "host-of-agent"}, State.COMPLETE),
        ({"runs": [{"source": "file", "position": 692, "end_position": 700}]}, State.COMPLETE),
        ({"from_time": TIME, "to_time": TIME + MINUTE}, State.COMPLETE),
        ({"host": "another"}, State.UNKNOWN),
        ({"runs": [{"source": "file", "position": 0, "end_position": 692}]}, State.UNKNOWN),
        ({"partition": 0}, State.UNKNOWN),
    ],
)
def test_who_knows_better_accepts_it(tmp_path: Path, given: Json, state: State) -> None:
    """And nothing that was accepted elsewhere covers it."""
    verdict = judged(tmp_path, [[*fine(), said_later(vanished()), operator(**given)]])
    (finding,) = verdict.findings
    assert finding.accepted == ("known" if state is State.COMPLETE else "")
    assert verdict.state is state


def test_a_part_of_the_time_is_accepted(tmp_path: Path) -> None:
    blind = unwatched(TIME, TIME + 4 * MINUTE)
    known = operator(host="host-of-agent", from_time=TIME + MINUTE, to_time=TIME + 3 * MINUTE)
    verdict = judged(tmp_path, [[*fine(), said_later(blind), known]])
    assert states(verdict) == {10: "unknown", 13: "unknown"}
    assert sum(bool(each.accepted) for each in verdict.findings) == 1


def test_a_loader_is_not_told_that_the_hour_is_complete(tmp_path: Path) -> None:
    blind, known = said_later(unwatched(TIME, TIME + MINUTE)), operator(host="host-of-agent")
    for number, (more, hour, complete) in enumerate(
        [([], 0, True), ([blind], 0, False), ([blind], 1, True), ([blind, known], 0, True)]
    ):
        picture = pictured(tmp_path / str(number), [[*fine(), *more]], hours=(hour, hour + 1))
        assert hour_gate(picture).complete is complete


@pytest.mark.not_quick("very many entries")
def test_of_very_many_the_rest_is_one_that_covers_them(tmp_path: Path) -> None:
    """Nothing is forgotten: it only becomes less exact."""
    many = [unwatched(TIME, TIME + 1) for _ in range(_MOST_UNWATCHED)]
    late = [unwatched(TIME + HOUR, TIME + HOUR + 1), unwatched(TIME + MINUTE, TIME + MINUTE + 1)]
    verdict = judged(tmp_path, [[*fine(), said_later(*many, *late)]])
    assert states(verdict).keys() == set(range(10, 71))
    moments = [unwatched(each["from_time"], each["to_time"], "brief") for each in late]
    verdict = judged(tmp_path / "moments", [[*fine(), said_later(*many, *moments)]])
    assert states(verdict).keys() == {10}
    assert len(verdict.findings) > 1


def test_what_is_too_old_goes(ledger: AuditedLedger) -> None:
    ledger.fold(*fine(), said_later(unwatched(TIME, TIME + MINUTE)))
    assert ledger.reading.hole_hours(KEY)
    ledger.store.expire(TIME + 8 * 24 * HOUR)
    assert not ledger.reading.hole_hours(KEY)
