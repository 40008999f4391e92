"""What is worth an alert, when it is raised, when it is over."""

from hypothesis import given
from hypothesis import strategies as st

from audit.alerting.conditions import LATE, SILENT, AlertKey, of_agents, of_hours
from audit.alerting.deciding import decide, key_of
from audit.alerting.messages import untold
from audit.judged_hours import HOUR, HourVerdict
from audit.picture import TopicKey
from audit.store.rows import AgentRow, Alert, JudgedHour
from audit.verdicts import State

KEY = TopicKey("east", "clicks", "id")
MISSING = AlertKey("missing", "east", "clicks", "")
AFTER = {"missing": 120}


def hour(
    at: int, faults: dict[State, str] | None = None, pending_since: int = -1, waits: str = ""
) -> HourVerdict:
    judged = JudgedHour(key=KEY, hour=at * HOUR, state=State.MISSING, waits=waits)
    return HourVerdict(judged, faults or {}, pending_since=pending_since)


def test_faults_of_several_hours_are_one_alert() -> None:
    hours = [hour(3, {State.MISSING: "later"}), hour(2, {State.MISSING: "web-1: gone"})]
    (found,) = of_hours(hours, {"east": 0}, 0).items()
    assert found == (
        MISSING,
        "east/clicks has missing events in the hour 1970-01-01T02:00Z and 1 more: web-1: gone",
    )


def test_what_waits_is_late_once_it_has_waited_too_long() -> None:
    waiting = [hour(2, pending_since=500, waits="web-3"), hour(3, pending_since=900)]
    assert of_hours(waiting, {"east": 1_499}, 1_000) == {}
    (key,) = of_hours(waiting, {"east": 1_500}, 1_000)
    assert key == AlertKey(LATE, "east", "clicks", "")
    assert "web-3" in of_hours(waiting, {"east": 9_999}, 1_000)[key]


def test_time_stands_still_for_a_cluster_that_is_not_read() -> None:
    assert of_hours([hour(2, pending_since=500)], {}, 1_000) == {}


def test_silence_has_a_host() -> None:
    silent = AgentRow("a1", "web-1", "east", "1", (), 0, 1_000, 0, "silent", "")
    never = AgentRow("", "web-2", "", "", (), -1, 0, 0, "never", "")
    found = of_agents([silent, never])
    assert set(found) == {AlertKey(SILENT, "east", "", "web-1"), AlertKey(SILENT, "", "", "web-2")}
    assert "never heard" in found[AlertKey(SILENT, "", "", "web-2")]


def test_a_fault_must_stand_before_it_is_raised() -> None:
    first = decide({MISSING: "words"}, {}, {}, now=1_000, after=AFTER)
    assert (first.changed, first.since) == ((), {MISSING: 1_000})
    early = decide({MISSING: "words"}, {}, first.since, now=1_119, after=AFTER)
    assert early.changed == ()
    (alert,) = decide({MISSING: "words"}, {}, early.since, now=1_120, after=AFTER).changed
    assert alert == Alert(*MISSING, words="words", raised=1_120)


def test_what_puts_itself_right_was_never_there() -> None:
    first = decide({MISSING: "words"}, {}, {}, now=1_000, after=AFTER)
    gone = decide({}, {}, first.since, now=1_100, after=AFTER)
    assert (gone.changed, gone.since) == ((), {})


@given(st.lists(st.sets(st.sampled_from(["missing", "late", "silent"])), max_size=30))
def test_each_is_raised_once_and_resolved_once(moments: list[set[str]]) -> None:
    raised: dict[AlertKey, Alert] = {}
    since: dict[AlertKey, int] = {}
    for now, kinds in enumerate(moments):
        conditions = {AlertKey(kind, "east", "clicks", ""): "words" for kind in kinds}
        decided = decide(conditions, raised, since, now=now, after={"missing": 2})
        since = dict(decided.since)
        for each in decided.changed:
            if each.resolved < 0:
                assert key_of(each) not in raised
                raised[key_of(each)] = each
            else:
                assert raised.pop(key_of(each))._replace(resolved=now) == each
        at_once = {AlertKey(kind, "east", "clicks", "") for kind in kinds - {"missing"}}
        assert {key for key in raised if key.kind != "missing"} == at_once
        assert all(key in conditions for key in raised)


def test_what_is_to_be_told_is_told_in_its_order() -> None:
    over = Alert(*MISSING, words="w", raised=5, resolved=9)
    begun = Alert(*MISSING._replace(kind="late"), words="w", raised=7)
    told = Alert(*MISSING._replace(kind="silent"), words="w", raised=1, told_raised=True)
    messages = [message for _, message in untold([over, begun, told])]
    assert [(each.status, each.kind) for each in messages] == [
        ("raised", "missing"),
        ("raised", "late"),
        ("resolved", "missing"),
    ]
    assert messages[0].id == messages[2].id != messages[1].id


def test_names_from_outside_are_kept_as_they_are() -> None:
    hostile = Alert("missing", "east", "a\0b\ud800", "<script>", words="w", raised=1)
    ((_, message),) = untold([hostile])
    assert len(message.id) == 24
