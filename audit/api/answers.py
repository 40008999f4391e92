"""The JSON answers of `/api/v1`, from which the OpenAPI description is made.

Times are milliseconds since 1970 UTC; -1 or an empty text means unknown. Long lists come in pages.
The store returns the same values where it can.
"""

import msgspec

from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import CommandKind, Finding, Kinds, State
from audit.reconciling.topic_verdict import Wait, WindowVerdict


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a page's items in their list."""

    page: int  # from 1 on
    size: int
    total: int


class Rate(msgspec.Struct, frozen=True):
    """The growth of logs, in messages per second, between two measurements of log ends. `events` is
    -1 if unknown."""

    events: float = -1.0
    measured: int = 0  # the time of the second measurement; 0: none yet
    over: int = 0  # milliseconds between the two


class FailingLoad(msgspec.Struct, frozen=True):
    """A table whose loads fail, with the reason and the cure."""

    cluster: str
    topic: str
    destination: str
    since: int  # the first failure since the last success
    said: int  # the loader's latest report
    reason: str
    cure: str
    command: str = ""  # the cure's command for the loader, if it has one
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
    findings: int  # open ones
    agents: int
    agents_behind: int
    last_event: int
    from_hour: int
    counts: list[int]
    states: list[State]
    waits: str  # what it waits for, in words
    deleted: bool = False  # the cluster lacks it, or it was retired: no report on it is expected
    load_fails: bool = False  # at some destination, so it is pending at least
    groups: int = 0  # consumer groups that read it
    group_behind: int = -1  # milliseconds: of the group furthest behind; -1: unknown
    accepted: Kinds = ()  # faults that persons accepted, by kind
    having: list[State] = []  # all states of its hours, the worst first
    kinds: Kinds = ()  # open faults by kind
    dead: DeadLetters = DeadLetters()
    rate: Rate = Rate()


class TopicFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with its topic, for lists of findings of several topics."""

    cluster: str
    topic: str
    topic_id: str
    finding: Finding


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict about several topics in one sentence. The times in it are UTC."""

    state: State
    mark: str  # the state's sign; `!` if tables cannot be loaded; `✓` of a pending state in which
    # every line up to a recent moment is accounted for and nothing delays newer ones
    complete_until: int = -1  # that moment, except for faults; 0: unknown; -1: all of the time
    title: str  # the worst finding: kind, topic, host, events, times
    more: str = ""  # all faults in sum, or what is known nevertheless
    badge: str  # for the title of a tab: the sign, and the number of findings
    worst: list[TopicFinding] = []  # the first three


class AlteredTotal(msgspec.Struct, frozen=True):
    """A total of altered text of one kind, or of files that were not read."""

    kind: str  # replaced, cut, dropped, unread, other: as in the ledger
    lines: int
    count: int  # characters replaced, bytes cut off, values dropped, files not read


class TopicsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/topics?cluster&state&search&sort&hours&page&size`."""

    now: int
    as_of: int  # the time up to which the ledger has been read
    by_state: dict[str, int]  # topics by state, regardless of the search
    clusters: list[str]
    alerts: int  # raised ones
    page: ListPage
    items: list[TopicRow]
    notices: list[str] = []  # about the audit itself: rebuilt, unreachable, in words
    failing_loads: list[FailingLoad] = []  # of all topics, longest failing first; 500 at most
    accepted: Kinds = ()  # faults of all topics that persons accepted, by kind
    altered: list[AlteredTotal] = []  # of all topics of these hours
    having: dict[str, int] = {}  # topics with any hour of each state; one may count several times
    matching: dict[str, int] = {}  # the same of the topics that match the search
    headline: Headline | None = None  # on all topics of these hours, regardless of the search
    rate: Rate = Rate()  # of all topics of the clusters, regardless of the search


class TierTotals(msgspec.Struct, frozen=True, kw_only=True):
    """One tier's totals. Delays are milliseconds since the event's own time, counted by powers of
    two: p50 to p99 are interpolated, `max` is an upper bound; -1 if unknown. Brokers have no
    delays, because they count at intervals."""

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
    at_least: bool = False  # it has more events than reported, by an unknown number


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of all lines: read = shipped + filtered + dead + lost, exactly, if the number of
    lost lines is known. `shipped` counts lines; an event consists of one or more lines."""

    read: int
    shipped: int
    filtered: int
    dead: int
    lost: int
    lost_bytes: int
    events: int  # that these lines became


class Remark(msgspec.Struct, frozen=True):
    """Altered text of one file, which does not affect the verdict. Texts are empty if too many
    files or fields are affected."""

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
    """When a broker last scrubbed a partition's log by comparing CRCs: the beginnings of the last
    complete scrubs; -1 if there was none yet."""

    partition: int
    recent: int  # of its young segments: usually those written to in the last day
    whole: int  # of all segments


class LogChecks(msgspec.Struct, frozen=True, kw_only=True):
    """The last scrubs of a topic's logs. The times are the earliest of all partitions, or -1 if a
    partition was never scrubbed."""

    recent: int = -1
    whole: int = -1
    logs: list[CheckedLog] = []  # the first hundred, the longest waiting first
    logs_total: int = 0


class TopicAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/topic?cluster&topic&from&to&step`. `cells` are windows, or sums of
    several, each `step` milliseconds long."""

    cluster: str
    topic: str
    topic_id: str
    former_ids: list[str]  # deleted topics of that name
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
    kinds: Kinds = ()  # open faults by kind
    checks: LogChecks = LogChecks()
    rate: Rate = Rate()
    reservations: list[str] = []  # what the verdict rests on without a proof, in words


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/findings?cluster&topic&host&kind&from&to&accepted&page&size`: without
    a topic, the findings of all topics."""

    page: ListPage
    items: list[Finding]
    topics: list[str]  # of each item, as cluster/topic
    topic_ids: list[str]  # of each item: a topic of that name may have been deleted
    by_kind: dict[str, int] = {}  # findings by kind, regardless of `kind`


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A host that ships to a topic, with its totals in that topic."""

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
    agent_state: str = ""  # of its agent with the worst state: silent, behind, ok …
    heard: int = -1  # when that agent was last heard
    kinds: Kinds = ()  # open faults by kind


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/hosts?cluster&topic&search&page&size`, hosts with faults first."""

    page: ListPage
    items: list[HostRow]


class HostTopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that a host ships to, with the host's totals in it."""

    cluster: str
    topic: str
    part: HostRow


class HostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/host?cluster&host`: a host's agents, and its part of at most a hundred
    topics that it ships to, topics with faults first."""

    host: str
    agents: list["AgentRow"]
    items: list[HostTopicRow]
    topics_total: int


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation of a file. `missing` has sequence numbers as [first, next], `missing_bytes`
    has byte positions."""

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
    events: int = -1  # that it has, if its agent has reported its end
    size: int = -1  # the same in bytes
    unread: str = ""  # why its agent will not read it to its end
    waits: list[Wait] = []  # until all of its events have arrived


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/sources?cluster&topic&host&search&sources&page&size`, files with
    faults first. With `sources`, each has its end and what it waits for, and the answer has the
    roots that the topic is landed in."""

    page: ListPage
    items: list[SourceRow]
    as_of: int = 0  # the time up to which the ledger has been read
    destinations: list[str] = []
    failing_loads: list[FailingLoad] = []


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
    replaced_by: str = ""  # a silent one: the agent that took over its data directory
    signature: str = ""  # of its statements: signed, unsigned, rejected


class AgentsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/agents?cluster&state&search&sort&page&size`."""

    by_state: dict[str, int]
    page: ListPage
    items: list[AgentRow]
    expected_hosts: int = 0  # in the inventory file
    by_signature: dict[str, int] = {}  # all agents: signed, unsigned, rejected


class JournalKey(msgspec.Struct, frozen=True, kw_only=True):
    """A journal, and the key that its entries are signed with. `fingerprint` and `public_key` (PEM)
    are empty if they are not."""

    cluster: str
    journal: str
    tier: str  # agent, broker, mirror, hdfs, operator
    host: str
    fingerprint: str = ""
    public_key: str = ""
    since: int = -1  # the first entry with that key
    last: int = -1  # the newest entry
    state: str = ""  # signed, unsigned, or rejected: its newest entries were not counted


class JournalFault(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of a journal that were not counted, as they are `forged`, signed with an `unknown
    key` or one of a program of `another tier's`, about another journal's source (`claims another's
    source`), or `unsigned` although signatures are required; or that may have been counted, but the
    journal's signatures do not cover them: `altered`, or of an agent whose `chain begun anew`."""

    cluster: str
    journal: str
    tier: str
    host: str
    kind: str
    first: int
    entries: int
    since: int  # the time of what is concerned
    until: int
    noticed: int
    fingerprint: str = ""  # of an unknown key


class KeysAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The journals of a cluster with their keys, and what is wrong with signatures."""

    page: ListPage
    journals: list[JournalKey]
    faults: list[JournalFault]


class LoadRow(msgspec.Struct, frozen=True):
    """The commit of one loader run for one topic."""

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
    """One hour of a topic at one destination."""

    hour: int
    state: State
    events: int  # at the brokers, or at agents if no broker counts
    rows: int
    checked: int  # when its files were last compared with what was committed; -1: never
    words: str


class Loads(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/loads?cluster&topic&destination&page&size`. `hours` has items only if
    one topic is queried."""

    destinations: list[str]
    page: ListPage
    items: list[LoadRow]
    hours: list[HourRow]
    failing_loads: list[FailingLoad] = []  # of these topics


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    id: int
    address: str
    rack: str
    controller: bool
    partitions: int
    leads: int
    counted: int  # when its last ledger entry was written; -1: it writes none
    signature: str = ""  # of its statements: signed, unsigned, rejected


class ConsumerRow(msgspec.Struct, frozen=True):
    """The position of a loader or consumer group in a topic."""

    cluster: str
    consumer: str  # the root that a loader writes to, or a group
    topic: str
    partitions: int
    lag: int  # offsets
    read: int  # the time of its last report
    upto: int = -1  # offsets read, summed over all partitions


class BrokersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/brokers?cluster`. `unreachable` is the reason why a cluster did not
    answer."""

    brokers: list[BrokerRow]
    consumers: list[ConsumerRow]
    unreachable: dict[str, str]


class HealthRow(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a program, or of all agents. `kind` is the kind of its alert and runbook entry;
    empty if nothing is wrong."""

    program: str  # agents, agent, broker, zookeeper, registry, mirror, loader, audit
    cluster: str
    name: str
    host: str
    state: str  # ok, warning, away, unknown
    words: str
    started: int = -1
    heard: int = -1
    version: str = ""
    disk: str = ""  # the directory on the fullest disk
    disk_free: int = -1
    disk_total: int = -1
    certificate: str = ""  # the file that expires first
    certificate_ends: int = -1
    kind: str = ""
    command: str = ""
    command_kind: CommandKind | None = None
    signature: str = ""  # of its statements: signed, unsigned, rejected


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/health?cluster&state&page&size`, programs with problems first."""

    now: int
    as_of: int
    state: str  # the worst of all
    summary: str  # in one sentence, regardless of the query
    by_state: dict[str, int]
    page: ListPage
    items: list[HealthRow]
    signatures: dict[str, dict[str, int]] = {}  # programs by kind: signed, unsigned, rejected


class GroupPartition(msgspec.Struct, frozen=True):
    """A group's position in one partition. Unknown values are -1, and `unknown` gives the
    reason."""

    partition: int
    committed: int  # the next offset to read
    end: int
    messages: int  # unread ones
    behind: int  # milliseconds: the age of the first unread message; 0 if there is none
    unknown: str = ""


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group's position in one topic, based on the partitions in which its position is known."""

    cluster: str
    group: str
    state: str  # as brokers name it: Stable, Empty, PreparingRebalance …; empty: unknown
    topic: str
    partitions: int  # with a committed offset
    messages: int  # unread ones; -1: unknown
    behind: int  # milliseconds: the age of the oldest unread message; -1: unknown
    furthest: int  # the partition of that message; -1: none
    unread: int  # messages that retention removed before the group had read them
    unknown_partitions: int
    unknown: str  # the reason for one of these


class GroupsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/groups?cluster&topic&group&search&page&size`, the group furthest
    behind first. With `topic` and `group`, it has the group's partitions, at most five hundred."""

    as_of: int  # when the clusters were asked last, the earliest of them; 0: not yet
    looks: bool  # false: `groups.interval` is 0
    page: ListPage
    items: list[GroupRow]
    partitions: list[GroupPartition] = []
    notices: list[str] = []  # what is unknown, and why


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
    since: int = -1  # when it began, as far as known


class WaitingAlert(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that is not raised yet, because it may still resolve itself."""

    kind: str
    cluster: str
    topic: str
    host: str
    words: str
    since: int
    due: int  # when it is raised, if it lasts until then
    hour: int = -1


class AlertsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/alerts?state&page&size`."""

    page: ListPage
    items: list[AlertRow]
    waiting: list[WaitingAlert] = []  # the first due first; a hundred at most
    waiting_total: int = 0


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a period, as `penstock report` shows it."""

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
    pending: int = 0  # events that a later tier may still claim; not in `missing`
    elsewhere: int = 0  # events that moved into this time at a later tier; below zero: out of it
    unclaimed_yet: int = 0  # of `unclaimed`, events that an earlier tier may still claim
    deleted: bool = False  # the cluster lacks it, or it was retired: no report on it is expected
    failing_loads: list[FailingLoad] = []  # if any, it is pending at least
    altered: list[AlteredTotal] = []
    remarks: list[Remark] = []  # the first hundred
    kinds: Kinds = ()  # open faults by kind
    accepted: Kinds = ()  # faults that persons accepted, by kind
    checks: LogChecks = LogChecks()
    complete_until: int = -1  # every earlier line is accounted for; -1: all lines; 0: unknown
    retired_roots: list[str] = []  # roots of landed files from which nothing is expected, in words
    reservations: list[str] = []  # what the verdict rests on without a proof, in words


class UnreadInput(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that an agent does not read or ship until an operator acts, with the command that shows
    the reason."""

    cluster: str
    host: str
    words: str
    since: int  # -1: unknown
    command: str = ""
    command_kind: CommandKind | None = None


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/report?cluster&topic&from&to`. With `unread` inputs, the report is at
    best pending, because it is unknown to which topics their lines belong."""

    state: State
    from_time: int
    to_time: int
    now: int
    as_of: int
    topics: list[TopicReport]
    unread: list[UnreadInput] = []


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A change on the time axis. Changes of one kind within a minute are combined; `host` and
    `topic` are empty if they differ."""

    time: int
    kind: str  # start, release, leader, broker, group, load, accepted, retired
    cluster: str
    topic: str = ""
    host: str = ""
    group: str = ""  # a consumer group
    words: str


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/marks?cluster&topic&host&from&to`: the newest 500 marks."""

    from_time: int
    to_time: int
    marks: list[Mark]
    total: int


class DelayPoint(msgspec.Struct, frozen=True):
    """The delays of an hour's events, in milliseconds: the delays within which half of the events,
    and 99 % of them, arrived."""

    hour: int
    events: int
    p50: int
    p99: int


class TierDelays(msgspec.Struct, frozen=True, kw_only=True):
    """One tier's delays by the hour of the events; hours without events are left out."""

    tier: str
    destination: str
    points: list[DelayPoint]


class LagPoint(msgspec.Struct, frozen=True):
    """The greatest lag in one step."""

    time: int  # the beginning of the step
    amount: int  # bytes of an agent, messages otherwise
    behind: int  # milliseconds; -1: unknown


class LagSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Lags over time. A step without a point had no lag, if that kind of lag was measured then."""

    kind: str  # agent, group, files
    topic: str
    name: str  # of the host, the group, the destination
    points: list[LagPoint]


class HistoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/history?cluster&topic&host&from&to`: delays and lags of a topic, or
    the lag of a host, over time. It has the twelve series with the greatest lag."""

    from_time: int
    to_time: int
    step: int  # of lags
    measured: dict[str, list[int]]  # by kind, the beginnings of steps that were measured
    lags: list[LagSeries]
    delays: list[TierDelays] = []


class HourGate(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/hour?cluster&topic&hour&destination&rebuilt`: whether agents and brokers have
    finished an hour, and lack none of its lines. Files are judged only at a destination where the
    hour was rebuilt at this time; otherwise the loader itself knows what it has read."""

    complete: bool
    by: str  # what proves it, in words
    missing: str  # what it waits for, or what is missing, in words; unchanged while that is
    names: list[str]  # of hosts
    unknown: str = ""  # why waiting does not help: no such topic, or the hour is forgotten


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of any answer with a status other than 200."""

    error: str
    command: str = ""  # that helps, if there is any
