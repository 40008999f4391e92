"""The parts put together."""

import pytest
from msgspec.structs import replace

from agent.monitoring.status import AgentPhase
from audit.api.answers import Headline, HealthRow, TopicRow
from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import FaultKind, KindCount, State
from penstock.status.assembly import StatusParts, assembled
from penstock.status.audit import OpenTopic
from penstock.status.command import is_well
from penstock.status.values import AgentStatus, LoadStatus
from penstock.status.words import release_words, verdict_words
from tests.penstock.status.made_up import (
    NOW,
    agent_row,
    agent_status,
    audit_part,
    broker_row,
    cluster_part,
    consumer_row,
    load_row,
    topic_row,
)

DEAD = DeadLetters(lines=1, events=2)
ACCEPTED = (KindCount(kind=FaultKind.LOST, findings=1, events=952),)


def test_a_topic_from_file_to_warehouse() -> None:
    audit = audit_part(
        [replace(topic_row("t", State.PENDING), accepted=ACCEPTED, dead=DEAD), topic_row("gone")],
        loads=[load_row("t", NOW - 5_000, 60)],
        consumers=[consumer_row("t", 60)],
        opened={("c", "t"): OpenTopic(NOW - 9_000, "the loader")},
    )
    parts = StatusParts(cluster=cluster_part(t=100, other=7), agent=agent_status(), audit=audit)
    status = assembled(parts, NOW)
    other, t = status.topics
    assert (t.topic, t.end, t.stored, t.landed, t.unread_bytes) == ("t", 100, 100, 60, 15)
    assert (t.state, t.waits, t.complete_until) == ("pending", "the loader", NOW - 9_000)
    assert (other.topic, other.end, other.landed, other.unread_bytes) == ("other", 7, 0, 0)
    assert (other.state, other.complete_until) == ("", -1)
    assert (t.accepted, other.accepted) == (ACCEPTED, ())
    assert (t.dead, other.dead) == (3, 0)
    assert status.last_load == LoadStatus(
        destination="file:///w", time=NOW - 5_000, topics=1, rows=60, lag=47
    )
    assert (status.verdict, status.complete_until) == ("pending", NOW - 9_000)
    assert status.problems == ()


def test_nothing_at_all_is_not_complete() -> None:
    for state, verdict in ((State.COMPLETE, ""), (State.MISSING, "missing")):
        parts = StatusParts(cluster=cluster_part(), audit=audit_part([topic_row("t", state)]))
        status = assembled(parts, NOW)
        assert (status.topics, status.verdict) == ((), verdict)


def test_without_brokers_topics_are_those_that_the_audit_knows() -> None:
    deleted = replace(topic_row("was"), deleted=True)
    status = assembled(StatusParts(audit=audit_part([topic_row("t"), deleted])), NOW)
    assert [(each.topic, each.end, each.landed) for each in status.topics] == [("t", -1, 0)]
    assert status.verdict == "complete"


def test_without_an_audit_nothing_is_said_of_what_has_landed() -> None:
    status = assembled(StatusParts(cluster=cluster_part(t=100), agent=agent_status()), NOW)
    (t,) = status.topics
    assert (t.end, t.landed, t.unread_bytes, t.state) == (100, -1, 15, "")
    assert status.last_load is None


def test_of_several_clusters_that_counts_whose_brokers_were_asked() -> None:
    audit = audit_part(
        [topic_row("t", State.MISSING, cluster="a"), topic_row("t", cluster="b")],
        agents=[agent_row("a1", cluster="a"), agent_row("b1", cluster="b")],
        loads=[load_row("t", NOW, 1, cluster="a"), load_row("t", NOW - 1, 2, cluster="b")],
        brokers=[broker_row(1, "there:9092", cluster="a"), broker_row(1, "here:9092", cluster="b")],
        clusters=["a", "b"],
    )
    status = assembled(StatusParts(cluster=cluster_part(t=100), audit=audit), NOW)
    assert (status.cluster, status.verdict) == ("b", "complete")
    assert [each.agent for each in status.agents] == ["b1"]
    assert status.last_load is not None
    assert status.last_load.rows == 2
    assert status.problems == ()


def test_an_audit_of_other_clusters_is_a_problem() -> None:
    notices = ["It was rebuilt"]
    audit = audit_part([topic_row("t", cluster="a")], clusters=["a", "b"], notices=notices)
    status = assembled(StatusParts(cluster=cluster_part(t=100), audit=audit), NOW)
    assert status.verdict == ""
    other = "audit: none of its clusters (a, b) has these brokers"
    assert status.problems == ("audit: It was rebuilt", other)


def test_of_the_agent_that_was_asked_counts_what_it_says_itself() -> None:
    audit = audit_part(agents=[agent_row("a1"), agent_row("a2")])
    status = assembled(StatusParts(agent=agent_status("a1"), audit=audit), NOW)
    assert [(each.agent, each.files, each.lag_bytes) for each in status.agents] == [
        ("a1", 3, 15),
        ("a2", -1, 7),
    ]


def test_an_agent_of_which_the_audit_has_not_heard() -> None:
    status = assembled(StatusParts(agent=agent_status("new", AgentPhase.STARTING)), NOW)
    assert status.agents == (
        AgentStatus(
            agent="new", host="h", state="starting", version="0.1.0", files=3, lag_bytes=15
        ),
    )
    assert status.cluster == "c"
    assert status.problems == ("agent: not ready: starting",)


def test_complete_up_to_the_moment_of_the_headline() -> None:
    """Also a topic that waits for nothing: a silent agent may have lines of it."""
    words = "an agent is silent; every line up to 08:29 UTC is accounted for"
    audit = audit_part([topic_row("t")], opened={("c", "t"): OpenTopic(NOW - 1_000, "")})
    for state, verdict in ((State.PENDING, "pending"), (State.COMPLETE, "complete")):
        said = Headline(state=state, mark="…", title=words, badge="…", complete_until=NOW - 39_000)
        audit = replace(audit, headlines={"c": said})
        status = assembled(StatusParts(cluster=cluster_part(t=100), audit=audit), NOW)
        assert (status.verdict, status.complete_until) == (verdict, NOW - 39_000)
        assert (status.calm, status.mark) == (words, "…")
        assert status.topics[0].complete_until == NOW - 39_000


@pytest.mark.parametrize("rows", [[topic_row("t", State.PENDING)], []])
def test_lines_missing_of_a_deleted_topic_are_missing(rows: list[TopicRow]) -> None:
    """As `report`, the page and alerts say."""
    words = "missing at the brokers: 28 events of was"
    headline = Headline(state=State.MISSING, mark="✗", title=words, badge="✗ 1", complete_until=-1)
    deleted = replace(topic_row("was", State.MISSING), deleted=True)
    audit = replace(audit_part([*rows, deleted]), headlines={"c": headline})
    status = assembled(StatusParts(cluster=cluster_part(), audit=audit), NOW)
    assert (status.verdict, verdict_words(status).text) == ("missing", words)
    assert not is_well(status)


def test_partitions_without_a_leader_are_a_problem() -> None:
    cluster = cluster_part(t=100)
    lost = replace(cluster.topics["t"], end=-1, stored=-1, without_leader=2)
    parts = StatusParts(cluster=replace(cluster, topics={"t": lost}))
    assert assembled(parts, NOW).problems == ("brokers: 2 partitions have no leader",)


@pytest.mark.parametrize(
    ("as_of", "problems"),
    [
        (NOW - 1_000, ()),
        (NOW - 90_000, ("audit: it last read the ledger 90 s ago, so its answers are that old",)),
        (0, ()),
    ],
)
def test_an_audit_that_is_behind(as_of: int, problems: tuple[str, ...]) -> None:
    status = assembled(StatusParts(audit=audit_part([topic_row("t")], as_of=as_of)), NOW)
    assert status.problems == problems
    assert status.verdict_as_of == (as_of or -1)


def test_an_agent_that_is_silent_is_a_problem_and_so_is_a_host_that_was_never_heard() -> None:
    """Those of other clusters are another pipeline's; hosts of the inventory are no cluster's."""
    agents = [
        agent_row("", cluster="", state="never", heard=-1),
        agent_row("a1", state="silent", heard=1_795_245_000_000),
        agent_row("a2", cluster="other", state="silent"),
        *(agent_row(state, state=state) for state in ("behind", "ok", "retired")),
    ]
    audit = audit_part(
        [topic_row("t")],
        agents=agents,
        clusters=["c", "other"],
        brokers=[broker_row(1, "here:9092")],
    )
    parts = StatusParts(cluster=cluster_part(t=1), audit=audit)
    assert assembled(parts, 1_795_245_000_000 + 720_000).problems == (
        "host web-1 is in the inventory, and none of its agents was ever heard from",
        "agent a1 on web-1 is silent: last heard 12 min ago, at 2026-11-21T07:10:00Z",
    )
    row = replace(unwell("silent", command="penstock audit retire"), name="a1", words="replaced")
    known = assembled(replace(parts, audit=replace(audit, health=[row])), NOW).problems
    assert known[1].endswith("Z; replaced; what to do: penstock audit retire")


@pytest.mark.parametrize(("up_for", "lines"), [(5_000, 0), (600_000, 1)])
def test_an_agent_that_has_just_started_is_given_a_moment(up_for: int, lines: int) -> None:
    audit = audit_part(agents=[agent_row("a1", state="silent", heard=NOW - 80_000_000)])
    agent = replace(agent_status("a1"), started_millis=NOW - up_for)
    assert len(assembled(StatusParts(agent=agent, audit=audit), NOW).problems) == lines


def unwell(kind: str, cluster: str = "c", command: str = "") -> HealthRow:
    return HealthRow(
        program="broker" if kind == "zookeeper" else "agent",
        cluster=cluster,
        name="",
        host="h",
        state="warning",
        words=f"it is {kind}",
        kind=kind,
        command=command,
    )


def test_programs_with_something_wrong_are_problems() -> None:
    """Those that nothing else says, of this cluster or of the audit."""
    rows = [
        *(unwell("disk", command="df -h /d  # on h"), unwell("certificate", ""), unwell("silent")),
        *(unwell("zookeeper"), unwell("disk", "other"), *(unwell("mirror") for _ in range(9))),
        replace(unwell("inputs"), name="local"),
    ]
    audit = audit_part(clusters=["c"], health=rows)
    problems = assembled(StatusParts(agent=agent_status("local"), audit=audit), NOW).problems
    assert problems[:2] == (
        "agent: it is disk; what to do: df -h /d  # on h",
        "agent: it is certificate",
    )
    assert problems[-1] == "and 1 more programs need attention: see the audit's page, Health"
    assert len(problems) == 11


def test_programs_of_two_releases_are_named() -> None:
    broker = replace(unwell(""), program="broker", state="ok")
    old, away = replace(broker, version="0.0.9"), replace(broker, version="0.0.8", state="away")
    gone = replace(agent_row("a2", state="retired"), version="0.0.8")
    audit = audit_part(agents=[agent_row("a1"), gone], health=[old, away, broker])
    assert release_words(assembled(StatusParts(audit=audit), NOW)) == [
        "1 with release 0.0.9: broker on h",
        "1 with release 0.1.0: agent on web-1",
    ]
    audit = audit_part(agents=[agent_row("a1"), gone], health=[away])
    assert release_words(assembled(StatusParts(audit=audit), NOW)) == []


def test_of_many_lines_the_first_are_shown() -> None:
    silent = [agent_row(f"a{number}", state="silent") for number in range(12)]
    parts = StatusParts(
        audit=audit_part([topic_row("t")], agents=silent),
        broker_remarks={"http://b:1": [f"lost: {number}" for number in range(1_010)]},
    )
    problems = assembled(parts, NOW).problems
    assert problems[10] == "broker at http://b:1: and 1,000 more lines, see http://b:1/readyz"
    assert problems[21] == "and 2 more agents are silent"
    assert len(problems) == 22
