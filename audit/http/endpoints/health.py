"""Handles `/api/v1/health`: the health of all clusters' programs, one row each. Agents share a row,
except those with problems.

Sources are heartbeats for agents, polls for brokers and registries, and statements in the ledger
for mirrors, loaders, ZooKeeper, and all disks and certificates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from audit.alerting.conditions import AWAY, SIGNATURES, SILENT
from audit.api import answers, queries
from audit.api.answers import AgentRow, HealthRow
from audit.clusters.disks import with_polled_disks
from audit.clusters.state import ClusterState
from audit.configuration.config import AlertsConfig
from audit.cures.fault_cures import Cure
from audit.cures.program_commands import ProgramCommands
from audit.http.endpoints.lists import agents
from audit.http.endpoints.signatures import Signatures, signatures
from audit.programs import (
    LOADER,
    MIRROR,
    ZOOKEEPER,
    Program,
    ProgramKind,
    in_words,
    room_first,
    servers_words,
    this_audit,
    troubles,
)
from audit.reconciling.picture import TierKind
from audit.reconciling.words import unsigned
from audit.service.service import Service, now_millis
from audit.silence import RefusedLogins, refused_logins, silence
from audit.store.entries.journal_keys import REJECTED, UNSIGNED

OK: Final = "ok"
WARNING: Final = "warning"
IS_AWAY: Final = "away"
UNKNOWN: Final = "unknown"
STATES: Final = (IS_AWAY, WARNING, UNKNOWN, OK)  # the worst first

_MOST_IN_WORDS: Final = 3
_SAID_ELSEWHERE: Final = {("agent", SILENT), ("broker", ZOOKEEPER)}
_WELL: Final = {ProgramKind.MIRROR: "copies", ProgramKind.LOADER: "loads"}
_AGENT_STATES: Final = {"never": IS_AWAY, "silent": IS_AWAY, "behind": WARNING}
_AGENT_WORDS: Final = {"never": "never heard", "silent": "silent", "behind": "behind"}
_ORDER: Final = (
    *("agents", "agent", "broker", "zookeeper", "registry", "mirror", "loader", "audit"),
)
_TIERS: Final = {
    "broker": TierKind.BROKER,
    "mirror": TierKind.MIRROR,
    "loader": TierKind.HDFS,
}
_NAMES: Final = {
    "broker": ("broker", "brokers"),
    "registry": ("registry", "registries"),
    "mirror": ("mirror", "mirrors"),
    "loader": ("loader", "loaders"),
}


def health(service: Service, query: queries.HealthQuery) -> answers.HealthAnswer:
    now = now_millis()
    shows = Shows(service.config.alerts, ProgramCommands.of(service.config))
    rows = sorted(_rows(service, shows, query.cluster, now), key=_urgency)
    shown_rows = [row for row in rows if query.state in {None, row.state}]
    by_state = Counter(row.state for row in rows)
    signed = signatures(service, query.cluster)
    return answers.HealthAnswer(
        now=now,
        as_of=service.standing.as_of,
        state=next((state for state in STATES if by_state[state]), UNKNOWN),
        summary=_summary(rows),
        by_state={state: by_state[state] for state in STATES},
        page=query.of(len(shown_rows)),
        items=list(query.cut(shown_rows)),
        signatures={program: dict(counts) for program, counts in signed.counts.items()},
    )


class Shows(NamedTuple):
    """The values that all rows need: the limits of alerts, and the commands of cures."""

    config: AlertsConfig
    commands: ProgramCommands


def _urgency(row: HealthRow) -> tuple[object, ...]:
    return STATES.index(row.state), _ORDER.index(row.program), row.cluster, row.host, row.name


def _rows(service: Service, shows: Shows, cluster: str, now: int) -> Iterator[HealthRow]:
    since = (service.standing.as_of or now) - int(service.config.expected * 1000)
    all_programs = with_polled_disks(
        service.reading.programs(since), service.standing.clusters, now
    )
    programs = [program for program in all_programs if cluster in {"", program.cluster}]
    signed = signatures(service, cluster)
    for row in _unsigned_rows(service, shows, cluster, programs, now):
        yield _with_signature(row, signed, shows)


def _unsigned_rows(
    service: Service, shows: Shows, cluster: str, programs: Sequence[Program], now: int
) -> Iterator[HealthRow]:
    """All rows but for their signatures."""
    yield from _agents(service, shows, cluster, programs, now)
    for name, cluster_state in service.standing.clusters.items():
        if cluster in {"", name}:
            cluster_programs = [program for program in programs if program.cluster == name]
            brokers = [
                program for program in cluster_programs if program.kind is ProgramKind.BROKER
            ]
            time = cluster_state.as_of or now
            yield from _brokers(name, cluster_state, brokers, shows, time)
            yield from _zookeeper(name, brokers, shows, time)
            yield _registry(service, shows, name, cluster_state)
            for program in cluster_programs:
                if program.kind in _WELL:
                    yield _row(program, _WELL[program.kind], shows, time)
    if not cluster:
        yield _row(this_audit(service.probe, now), "runs", shows, now)


# Signatures


def _with_signature(row: HealthRow, signed: Signatures, shows: Shows) -> HealthRow:
    """Adds whether the program's statements are signed. If they are rejected, that is a problem of
    the program."""
    tier = _TIERS.get(row.program)
    state = row.signature if tier is None else signed.of(row.cluster, tier, row.host)
    if state != REJECTED:
        return replace(row, signature=state)
    name = f"the {row.program} on {row.host}" if row.host else f"{row.program} {row.name}"
    words = [f"statements of {name} are rejected because of their signatures"]
    if row.state != OK:
        words.append(row.words)
    if row.kind in {"", SILENT}:  # its heartbeats are rejected, too
        cure = shows.commands.look("penstock", "audit", "keys")
        row = replace(row, kind=SIGNATURES, **cure.fields)
    return replace(
        row,
        signature=state,
        state=WARNING if row.state == OK else row.state,
        words="; ".join(words),
    )


# Agents


def _agents(
    service: Service, shows: Shows, cluster: str, programs: Sequence[Program], now: int
) -> Iterator[HealthRow]:
    agents_query = queries.AgentsQuery(cluster=cluster, sort="state", size=queries.MOST_ITEMS)
    agents_page = agents(service, agents_query)
    agent_programs = {
        (program.cluster, program.name): program
        for program in programs
        if program.kind is ProgramKind.AGENT
    }
    expected_agents = sum(
        number for state, number in agents_page.by_state.items() if state != "retired"
    )
    refused = refused_logins(programs)
    counts = signatures(service, cluster).counts.get("agent", {})
    yield _all_agents(
        agents_page.by_state, expected_agents, counts, cluster, agent_programs.values()
    )
    troubled_agents = {
        (row.cluster, row.agent): row for row in agents_page.items if row.state in _AGENT_STATES
    }
    rejected = {
        (row.cluster, row.journal): row for row in signatures(service, cluster).rejected_agents
    }
    for key, agent in troubled_agents.items():
        rejected.pop(key, None)
        yield _agent(agent, agent_programs.pop(key, None), shows, refused, now)
    for key, program in agent_programs.items():
        row = _row(program, "heard", shows, now)
        if rejected.pop(key, None) is not None:
            yield replace(row, signature=REJECTED)
        elif row.state != OK:
            yield row
    for journal in rejected.values():  # none of its statements was counted
        yield HealthRow(
            program="agent",
            cluster=journal.cluster,
            name=journal.journal,
            host=journal.host,
            state=OK,
            words="",
            heard=journal.last,
            signature=REJECTED,
        )


def _all_agents(
    by_state: Mapping[str, int],
    expected: int,
    signature_counts: Mapping[str, int],
    cluster: str,
    programs: Iterable[Program],
) -> HealthRow:
    problems = [
        f"{by_state[state]:,} {words}"
        for state, words in _AGENT_WORDS.items()
        if by_state.get(state)
    ]
    states = {_AGENT_STATES[state] for state in _AGENT_STATES if by_state.get(state)}
    versions = sorted({program.health.program_version for program in programs})
    agent_count = f"{expected:,} agent{'' if expected == 1 else 's'}"
    words = ", ".join(problems) or ("all are heard" if expected else "none is known")
    if unsigned_count := signature_counts.get(UNSIGNED, 0):
        all_count = sum(signature_counts.values())
        words += f"; {unsigned('agent', unsigned_count, all_count)}"
    return HealthRow(
        program="agents",
        cluster=cluster,
        name=agent_count,
        host="",
        state=next((state for state in STATES if state in states), OK if expected else UNKNOWN),
        words=words,
        version=", ".join(in_words(versions, _MOST_IN_WORDS)),
        kind=SILENT if problems else "",
    )


def _agent(
    agent: AgentRow,
    program: Program | None,
    shows: Shows,
    refused: Sequence[RefusedLogins],
    now: int,
) -> HealthRow:
    extra_fields: dict[str, Any] = {}
    cause, cure = silence(agent, shows.commands, refused)
    if agent.state == "behind":
        cause, cure = "", shows.commands.look("penstock", "agent", "--status", host=agent.host)
    words, kind = [cause or _AGENT_WORDS[agent.state]], SILENT
    if program is not None:
        row = _row(program, "", shows, now)
        kind = row.kind or SILENT
        extra_fields = {"disk": row.disk, "disk_free": row.disk_free, "disk_total": row.disk_total}
        extra_fields |= {"certificate": row.certificate, "certificate_ends": row.certificate_ends}
        extra_fields["started"] = row.started
        words = [row.words, *words] if row.words else words
        if agent.state == "behind" and row.command:
            cure = Cure.of(row)
    return HealthRow(
        program="agent",
        cluster=agent.cluster,
        name=agent.agent,
        host=agent.host,
        state=_AGENT_STATES[agent.state],
        words="; ".join(words),
        heard=agent.heard,
        version=agent.version,
        kind=kind,
        signature=agent.signature,
        **cure.fields,
        **extra_fields,
    )


# Brokers, ZooKeeper, registries


def _brokers(
    cluster: str,
    standing: ClusterState,
    programs: Sequence[Program],
    shows: Shows,
    now: int,
) -> Iterator[HealthRow]:
    # Of brokers with the same id, the last one heard has replaced the others.
    oldest_first = sorted(programs, key=lambda program: program.heard)
    by_id = {program.name: program for program in oldest_first}
    only_broker = standing.unanswering
    for broker in standing.brokers if only_broker is None else ():
        program = by_id.get(str(broker.id))
        words = f"leads {broker.leads:,} of {broker.partitions:,} partitions"
        if program is not None:
            yield replace(_row(program, words, shows, now), host=program.host)
        else:
            yield HealthRow(
                program="broker",
                cluster=cluster,
                name=str(broker.id),
                host=broker.host,
                state=OK,
                words=words,
            )
    for broker_id in standing.away:
        program = by_id.get(str(broker_id))
        host = program.host if program else ""
        needs, cure = room_first(program, shows.commands) if program else ("", Cure())
        if not needs:
            cure = shows.commands.restart("broker", cluster=cluster, host=host, broker=broker_id)
        yield HealthRow(
            program="broker",
            cluster=cluster,
            name=str(broker_id),
            host=host,
            state=IS_AWAY,
            words=f"holds replicas, and does not answer{needs}",
            heard=program.heard if program else -1,
            version=program.health.program_version if program else "",
            kind=AWAY,
            **cure.fields,
        )
    if standing.unreachable:
        program = by_id.get(str(only_broker.id)) if only_broker else None
        needs, cure = room_first(program, shows.commands) if program else ("", Cure())
        yield HealthRow(
            program="broker",
            cluster=cluster,
            name=str(only_broker.id) if only_broker else "",
            host=program.host if program else only_broker.host if only_broker else "",
            state=IS_AWAY,
            words=f"the ledger cannot be read: {standing.unreachable}{needs}",
            heard=standing.as_of or -1,
            kind=AWAY,
            **(cure if needs else shows.commands.reach_ledger(cluster)).fields,
        )


def _zookeeper(
    cluster: str, brokers: Sequence[Program], shows: Shows, now: int
) -> Iterator[HealthRow]:
    """ZooKeeper as brokers report it; no row if none does, as in a cluster of another product."""
    sessions = [(program, session) for program in brokers if (session := program.health.zookeeper)]
    if not sessions:
        return
    lost_titles = [
        program.title for program, _ in sessions if program.lost_session(now) is not None
    ]
    silent_words = servers_words(brokers, now)
    current_programs = [program for program, _ in sessions if program.is_recent(now)]
    connected_count = len(current_programs) - len(lost_titles)
    words = f"{connected_count:,} of {len(current_programs):,} brokers are connected"
    latest_session = max(sessions, key=lambda pair: pair[0].heard)[1]
    if latest_session.serving > 0 and not silent_words:
        words += f", {latest_session.serving:,} of {latest_session.servers:,} servers serve"
    problems = (
        [f"without a session: {', '.join(in_words(lost_titles, _MOST_IN_WORDS))}"]
        if lost_titles
        else []
    )
    problems += [silent_words] if silent_words else []
    yield HealthRow(
        program="zookeeper",
        cluster=cluster,
        name="",
        host="",
        state=(IS_AWAY if lost_titles else WARNING)
        if problems
        else OK
        if current_programs
        else UNKNOWN,
        words="; ".join(problems)
        or (words if current_programs else "no recent report from any broker"),
        heard=max(program.heard for program, _ in sessions),
        kind=ZOOKEEPER if problems else "",
        **(shows.commands.reach_zookeeper().fields if problems else {}),
    )


def _registry(service: Service, shows: Shows, cluster: str, standing: ClusterState) -> HealthRow:
    outage = standing.registry_away
    state, words = (OK, "answers") if outage == "" else (IS_AWAY, f"does not answer: {outage}")
    if outage is None:
        state, words = UNKNOWN, "was not polled yet"
    return HealthRow(
        program="registry",
        cluster=cluster,
        name=service.config.all_clusters[cluster].registry,
        host="",
        state=state,
        words=words,
        kind=AWAY if state == IS_AWAY else "",
        **(shows.commands.restart("registry", cluster=cluster).fields if state == IS_AWAY else {}),
    )


# Programs that report


def _row(program: Program, well: str, shows: Shows, now: int) -> HealthRow:
    """A program's row; `well` are its words if nothing is wrong."""
    statement = program.health
    problems = list(troubles(program, shows.config, shows.commands, now))
    is_away = bool(problems) and problems[0].kind in {MIRROR, LOADER}
    fullest_disk = min(
        statement.disks, key=lambda disk: disk.free / max(1, disk.total), default=None
    )
    next_certificate = min(
        statement.certificates, key=lambda certificate: certificate.ends, default=None
    )
    return HealthRow(
        program=program.kind.value,
        cluster=program.cluster,
        name=program.name,
        host=program.host,
        state=(IS_AWAY if is_away else WARNING) if problems else OK,
        words="; ".join(in_words([trouble.words for trouble in problems], _MOST_IN_WORDS)) or well,
        started=statement.started,
        heard=program.heard,
        version=statement.program_version,
        disk=fullest_disk.label if fullest_disk else "",
        disk_free=fullest_disk.free if fullest_disk else -1,
        disk_total=fullest_disk.total if fullest_disk else -1,
        certificate=next_certificate.label if next_certificate else "",
        certificate_ends=next_certificate.ends if next_certificate else -1,
        kind=problems[0].kind if problems else "",
        **(problems[0].cure.fields if problems else {}),
    )


def _summary(rows: Sequence[HealthRow]) -> str:
    """The health of all programs in one sentence."""
    # The row of all agents has silent agents; that of ZooKeeper has brokers without a session.
    own_rows = [row for row in rows if (row.program, row.kind) not in _SAID_ELSEWHERE]
    problem_rows = [row for row in own_rows if row.state in {IS_AWAY, WARNING}]
    if problem_rows:
        words = [_named(row) for row in problem_rows]
        return "; ".join(in_words(words, _MOST_IN_WORDS))
    if unknown_rows := [row for row in own_rows if row.state == UNKNOWN]:
        return "not known yet: " + "; ".join(
            in_words([_named(row) for row in unknown_rows], _MOST_IN_WORDS)
        )
    counts = Counter(row.program for row in own_rows)
    parts = [row.name for row in own_rows if row.program == "agents"]
    for program, (singular, plural) in _NAMES.items():
        if count := counts[program]:
            parts.append(f"{count:,} {singular if count == 1 else plural}")
    parts += ["ZooKeeper"] if counts["zookeeper"] else []
    return f"all programs are well: {', '.join(parts)}"


def _named(row: HealthRow) -> str:
    """The row's words, preceded by the program unless they name it."""
    match row.program:
        case "agents":
            return f"{row.name}: {row.words}"
        case "registry":
            return f"the registry of {row.cluster} {row.words}"
        case "broker" if row.state == IS_AWAY:
            subject = f"broker {row.name}" if row.name else "brokers"
            return f"{subject} of {row.cluster}: {row.words}"
        case "zookeeper":
            return f"ZooKeeper of {row.cluster}: {row.words}"
    return row.words
