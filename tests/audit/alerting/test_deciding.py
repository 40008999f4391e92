"""What is worth an alert, when it is raised, when it is over."""

from msgspec.structs import replace

from audit.alerting import conditions
from audit.alerting.conditions import (
    LATE,
    SILENT,
    UNLOADED,
    AlertKey,
    Condition,
    WaitingCondition,
    decide,
    key_of,
    of_agents,
    of_loads,
    waiting,
)
from audit.api.answers import AgentRow, FailingLoad
from audit.clusters.state import ClusterState
from audit.configuration.config import CommandsConfig
from audit.cures.fault_cures import Cure
from audit.cures.program_commands import ProgramCommands
from audit.reconciling.findings import FaultKind, Finding, KindCount, State
from audit.reconciling.picture import TopicKey
from audit.silence import RefusedLogins
from audit.store.judged_hours import HOUR, HourVerdict
from audit.store.rows import Alert, JudgedHour

KEY = TopicKey("east", "clicks", "id")
MISSING = AlertKey("missing", "east", "clicks", "", 2 * HOUR)
ALERT = Alert("missing", "east", "clicks", "", "words", 1_120, hour=2 * HOUR, since=1_000)
AFTER = {"missing": 120}
WORDS = Condition("words")
RESTART = "penstock up --restart agent --dir /up"
CURE = "run `penstock load --topics clicks`"
WORST = Finding(id="f1", kind=FaultKind.LOST, words="gone", command="penstock load")


def hour(
    at: int, faults: dict[State, str] | None = None, waiting_since: int = -1, waits: str = ""
) -> HourVerdict:
    judged = JudgedHour(key=KEY, hour=at * HOUR, state=State.MISSING, waits=waits)
    return HourVerdict(judged, faults or {}, waiting_since=waiting_since)


def of_hours(
    hours: list[HourVerdict], as_of: dict[str, int], late: int, *deleted: TopicKey
) -> dict[AlertKey, str]:
    found = conditions.of_hours(hours, as_of, late, is_gone=deleted.__contains__)
    return {key: each.words for key, each in found.items()}


def test_each_hour_with_a_fault_has_an_alert() -> None:
    hours = [hour(3, {State.UNKNOWN: "off"}), hour(2, {State.MISSING: "web-1: gone"})]
    assert of_hours(hours, {"east": 0}, 0) == {
        MISSING: "east/clicks has missing events in the hour 1970-01-01T02:00Z: web-1: gone",
        MISSING._replace(kind="unknown", hour=3 * HOUR): "it is unknown whether all events of "
        "east/clicks in the hour 1970-01-01T03:00Z have arrived: off",
    }


def test_a_table_that_is_not_loaded_has_one_alert_with_the_cure() -> None:
    one = FailingLoad("east", "clicks", "file:///a", 60_000, 90_000, "all is dead", CURE)
    other = replace(one, destination="file:///b", cure="")
    key = AlertKey(UNLOADED, "east", "clicks", "")
    said = "east/clicks has not been loaded into {} since 1970-01-01T00:01Z: all is dead"
    (words,) = of_loads([one, other], CommandsConfig()).values()
    assert words.words == said.format("file:///a") + ". What to do: run `penstock load …`"
    assert words.cure.command == "penstock load --topics clicks"
    assert of_loads([other], CommandsConfig()) == {
        key: Condition(said.format("file:///b"), since=60_000)
    }


def test_an_alert_names_its_finding() -> None:
    """That of when it was raised, also when it is over."""
    counted = hour(2).judged._replace(kinds=(KindCount(kind=FaultKind.LOST, events=3),))
    hosts = {State.MISSING: ("web-1",)}
    faulty = HourVerdict(counted, {State.MISSING: "gone"}, {State.MISSING: WORST}, hosts)
    known = conditions.of_hours([faulty], {"east": 0}, 0, is_gone=set().__contains__)
    assert known[MISSING][1:6] == (3, ("web-1",), Cure.of(WORST), "f1", WORST.from_time)
    (alert,) = decide(known, {}, {}, now=1, after={}).changed
    assert alert.finding == "f1"
    (over,) = decide({}, {MISSING: alert}, {}, now=2, after={}).changed
    assert over.finding == "f1"


def test_what_is_not_raised_yet_is_known() -> None:
    later = MISSING._replace(hour=9 * HOUR)
    known = {MISSING: Condition("gone"), later: Condition("gone, too")}
    first = decide(known, {}, {later: 900}, now=1_000, after=AFTER)
    assert waiting(known, first.since, AFTER) == (
        WaitingCondition(later, "gone, too", 900, 1_020),
        WaitingCondition(MISSING, "gone", 1_000, 1_120),
    )
    assert decide(known, {}, first.since, now=1_019, after=AFTER).changed == ()
    raised = decide(known, {}, first.since, now=1_120, after=AFTER)
    assert waiting(known, raised.since, AFTER) == ()
    assert raised.changed[0] == ALERT._replace(words="gone")


def test_no_more_are_raised_than_can_be_kept() -> None:
    hours = {MISSING._replace(hour=each * HOUR): WORDS for each in range(3, 9)}
    first = decide(hours, {MISSING: ALERT}, {}, now=1, after={}, most=5)
    new = [each.hour // HOUR for each in first.changed if each.resolved < 0]
    assert new == [3, 4, 5, 6]  # one is still raised just now
    raised = {key_of(each): each for each in first.changed if each.resolved < 0}
    second = decide(hours, raised, first.since, now=2, after={}, most=5)
    assert [each.hour // HOUR for each in second.changed] == [7]
    assert set(second.since) == {MISSING._replace(hour=8 * HOUR)}


def test_what_waits_is_late_once_it_has_waited_too_long() -> None:
    waiting = [hour(2, waiting_since=500, waits="web-3"), hour(3, waiting_since=900)]
    assert of_hours(waiting, {"east": 1_499}, 1_000) == {}
    (key,) = of_hours(waiting, {"east": 1_500}, 1_000)
    assert key == AlertKey(LATE, "east", "clicks", "")
    assert "web-3" in of_hours(waiting, {"east": 9_999}, 1_000)[key]
    assert of_hours(waiting, {"east": 9_999}, 1_000, KEY) == {}, "it was deleted"
    assert of_hours(waiting, {}, 1_000) == {}, "its cluster is not read"


def test_silence_has_a_host() -> None:
    silent = AgentRow("a1", "web-1", "east", "1", [], 0, 1_000, 0, "silent", "")
    never = AgentRow("", "web-2", "", "", [], -1, 0, 0, "never", "")
    found = of_agents([silent, never], ProgramCommands())
    assert set(found) == {AlertKey(SILENT, "east", "", "web-1"), AlertKey(SILENT, "", "", "web-2")}
    assert "never heard" in found[AlertKey(SILENT, "", "", "web-2")].words
    up = ProgramCommands(commands=CommandsConfig(up="/up"), clusters=("east",), host="web-1")
    other = replace(silent, agent="a2", host="web-2")
    for rows, state, words, command in (
        ([silent], ClusterState(), "the only agent of east, and its brokers answer", RESTART),
        ([silent, silent], ClusterState(away=[2]), "is heard, and broker 2 is away", RESTART),
        ([silent, other], ClusterState(), "is heard, and its brokers answer", "tail {}/broker.log"),
    ):
        known = of_agents(rows, up, unheard={"east": state})[AlertKey(SILENT, "east", "", "web-1")]
        assert known.words.endswith(words)
        assert known.cure.command == command.format("/up/logs")


def test_an_agent_that_a_restart_does_not_mend_is_not_restarted() -> None:
    """The host of a replaced one has the condition of another of its agents that is silent."""
    late = AgentRow("a2", "web-1", "east", "1", [], 0, 2_000, 0, "silent", "")
    was = replace(late, agent="a1", heard=1_000, replaced_by="a2")
    (found,) = of_agents([was], ProgramCommands()).values()
    assert found.words.endswith("; agent a2 has replaced it: its data directory was emptied")
    assert found.cure.command == (
        "penstock audit retire --cluster east --agent-id a1 --reason 'replaced by a2' -- web-1"
    )
    (found,) = of_agents([late, was], ProgramCommands()).values()
    assert found.cure.command == "systemctl restart penstock-agent  # on web-1"
    refused = RefusedLogins("east", "web-1", "10.0.0.7", "wrong password", 0, ("1", "2"))
    (found,) = of_agents([late], ProgramCommands(), refused=[refused]).values()
    assert "logins of web-1 from 10.0.0.7 are refused at brokers 1 and 2 (wrong" in found.words
    assert found.cure.command == "penstock agent --status  # on web-1"
