"""The JSON that `/api/v1` answers with: its shapes, from which the OpenAPI description is made.

Times are milliseconds since 1970 UTC; -1 or an empty text where something is not known. Lists that
can be long come in pages. What the store can say alone, it says with these same values.
"""

import msgspec

from audit.api.verdicts import Wait, WindowVerdict
from audit.findings import CommandKind, Finding, Kinds, State


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a list the items are."""

    page: int  # from 1 on
    size: int
    total: int


class Rate(msgspec.Struct, frozen=True):
    """How fast logs grow: the messages that were appended between two looks at their ends, for each
    second. `events` is -1 while it is not known."""

    events: float = -1.0
    measured: int = 0  # when the second look was; 0: there was none
    over: int = 0  # milliseconds between the two


class FailingLoad(msgspec.Struct, frozen=True):
    """A table that no load commits anything of, and what can be done."""

    cluster: str
    topic: str
    destination: str
    since: int  # when the first of the loads was tried that failed without one that did not
    said: int  # when the loader said so last
    reason: str
    cure: str
    command: str = ""  # of the cure, if it has one for the loader
    command_kind: CommandKind | None = None


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in the overview. `counts` and `states` are by hour, the oldest first."""

    cluster: str
    topic: str
    topic_id: str
    state: State
    events: int
    missing: int
    excess: int
    pending_windows: int
    findings: int  # that nobody has accepted
    agents: int
    agents_behind: int
    last_event: int
    from_hour: int
    counts: list[int]
    states: list[State]
    waits: str  # for what, in words; empty if for nothing
    deleted: bool = False  # the cluster lacks it, or it was retired: no report on it is expected
    load_fails: bool = False  # at some destination: then it is pending at least
    groups: int = 0  # consumer groups that read it
    group_behind: int = -1  # milliseconds: of the one that is furthest behind; -1: not known
    partly_unseen: bool = False  # nobody watched for a time, and that is accepted
    having: list[State] = []  # all that its hours have anything of, the worst first
    kinds: Kinds = ()  # what nobody has accepted, each kind by itself
    rate: Rate = Rate()


class TopicFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with its topic, where findings of several topics stand together."""

    cluster: str
    topic: str
    topic_id: str
    finding: Finding


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on several topics in one sentence. Its times are UTC."""

    state: State
    mark: str  # the state's sign; `!` where tables cannot be loaded; `✓` of a pending state where
    # every line up to a recent moment is accounted for and nothing keeps newer ones
    title: str  # the worst finding: kind, topic, host, events, from when to when
    more: str = ""  # what is wrong in all, or what is known nevertheless
    badge: str  # for the title of a tab: the sign, and how many findings there are
    worst: list[TopicFinding] = []  # the first three


class AlteredTotal(msgspec.Struct, frozen=True):
    """Text that is not what the files have, or files that were not read, of one kind."""

    kind: str  # replaced, cut, dropped, unread, other: as in the ledger
    lines: int
    count: int  # characters replaced, bytes cut off, values dropped, files not read


class TopicsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/topics?cluster&state&search&sort&hours&page&size`"""

    now: int
    as_of: int  # up to when the ledger has been read
    by_state: dict[str, int]  # how many topics there are of each, whatever is searched for
    clusters: list[str]
    alerts: int  # that are raised
    page: ListPage
    items: list[TopicRow]
    notices: list[str] = []  # what whoever looks should know: rebuilt, unreachable, in words
    failing_loads: list[FailingLoad] = []  # of all topics, what fails longest first; 500 at most
    partly_unseen: int = 0  # how many topics, whatever is searched for
    altered: list[AlteredTotal] = []  # of all topics of these hours
    having: dict[str, int] = {}  # how many topics have any of each: one may be counted in several
    headline: Headline | None = None  # on all topics of these hours, whatever is searched for
    rate: Rate = Rate()  # of all topics of the clusters, whatever is searched for


class TierTotals(msgspec.Struct, frozen=True, kw_only=True):
    """One tier's part of the sum. Delays are milliseconds after the event's own time, counted
    by doublings: between these, p50 to p99 are interpolated, and `max` is an upper bound; -1 where
    they are not known. Brokers have none: what they count now and then would be how late it was
    counted."""

    tier: str
    destination: str
    events: int
    bytes: int
    crc_sum: int
    late: int
    duplicates: int
    dead: int
    p50: int = -1
    p95: int = -1
    p99: int = -1
    max: int = -1
    at_least: bool = False  # it has more events than it has said, and nobody knows how many


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """Where every line went: read = shipped + filtered + dead + lost, exactly, where the number of
    lost ones is known. `shipped` counts lines, of which one or several make an event."""

    read: int
    shipped: int
    filtered: int
    dead: int
    lost: int
    lost_bytes: int
    events: int  # that these lines became


class Remark(msgspec.Struct, frozen=True):
    """The same of one file. It changes no verdict. Texts are empty where too many files or fields
    are concerned to be told apart."""

    kind: str
    input: str
    path: str
    host: str
    lines: int
    count: int
    first_time: int
    last_time: int
    name: str = ""  # of the field that was dropped
    hint: str = ""  # the encoding that the file looks like


class CheckedLog(msgspec.Struct, frozen=True):
    """When a broker last read the log of a partition again and compared its CRCs: each is when the
    last complete reading began; -1: there was none."""

    partition: int
    recent: int  # of its young segments: those that were written to in the last day, usually
    whole: int  # of all of them


class LogChecks(msgspec.Struct, frozen=True, kw_only=True):
    """The same of a topic: the earliest of its partitions, -1 if one was never read."""

    recent: int = -1
    whole: int = -1
    logs: list[CheckedLog] = []  # the first hundred, those that have waited longest first
    logs_total: int = 0


class TopicAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/topic?cluster&topic&from&to&step`: `cells` are windows, or several of them taken
    together, each `step` milliseconds long."""

    cluster: str
    topic: str
    topic_id: str
    former_ids: list[str]  # topics of that name that were deleted
    state: State
    now: int
    as_of: int
    from_time: int
    to_time: int
    step: int
    tiers: list[TierTotals]
    flow: Flow
    cells: list[WindowVerdict]
    findings: list[Finding]  # the first hundred
    findings_total: int
    waits: list[Wait]  # the first hundred
    waits_total: int
    deleted: bool = False  # the cluster lacks it, or it was retired: no report on it is expected
    failing_loads: list[FailingLoad] = []
    altered: list[AlteredTotal] = []
    remarks: list[Remark] = []  # the first hundred
    kinds: Kinds = ()  # what nobody has accepted, each kind by itself
    checks: LogChecks = LogChecks()
    rate: Rate = Rate()


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/findings?cluster&topic&host&kind&from&to&accepted&page&size`: without a topic, of
    all."""

    page: ListPage
    items: list[Finding]
    topics: list[str]  # of each item, as cluster/topic
    topic_ids: list[str]  # of each item: a topic of that name may have been deleted
    by_kind: dict[str, int] = {}  # how many there are of each, whatever kind is asked for


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A host's part of a topic."""

    host: str
    agents: list[str]
    files: int
    shipped: int  # events
    landed: int
    missing: int
    lost_bytes: int
    filtered: int
    dead: int
    last: int
    state: State
    agent_state: str = ""  # of its agents, that of which one thinks first: silent, behind, ok …
    heard: int = -1  # when that one was heard last
    kinds: Kinds = ()  # what is wrong there and nobody has accepted, each kind by itself


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/hosts?cluster&topic&search&page&size`: those with faults first."""

    page: ListPage
    items: list[HostRow]


class HostTopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A host's part of one topic."""

    cluster: str
    topic: str
    part: HostRow


class HostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/host?cluster&host`: the agents of a host, and its part of each topic that they ship
    to, a hundred at most; those with faults first."""

    host: str
    agents: list["AgentRow"]
    items: list[HostTopicRow]
    topics_total: int


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation of a file. `missing` are seqs as [first, next], `missing_bytes` likewise."""

    source: str
    path: str
    agent: str
    host: str
    shipped: list[tuple[int, int]]
    landed: list[tuple[int, int]]
    missing: list[tuple[int, int]]
    missing_bytes: list[tuple[int, int]]
    position: int
    finished: bool
    lost_bytes: int
    filtered: int
    dead: int
    last: int
    state: State
    words: list[str]
    gone: bool = False  # it vanished or was truncated before an agent had read its end


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/sources?cluster&topic&host&search&page&size`: those with faults first."""

    page: ListPage
    items: list[SourceRow]


class AgentRow(msgspec.Struct, frozen=True):
    agent: str
    host: str
    cluster: str
    version: str
    topics: list[str]
    lag_bytes: int
    heard: int
    until: int  # of the topic that is furthest behind
    state: str  # ok, behind, silent (since `heard`), never, retired
    reason: str  # why it is retired, and by whom


class AgentsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/agents?cluster&state&search&sort&page&size`"""

    by_state: dict[str, int]
    page: ListPage
    items: list[AgentRow]
    expected_hosts: int = 0  # that the inventory file names


class LoadRow(msgspec.Struct, frozen=True):
    """What one run committed of one topic."""

    destination: str
    cluster: str
    topic: str
    run: int
    time: int
    rows: int
    bytes: int
    late: int
    duplicates: int
    dead: int
    partitions: int
    rebuilt: bool


class HourRow(msgspec.Struct, frozen=True, kw_only=True):
    """An hour of a topic at one destination."""

    hour: int
    state: State
    events: int  # that brokers have, or agents where no broker counts
    rows: int
    checked: int  # when its files were last compared with what was committed; -1: never
    words: str


class Loads(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/loads?cluster&topic&destination&page&size`; `hours` only for one topic."""

    destinations: list[str]
    page: ListPage
    items: list[LoadRow]
    hours: list[HourRow]
    failing_loads: list[FailingLoad] = []  # of what is asked about


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    id: int
    address: str
    rack: str
    controller: bool
    partitions: int
    leads: int
    counted: int  # when its last ledger entry was written; -1: it writes none


class ConsumerRow(msgspec.Struct, frozen=True):
    """How far somebody has read a topic."""

    cluster: str
    consumer: str  # the root that a loader writes to, or a group
    topic: str
    partitions: int
    lag: int  # offsets
    read: int  # when it last said so
    upto: int = -1  # it has read the offsets below, of all partitions together


class BrokersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/brokers?cluster`; `unreachable` says why a cluster could not be asked."""

    brokers: list[BrokerRow]
    consumers: list[ConsumerRow]
    unreachable: dict[str, str]


class HealthRow(msgspec.Struct, frozen=True, kw_only=True):
    """How a program is, or all agents together. `kind` is that of the alert about it, by which the
    runbook knows it; empty if nothing is wrong."""

    program: str  # agents, agent, broker, zookeeper, registry, mirror, loader, audit
    cluster: str
    name: str
    host: str
    state: str  # ok, warning, away, unknown
    words: str
    started: int = -1
    heard: int = -1
    version: str = ""
    disk: str = ""  # the directory on the disk that has the smallest part left
    disk_free: int = -1
    disk_total: int = -1
    certificate: str = ""  # the file that expires first
    certificate_ends: int = -1
    kind: str = ""
    command: str = ""
    command_kind: CommandKind | None = None


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/health?cluster&state&page&size`: what is wrong comes first."""

    now: int
    as_of: int
    state: str  # the worst of all
    summary: str  # in one sentence, whatever is asked for
    by_state: dict[str, int]
    page: ListPage
    items: list[HealthRow]


class GroupPartition(msgspec.Struct, frozen=True):
    """How far a group is in one partition. What is not known is -1, and `unknown` says why."""

    partition: int
    committed: int  # the next offset that it wants to read
    end: int
    messages: int  # that it has not read
    behind: int  # milliseconds: the age of the first of them; 0 where there is none
    unknown: str = ""


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is in one topic, over the partitions of which that is known."""

    cluster: str
    group: str
    state: str  # as brokers name it: Stable, Empty, PreparingRebalance …; empty: not known
    topic: str
    partitions: int  # in which it has committed
    messages: int  # that it has not read; -1: not known
    behind: int  # milliseconds: the age of the oldest of them; -1: not known
    furthest: int  # the partition of that one; -1: none
    unread: int  # messages that retention removed before the group had read them
    unknown_partitions: int
    unknown: str  # why, of one of these


class GroupsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/groups?cluster&topic&group&search&page&size`: who is furthest behind comes first.
    With `topic` and `group` its partitions, five hundred at most."""

    as_of: int  # when a cluster was asked last, the one that was asked longest ago; 0: not yet
    looks: bool  # false: `groups.interval` is 0
    page: ListPage
    items: list[GroupRow]
    partitions: list[GroupPartition] = []
    notices: list[str] = []  # what could not be seen, and why


class AlertRow(msgspec.Struct, frozen=True, kw_only=True):
    kind: str  # unknown, missing, duplicated, changed, unloaded, late, silent
    cluster: str
    topic: str  # empty with silent
    host: str
    words: str
    raised: int
    resolved: int  # -1: it still holds
    hour: int = -1  # of event time that it is about; -1 with unloaded, late and silent
    finding: str = ""  # with a fault, the id of the first finding when it was raised
    since: int = -1  # when it began, as far as that is known


class WaitingAlert(msgspec.Struct, frozen=True, kw_only=True):
    """What is known and not raised yet, as it may still put itself right."""

    kind: str
    cluster: str
    topic: str
    host: str
    words: str
    since: int
    due: int  # when it is raised, if it stands until then
    hour: int = -1


class AlertsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/alerts?state&page&size`"""

    page: ListPage
    items: list[AlertRow]
    waiting: list[WaitingAlert] = []  # what is due first; a hundred at most
    waiting_total: int = 0


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """A topic between two times, as `penstock report` shows it."""

    cluster: str
    topic: str
    topic_id: str
    state: State
    tiers: list[TierTotals]
    flow: Flow
    missing: int
    excess: int
    unclaimed: int
    findings: list[Finding]  # the first thousand
    findings_total: int
    waits: list[Wait]
    waits_total: int
    pending: int = 0  # events that a later tier may still speak of: in no sum of what is missing
    elsewhere: int = 0  # more in this time at a later tier, as they are fewer in another; or fewer
    unclaimed_yet: int = 0  # of `unclaimed`, events of which an earlier tier may still speak
    deleted: bool = False  # the cluster lacks it, or it was retired: no report on it is expected
    failing_loads: list[FailingLoad] = []  # then it is pending at least
    altered: list[AlteredTotal] = []
    remarks: list[Remark] = []  # the first hundred
    kinds: Kinds = ()  # what nobody has accepted, each kind by itself
    checks: LogChecks = LogChecks()
    complete_until: int = -1  # where the first window begins that still waits; -1: none does


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/report?cluster&topic&from&to`"""

    state: State
    from_time: int
    to_time: int
    now: int
    as_of: int
    topics: list[TopicReport]


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A change on the time axis. Several of a kind within a minute are one: then `host` and `topic`
    are empty where they differ."""

    time: int
    kind: str  # start, release, leader, broker, group, load, accepted, retired
    cluster: str
    topic: str = ""
    host: str = ""
    group: str = ""  # a consumer group
    words: str


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/marks?cluster&topic&host&from&to`: the newest 500."""

    from_time: int
    to_time: int
    marks: list[Mark]
    total: int


class DelayPoint(msgspec.Struct, frozen=True):
    """Of the events of an hour: half of them, and 99 %, were there after so many milliseconds."""

    hour: int
    events: int
    p50: int
    p99: int


class TierDelays(msgspec.Struct, frozen=True, kw_only=True):
    """One tier by the hour of its events; hours without any are left out."""

    tier: str
    destination: str
    points: list[DelayPoint]


class LagPoint(msgspec.Struct, frozen=True):
    """The greatest within a step."""

    time: int  # when the step begins
    amount: int  # bytes of an agent, messages otherwise
    behind: int  # milliseconds; -1: not known


class LagSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Steps without a point had no lag, if the kind was measured then."""

    kind: str  # agent, group, files
    topic: str
    name: str  # of the host, the group, the destination
    points: list[LagPoint]


class HistoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/history?cluster&topic&host&from&to`: delays and lags of a topic, or the lag of a
    host, over time. The twelve series with most lag."""

    from_time: int
    to_time: int
    step: int  # of lags
    measured: dict[str, list[int]]  # when steps begin in which lags were, by kind
    lags: list[LagSeries]
    delays: list[TierDelays] = []


class HourGate(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/hour?cluster&topic&hour`: whether agents and brokers are done with an hour and
    nothing of it is missing there. Whoever asks knows himself what he has read."""

    complete: bool
    by: str  # how that is known, in words
    missing: str  # for what it waits, or what is missing, in words; the same while it is the same
    names: list[str]  # of hosts


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Any answer with another status than 200."""

    error: str
    command: str = ""  # that helps, if there is one
