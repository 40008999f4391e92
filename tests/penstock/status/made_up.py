"""Parts of a pipeline and what they say, made up."""

from collections.abc import Sequence

import msgspec

from agent.monitoring.status import AgentPhase, InputStatus, Status
from audit.alerting.answers import NotedAlerts
from audit.api import answers
from audit.reconciling.findings import FaultKind, KindCount, Kinds, State
from audit.reconciling.topic_verdict import Wait, WindowVerdict
from audit.store.judged_hours import HOUR
from penstock.status.audit import AuditPart, OpenTopic
from penstock.status.cluster import ClusterPart, StoredTopic
from penstock.status.values import BrokerStatus, LoadStatus, PipelineStatus, TopicStatus

NOW = 500_000 * HOUR + HOUR // 2
THIS_HOUR = 500_000 * HOUR
CALM = "every line up to 08:29 UTC is accounted for; newer lines are on their way"


def topic_row(topic: str, state: State = State.COMPLETE, *, cluster: str = "c") -> answers.TopicRow:
    """The last hour has this state, those before are complete."""
    return answers.TopicRow(
        cluster=cluster,
        topic=topic,
        topic_id="id-of-" + topic,
        state=state,
        events=100,
        missing=3 if state is State.MISSING else 0,
        excess=0,
        pending_windows=0,
        findings=0,
        agents=1,
        agents_behind=0,
        last_event=NOW,
        from_hour=THIS_HOUR - 2 * HOUR,
        counts=[0, 0, 100],
        states=[State.COMPLETE, State.COMPLETE, state],
        waits="for others" if state is State.PENDING else "",
    )


def load_row(
    topic: str, time: int, rows: int, *, to: str = "file:///w", cluster: str = "c"
) -> answers.LoadRow:
    return answers.LoadRow(
        destination=to,
        cluster=cluster,
        topic=topic,
        run=1,
        time=time,
        rows=rows,
        bytes=1,
        late=0,
        duplicates=0,
        dead=0,
        partitions=1,
        rebuilt=False,
    )


def consumer_row(
    topic: str, upto: int, *, read: int = NOW, to: str = "file:///w", cluster: str = "c"
) -> answers.ConsumerRow:
    return answers.ConsumerRow(
        cluster=cluster, consumer=to, topic=topic, partitions=1, lag=0, read=read, upto=upto
    )


def agent_row(
    agent: str, *, cluster: str = "c", state: str = "ok", heard: int = NOW - 2_000
) -> answers.AgentRow:
    return answers.AgentRow(
        agent=agent,
        host="web-1",
        cluster=cluster,
        version="0.1.0",
        topics=["t"],
        lag_bytes=7,
        heard=heard,
        until=NOW,
        state=state,
        reason="",
    )


def broker_row(number: int, address: str, *, cluster: str = "c") -> answers.BrokerRow:
    return answers.BrokerRow(
        cluster=cluster,
        id=number,
        address=address,
        rack="",
        controller=True,
        partitions=1,
        leads=1,
        counted=NOW,
    )


def audit_part(
    topics: Sequence[answers.TopicRow] = (),
    *,
    agents: Sequence[answers.AgentRow] = (),
    loads: Sequence[answers.LoadRow] = (),
    brokers: Sequence[answers.BrokerRow] = (),
    consumers: Sequence[answers.ConsumerRow] = (),
    clusters: Sequence[str] = ("c",),
    as_of: int = NOW - 500,
    notices: Sequence[str] = (),
    opened: dict[tuple[str, str], OpenTopic] | None = None,
    health: Sequence[answers.HealthRow] = (),
) -> AuditPart:
    page = answers.ListPage(page=1, size=500, total=0)
    return AuditPart(
        answers.TopicsAnswer(
            now=NOW,
            as_of=as_of,
            by_state={},
            clusters=list(clusters),
            alerts=0,
            page=page,
            items=list(topics),
            notices=list(notices),
        ),
        answers.AgentsAnswer(by_state={}, page=page, items=list(agents)),
        answers.Loads(destinations=[], page=page, items=list(loads), hours=[]),
        answers.BrokersAnswer(brokers=list(brokers), consumers=list(consumers), unreachable={}),
        opened or {},
        dict.fromkeys(clusters),
        health,
    )


def answers_of(
    part: AuditPart, *, cells: Sequence[WindowVerdict] = (), waits: Sequence[Wait] = ()
) -> dict[str, bytes]:
    """What an audit answers that says this, by path; of each topic the same."""
    topic = answers.TopicAnswer(
        cluster="c",
        topic="t",
        topic_id="",
        former_ids=[],
        state=State.PENDING,
        now=NOW,
        as_of=NOW,
        from_time=0,
        to_time=NOW,
        step=10_000,
        tiers=[],
        flow=answers.Flow(**dict.fromkeys(answers.Flow.__struct_fields__, 0)),
        cells=list(cells),
        findings=[],
        findings_total=0,
        waits=list(waits),
        waits_total=len(waits),
    )
    said = {path: getattr(part, path) for path in ("topics", "agents", "loads", "brokers")}
    page = answers.ListPage(page=1, size=500, total=len(part.health))
    said["health"] = answers.HealthAnswer(
        now=NOW, as_of=NOW, state="ok", summary="", by_state={}, page=page, items=list(part.health)
    )
    said |= {"topic": topic, "alerts": NotedAlerts(page=part.agents.page, items=[*part.alerts])}
    return {path: msgspec.json.encode(each) for path, each in said.items()}


def cluster_part(**ends: int) -> ClusterPart:
    """A topic of each name, with as many messages."""
    return ClusterPart(
        brokers=(BrokerStatus(id=1, address="here:9092", controller=True),),
        topics={
            name: StoredTopic(partitions=1, stored=end, end=end, without_leader=0)
            for name, end in ends.items()
        },
    )


def agent_status(agent: str = "a1", phase: AgentPhase = AgentPhase.RUNNING) -> Status:
    inputs = (
        InputStatus(name="one", topic="t", files=2, lag_bytes=10),
        InputStatus(name="two", topic="t", files=1, lag_bytes=5),
    )
    return Status(phase=phase, version="0.1.0", agent=agent, host="h", cluster="c", inputs=inputs)


def status_of(
    topics: Sequence[TopicStatus] = (),
    *,
    verdict: str = "pending",
    now: int = NOW,
    problems: Sequence[str] = (),
    load: LoadStatus | None = None,
    alerts: int = 0,
) -> PipelineStatus:
    """Of a pipeline that answers."""
    return PipelineStatus(
        now=now,
        cluster="c",
        brokers=(BrokerStatus(id=1, address="here:9092", controller=True),),
        registry_subjects=3,
        topics=tuple(topics),
        last_load=load,
        verdict=verdict,
        calm=CALM if verdict == "pending" else "",
        mark="✓" if verdict == "pending" else "",
        complete_until=min((each.complete_until for each in topics), default=-1),
        verdict_as_of=now,
        alerts=alerts,
        problems=tuple(problems),
    )


def topic(
    name: str,
    end: int = 100,
    *,
    state: str = "pending",
    until: int = NOW - 40_000,
    waits: str = "",
    kinds: Kinds = (),
) -> TopicStatus:
    return TopicStatus(
        topic=name,
        partitions=1,
        stored=end,
        end=end,
        rate=4.5,
        landed=end // 2,
        unread_bytes=2048,
        state=state,
        complete_until=until,
        waits=waits,
        missing=3 if state == "missing" else 0,
        kinds=kinds,
    )


MISSING = KindCount(kind=FaultKind.MISSING, findings=1, events=3)
LOAD = LoadStatus(destination="file:///w", time=NOW - 12_000, topics=2, rows=4_000, lag=50)
