"""Which alerts follow from which, and when they are raised after all."""

from collections.abc import Sequence

import pytest

from audit.alerting.causes import LEAST_GRACE, TABLE, Held, held, holds_up, known_before
from audit.alerting.conditions import FOR_SCHEMAS, AlertKey, Condition, Conditions, unfinished
from audit.programs import Program
from audit.store.judged_hours import HOUR
from audit.store.rows import Alert, LoadEnd
from ledger.health import ZooKeeperSession
from tests.audit.alerting.alerts_made import NOW, SEVEN, program

MINUTE = 60_000
REGISTRY, BROKER, LEDGER = (AlertKey("away", "dc1", "", e) for e in ("registry", "broker 2", ""))
LOADER = AlertKey("loader", "dc1", "", "a1")
CLICKS, ORDERS = (AlertKey("late", "dc1", topic, "") for topic in ("clicks", "orders"))
UNLOADED = CLICKS._replace(kind="unloaded")
SILENT = AlertKey("silent", "dc1", "", "web-1")
AWAY = Condition("away", leaderless=frozenset({"clicks"}))
OF_LEDGER = AWAY._replace(leaderless=frozenset({"_audit"}))
LATE = Condition("late", since=1, waits_on=frozenset({"hdfs", "ledger"}))
SEEN = Condition("words", since=NOW)
NOTHING = Held()


def late(*waits_on: str) -> Condition:
    return LATE._replace(waits_on=frozenset(waits_on))


class Story:
    """Minute after minute: which of the known conditions are held back."""

    def __init__(
        self, known: Conditions, held: Held = NOTHING, now: int = NOW, *, raised: bool = True
    ) -> None:
        self.known, self.held, self.now = dict(known), held, now
        self.raised = {key: Alert(*key[:4], "words", now, since=now) for key in known if raised}

    def holds(self, minutes: int = 0) -> set[AlertKey]:
        self.now += minutes * MINUTE
        raised = {key: alert for key, alert in self.raised.items() if key in self.known}
        self.held = held(self.held, self.known, raised, self.now, lambda _: LEAST_GRACE)
        return set(self.held.by)


@pytest.mark.parametrize(
    ("cause", "condition", "held_back", "stays"),
    [
        (REGISTRY, AWAY, {LOADER: SEEN, CLICKS: LATE, LEDGER: Condition("", waits_on=FOR_SCHEMAS)},
         {ORDERS: late("agent", "hdfs"), SILENT: SEEN}),
        (BROKER, AWAY, {CLICKS: late("agent", "broker")}, {ORDERS: LATE, SILENT: SEEN}),
        (BROKER, OF_LEDGER, {SILENT: SEEN, ORDERS: LATE}, {}),
        (AlertKey("disk", "dc1", "", "b1"), AWAY, {CLICKS: LATE}, {ORDERS: LATE}),
        (AlertKey("disk", "dc1", "", "b1"), OF_LEDGER, {SILENT: SEEN}, {LEDGER: SEEN}),
        (AlertKey("disk", "dc1", "", "b1"), SEEN, {}, {CLICKS: LATE, SILENT: SEEN}),
        (LEDGER, SEEN, {SILENT: SEEN, LOADER: SEEN}, {REGISTRY: AWAY, BROKER: AWAY}),
        (AlertKey("zookeeper", "dc1", "", "b1"), SEEN, {SILENT: SEEN, CLICKS: LATE}, {}),
        (AlertKey("zookeeper", "dc1", "", ""), SEEN, {}, {SILENT: SEEN, CLICKS: LATE}),
        (AlertKey("mirror", "dc1", "", "m1"), SEEN, {CLICKS: late("origin")}, {ORDERS: LATE}),
        (SILENT, SEEN._replace(of_all=True), {LOADER: SEEN, CLICKS: late("agent")}, {}),
        (SILENT, SEEN, {}, {LOADER: SEEN, CLICKS: late("agent")}),
        (AlertKey("clock", "dc1", "", "web-1"), SEEN,
         {CLICKS: late("agent")._replace(waits_for=frozenset({"web-1", "web-2"}))},
         {ORDERS: late("agent")._replace(waits_for=frozenset({"web-2"})), UNLOADED: SEEN}),
        (LOADER, SEEN, {CLICKS: LATE, UNLOADED: SEEN}, {ORDERS: late("ledger")}),
    ],
)  # fmt: skip
def test_what_follows_is_held_back_and_all_else_is_not(
    cause: AlertKey, condition: Condition, held_back: Conditions, stays: Conditions
) -> None:
    others = {
        AlertKey("missing", "dc1", "clicks", "", 0): SEEN,
        AlertKey("altered", "dc1", "clicks", ""): SEEN,
        SILENT._replace(host="web-2"): Condition("silent before", since=NOW - 10 * MINUTE),
        LOADER._replace(cluster="dc2"): SEEN,
        BROKER._replace(host="broker 3"): Condition("away"),
    }
    story = Story({**others, cause: condition, **held_back, **stays})
    assert story.holds() == held_back.keys()


def test_a_row_has_what_follows_from_its_consequences() -> None:
    rows = {name: {each.kind for each in row} for name, row in TABLE.items()}
    for name, kinds in rows.items():
        assert all(rows[kind] <= kinds for kind in kinds & rows.keys()), name


def test_what_does_not_mend_within_its_grace_is_raised() -> None:
    story = Story({REGISTRY: AWAY, CLICKS: LATE, ORDERS: LATE})
    assert story.holds(minutes=60) == {CLICKS, ORDERS}, "it is raised itself"
    del story.known[REGISTRY]
    assert story.holds() == {CLICKS, ORDERS}
    story.known[UNLOADED] = SEEN._replace(since=story.now + 1)
    assert story.holds(minutes=4) == {CLICKS, ORDERS}, "what has begun since is none of it"
    story.known[CLICKS] = LATE._replace(since=2)
    assert story.holds() == {CLICKS, ORDERS}
    again = Story(story.known, story.held, story.now)
    assert again.holds(minutes=4) == {CLICKS, ORDERS}, "they get better"
    assert again.holds(minutes=1) == set()
    for since in range(3, 14):  # better and better, to an end
        story.known[CLICKS] = LATE._replace(since=since)
        assert bool(story.holds(minutes=1)) == (since < 13), since


def test_a_cause_that_comes_and_goes_and_is_never_raised_holds_nothing_up_for_long() -> None:
    story = Story({CLICKS: LATE}, raised=False)
    for minute in range(16):
        story.known = {CLICKS: LATE, **({REGISTRY: AWAY} if minute % 2 else {})}
        story.holds(minutes=1)
        assert story.holds() == ({CLICKS} if minute else set())
    story.known[REGISTRY] = AWAY
    assert story.holds(minutes=1) == set()


def test_a_grace_outlives_a_restart() -> None:
    over = Alert(*REGISTRY[:4], "away", NOW - 9, resolved=NOW, since=NOW - 99)
    begun = [over, over._replace(resolved=1), over._replace(kind="missing")]
    story = Story({CLICKS: LATE}, Held(known_before(begun)))
    assert story.holds(minutes=4) == {CLICKS}
    assert story.holds(minutes=1) == set()


def test_each_of_two_causes_says_what_it_holds_up() -> None:
    ends = [
        LoadEnd("dc1", "clicks", "file:///a", failed=False, since=1, time=SEVEN),
        LoadEnd("dc1", "orders", "file:///a", failed=True, since=SEVEN - HOUR, time=SEVEN + HOUR),
        LoadEnd("dc2", "users", "file:///a", failed=False, since=1, time=SEVEN + HOUR),
    ]
    story = Story({REGISTRY: AWAY, BROKER: AWAY, ORDERS: LATE, CLICKS: LATE, UNLOADED: SEEN})
    story.holds()
    said = [holds_up([cause], story.held, ends) for cause in (REGISTRY, BROKER, LEDGER)]
    last = "last loaded 2026-11-20 07:00:00 UTC"
    assert said == [f"loads of 2 topics, {last}; 1 topic is late",
                    f"loads of 1 topic, {last}; 1 topic is late", ""]  # fmt: skip
    del story.known[BROKER]
    assert story.holds() == {ORDERS, CLICKS, UNLOADED}, "of the other one"


def test_what_nothing_shows_to_be_over_goes_on() -> None:
    lost = AlertKey("zookeeper", "dc1", "", "a1")
    raised = {key: Alert(*key[:4], "words", NOW, since=NOW - 5) for key in (LOADER, lost)}
    session = ZooKeeperSession(connected=True, since=NOW, servers=1, serving=1)
    silent, back = (program("broker", heard, zookeeper=session) for heard in (1, NOW))
    at_work = program("loader", name="file:///a")
    failed = LoadEnd("dc1", "clicks", "file:///a", failed=True, since=NOW, time=NOW)
    loaded = failed._replace(failed=False)

    def goes_on(*programs: Program, ends: Sequence[LoadEnd] = ()) -> set[AlertKey]:
        return set(unfinished(raised, {}, programs, ends, {"dc1": NOW}))

    assert goes_on(at_work, silent, ends=[failed]) == {LOADER, lost}
    assert goes_on(at_work, silent, ends=[loaded._replace(time=NOW - 5)]) == {LOADER, lost}
    assert goes_on(at_work, back, ends=[failed, loaded]) == set()
    assert goes_on(at_work) == set(), "there is no table"
