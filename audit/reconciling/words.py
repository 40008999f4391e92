"""The sentences of verdicts: one for each fault and each wait.

Times are UTC. Ranges of events, seqs and offsets include the last; those of bytes end behind it, as
positions in a file do.
"""

from datetime import UTC, datetime
from typing import Final

from audit.reconciling.faults import Fault
from audit.reconciling.findings import FaultKind, Finding, KindCount, Kinds
from audit.reconciling.picture import (
    Copied,
    Disputed,
    ExpectedAgent,
    Hole,
    Tier,
    TierKind,
    UncomparedOffsets,
    UncountedLoss,
)

_WHOSE = {"agent": "agent", "origin": "broker", "broker": "broker", "mirror": "mirror"} | {
    "hdfs": "loader"
}
LOG_LOST: Final = "the log has lost them"
REBUILT: Final = "the hour was rebuilt from all that the brokers have"
PASSED_OVER: Final = "a load went on without them, as the brokers no longer had them"
NO_LOAD_WROTE: Final = "was written by no load"
_DAY_AND_TIME = "%Y-%m-%d %H:%M:%S"
# Singular and plural; `{}` is the number.
_KINDS: Final = {
    FaultKind.CHANGED: ("{} event is not what was written", "{} events are not what was written"),
    FaultKind.DUPLICATED: ("{} event arrived more than once", "{} events arrived more than once"),
    FaultKind.LOST: (
        "{} line was gone before it was read",
        "{} lines were gone before they were read",
    ),
    FaultKind.MISSING: ("{} event has not arrived", "{} events have not arrived"),
    FaultKind.UNPROVEN: (
        "{} event is not proven to have arrived",
        "{} events are not proven to have arrived",
    ),
    FaultKind.UNNAMED: (
        "{} unidentified event has not arrived",
        "{} unidentified events have not arrived",
    ),
    FaultKind.UNKNOWN: ("{} stretch cannot be proven", "{} stretches cannot be proven"),
}
_LOST_BYTES: Final = (
    "{} byte was gone before it was read",
    "{} bytes were gone before they were read",
)
_ADJECTIVES: Final = {
    FaultKind.CHANGED: "changed",
    FaultKind.DUPLICATED: "duplicated",
    FaultKind.LOST: "lost",
    FaultKind.MISSING: "missing",
    FaultKind.UNPROVEN: "unproven",
    FaultKind.UNNAMED: "missing, unidentified",
    FaultKind.UNKNOWN: "unproven",
}


def number(value: int) -> str:
    return f"{value:,}"


def count(value: int, singular: str, plural: str = "") -> str:
    return f"{number(value)} {singular if value == 1 else plural or singular + 's'}"


def moment(time: int) -> str:
    """Formats a time to the second, or in milliseconds if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(time / 1000, UTC).strftime(_DAY_AND_TIME)
    except (ValueError, OverflowError, OSError):
        return f"{time} ms"


def between(from_time: int, to_time: int) -> str:
    """Formats a period: `2026-11-20 10:00:00 to 10:05:00`."""
    first, end = moment(from_time), moment(to_time)
    if first == end:
        return first
    day = first[:10]
    return f"{first} to {end.removeprefix(day).strip()}"


def of_kinds(kinds: Kinds) -> str:
    """Lists the kinds with their numbers, the worst first; empty without findings."""
    return "; ".join(_kind(kind_count) for kind_count in kinds if kind_count.findings)


def _kind(counted: KindCount) -> str:
    singular, plural = _KINDS[counted.kind]
    if counted.bytes and not counted.events:
        return _LOST_BYTES[counted.bytes > 1].format(number(counted.bytes))
    if counted.kind is FaultKind.UNKNOWN:
        return (singular if counted.findings == 1 else plural).format(f"{counted.findings:,}")
    if not counted.events:
        return plural.format("some")
    return (singular if counted.events == 1 else plural).format(_at_least(counted))


def _at_least(counted: KindCount) -> str:
    return f"at least {counted.events:,}" if counted.uncounted else f"{counted.events:,}"


def accepted_kinds(kinds: Kinds) -> str:
    """Lists accepted faults: `952 lost lines and 1 unproven stretch (accepted)`."""
    parts = [_accepted(kind_count) for kind_count in kinds if kind_count.findings] or [
        "older faults"
    ]
    return f"{' and '.join(filter(None, (', '.join(parts[:-1]), parts[-1])))} (accepted)"


def _accepted(counted: KindCount) -> str:
    adjective, unit = _ADJECTIVES[counted.kind], "event"
    if counted.kind is FaultKind.UNKNOWN:
        return count(counted.findings, f"{adjective} stretch", f"{adjective} stretches")
    if counted.kind is FaultKind.LOST:
        unit = "line" if counted.events or not counted.bytes else "byte"
    if not (amount := counted.events or counted.bytes):
        return f"some {adjective} {unit}s"
    at_least = "at least " if counted.events and counted.uncounted else ""
    return at_least + count(amount, f"{adjective} {unit}")


def place(tier: str, destination: str) -> str:
    """Describes where a fault is."""
    if tier == TierKind.HDFS:
        return f"in {destination}" if destination else "in the files"
    if tier == TierKind.ORIGIN:
        return f"at the brokers of {destination}" if destination else "at the brokers of the origin"
    return {TierKind.BROKER.value: "at the brokers", TierKind.MIRROR.value: "at the mirror"}.get(
        tier, "at the agents"
    )


def more_damage(batches: int, offsets: int) -> str:
    """Makes the sentence about damage beyond the limit."""
    stretches = count(batches, "more stretch", "more stretches")
    return f"{stretches} of batches ({count(offsets, 'offset')}) are not as they were written"


def more_faults(faults: int) -> str:
    """Makes the sentence about findings beyond the limit."""
    return f"And {count(faults, 'more fault')}: only the worst are listed"


def at(tier: Tier) -> str:
    return place(tier.kind.value, tier.destination)


def _events(finding: Finding) -> str:
    if finding.events == 1:
        return f"event {number(finding.seq)}"
    return f"events {number(finding.seq)} to {number(finding.seq + finding.events - 1)}"


def _bytes(finding: Finding) -> str:
    return f"bytes {number(finding.position)} to {number(finding.end_position)}"


def _offsets(topic: str, finding: Finding) -> str:
    if finding.offsets == 1:
        return f"{topic}-{finding.partition}, offset {number(finding.offset)}"
    last_offset = finding.offset + finding.offsets - 1
    return f"{topic}-{finding.partition}, offsets {number(finding.offset)} to {number(last_offset)}"


def _file(finding: Finding) -> str:
    return f"{finding.host or 'a host'}: {finding.path or 'file ' + finding.source}"


def _when(finding: Finding) -> str:
    return between(finding.from_time, finding.to_time)


def of(topic: str, fault: Fault) -> str:
    """Describes a finding in one sentence."""
    finding = fault.finding
    if finding.kind is FaultKind.LOST:
        return _lost(fault)
    if finding.kind is FaultKind.UNKNOWN:
        return _unknown(topic, fault)
    if fault.named:
        return _hole(fault)
    if finding.path and not finding.source:
        return _landed_file(fault)
    if finding.source:
        return _of_file(topic, fault)
    if finding.partition >= 0:
        return _of_partition(topic, fault)
    return _of_windows(fault)


def _unknown(topic: str, fault: Fault) -> str:
    finding = fault.finding
    if finding.partition >= 0:
        return (
            f"{topic}-{finding.partition}: what was written from offset {number(finding.offset)} on"
            f" is gone, and how much that was is unknown: {fault.reason}"
        )
    if finding.seq >= 0:
        verb = "is" if finding.events == 1 else "are"
        return (
            f"{_file(finding)}, {_events(finding)} {verb}"
            f" {place(finding.tier, finding.destination)}, and no agent has reported shipping them:"
            " another agent of that host may have shipped them again"
        )
    period = f"from {moment(finding.from_time)} to {moment(finding.to_time)}"
    reason = f": {fault.reason}" if fault.reason else ""
    if not finding.source:
        clauses = {
            "changed": "and names changed there",
            "brief": "and a file was begun there",
        }.get(fault.traces, "and what happened there is unknown")
        return f"{_file(finding)} was not watched {period}, {clauses}{reason}"
    if fault.traces == "truncated":
        return (
            f"{_file(finding)} was truncated while no agent watched it, {period}; what was in it"
            f" beyond byte {number(finding.position)} is unknown{reason}"
        )
    if fault.traces == "overwritten":
        return (
            f"{_file(finding)} was overwritten in place {period}; what was in it beyond byte"
            f" {number(finding.position)} is unknown{reason}"
        )
    event = "vanished" if fault.traces == "vanished" else "was not read to its end"
    return (
        f"{_file(finding)} {event} while no agent watched it, {period}; unknown beyond byte"
        f" {number(finding.position)}{reason}"
    )


_UNWATCHED: Final = {
    "changed": "names changed while no agent watched",
    "brief": "a file was begun while no agent watched",
    "vanished": "the file vanished while no agent watched it",
    "truncated": "the file was truncated while no agent watched it",
    "overwritten": "the file was overwritten in place",
}


def why(fault: Fault) -> str:
    """Returns the reason of a fault, without the rest of the sentence."""
    finding = fault.finding
    if finding.kind is not FaultKind.UNKNOWN or finding.partition >= 0:
        return fault.reason
    if finding.seq >= 0:
        return "no agent has reported shipping them"
    reason = f": {fault.reason}" if fault.reason else ""
    return f"{_UNWATCHED.get(fault.traces, 'no agent was watching')}{reason}"


def uncounted(loss: UncountedLoss) -> str:
    """Explains a loss that no tier had counted."""
    return f"the log lost them before they were counted: {loss.reason}"


def unsigned(program: str, count: int, total: int) -> str:
    """Says how many programs of a kind do not sign their statements: `3 of 40 agents do not sign
    their statements`."""
    if total == 1:
        return f"the {program} does not sign its statements"
    if count == total:
        return f"none of the {number(total)} {program}s signs its statements"
    verb = "does not sign its statements" if count == 1 else "do not sign their statements"
    return f"{number(count)} of {number(total)} {program}s {verb}"


def undigested(count: int, total: int) -> str:
    """Says how many agents send no digests of their passages."""
    agents = "the agent sends" if total == 1 else f"{number(count)} of {number(total)} agents send"
    return f"{agents} no digests, so what loaders read of them was compared by CRC alone"


def disputed(numbers: Disputed) -> str:
    """Explains why entries of a journal are not trusted."""
    if numbers.begins_anew:
        return (
            "the agent has begun its chain of signatures anew after them, as it does once a release"
            " without signatures has run in between, or its numbers were damaged; what is about"
            f" {moment(numbers.since)} to {moment(numbers.until)} is not proven: if such a release"
            " was installed, accept it"
        )
    if numbers.is_altered:
        return (
            "somebody has changed, removed or invented entries there, as the journal's signatures"
            f" do not cover them; nothing is proven from {moment(numbers.since)} to"
            f" {moment(numbers.until)}"
        )
    return (
        f"there are two that contradict each other, and neither is believed; nothing is proven"
        f" from {moment(numbers.since)} on"
    )


def collision(topic: str, partition: int, kept: int, events: int) -> str:
    """Explains why events that can be decoded are dead letters."""
    if kept < 0:
        return "others with their source and numbers had landed before, and cannot be compared"
    last_offset = (
        f"offset {number(kept)}"
        if events == 1
        else f"offsets {number(kept)} to {number(kept + events - 1)}"
    )
    return (
        f"others with their source and numbers are there instead, from {topic}-{partition},"
        f" {last_offset}, with other content"
    )


def copy_of(run: Copied, agent: str) -> str:
    """Explains why this agent shipped a file again."""
    since = f" since {moment(run.since)}" if run.since >= 0 else ""
    if run.agent and run.agent == agent:
        date = f",{since}" if since else ""
        return (
            f"had been shipped before by the same agent as source {run.original}: its journal was"
            f" damaged, and has forgotten that{date}"
        )
    owner = f"agent {run.agent}" if run.agent else "another agent"
    return (
        f"had been shipped before by {owner} as source {run.original}: the agent has another data"
        f" directory{since}"
    )


_MOMENT: Final = 5_000


def emptied_at_most(millis: int) -> str:
    """Explains why it is harmless that a new file may have been emptied in this period."""
    if millis <= _MOMENT:
        return "for a moment only, and new files are hardly ever emptied that soon"
    return (
        "every name is known, and new files are hardly ever emptied in place before they are read"
    )


def landed_once() -> str:
    """Explains why events that were shipped twice are harmless."""
    return "sent twice, landed once"


def shipped_again() -> str:
    """Explains why a log's loss is harmless."""
    return "shipped again since, and landed"


def read_again() -> str:
    """Explains why a log's loss of more events than the file has is harmless."""
    return "the file was read again, and all of its events, as counted by its agent, have landed"


def _lost(fault: Fault) -> str:
    finding = fault.finding
    size = f"bytes {number(finding.position)} to {number(finding.end_position)}"
    lines = f" ({count(finding.events, 'line')})" if finding.events >= 0 else ""
    reason = f": {fault.reason}" if fault.reason else ""
    sentence = f"{_file(finding)}, {size}{lines} were gone before they were read{reason}"
    if not finding.unseen_end:
        return sentence
    seen_time = moment(finding.from_time)
    return (
        f"{sentence}; what followed is unknown, since the file was last seen whole at {seen_time}"
    )


def _of_file(topic: str, fault: Fault) -> str:
    finding = fault.finding
    if finding.kind is FaultKind.DUPLICATED and finding.position >= 0:
        return (
            f"{_file(finding)}, {_bytes(finding)} ({count(finding.events, 'event')}) {fault.reason}"
        )
    if finding.kind is FaultKind.DUPLICATED and finding.tier == TierKind.HDFS:
        location = place(finding.tier, finding.destination)
        return f"{_file(finding)}, {_events(finding)} are {location} twice"
    if finding.kind is FaultKind.DUPLICATED:
        past_verb = "was" if finding.events == 1 else "were"
        return f"{_file(finding)}, {_events(finding)} {past_verb} shipped more than once"
    if finding.partition < 0:
        return f"{_file(finding)}: the agent's statement about {_events(finding)} is missing" + (
            f", {fault.reason}" if fault.reason else ""
        )
    has_bytes = finding.position >= 0 and finding.end_position >= 0
    if not has_bytes:
        subject = f"{_file(finding)}, {_events(finding)}"
    elif fault.exact:
        subject = f"{_file(finding)}, {_bytes(finding)} ({_events(finding)})"
    else:
        subject = f"{_file(finding)}, {_events(finding)} (within {_bytes(finding)})"
    verb = "is" if finding.events == 1 and not has_bytes else "are"
    return f"{subject} {verb} {_verdict(finding, fault)} ({_offsets(topic, finding)})"


def _verdict(finding: Finding, fault: Fault) -> str:
    if finding.kind is FaultKind.CHANGED:
        return f"not as they were written: {fault.reason}"
    if finding.kind is FaultKind.UNPROVEN:
        return f"not proven to be {place(finding.tier, finding.destination)}: {fault.reason}"
    return f"not {place(finding.tier, finding.destination)}" + (
        f": {fault.reason}" if fault.reason else ""
    )


def _of_partition(topic: str, fault: Fault) -> str:
    finding = fault.finding
    verb = "is" if finding.offsets == 1 else "are"
    return f"{_offsets(topic, finding)} {verb} {_verdict(finding, fault)}"


def _of_windows(fault: Fault) -> str:
    finding = fault.finding
    location = place(finding.tier, finding.destination)
    if finding.kind is FaultKind.CHANGED and fault.reason:
        return fault.reason
    if finding.kind is FaultKind.CHANGED:
        return f"{_when(finding)}: as many events are {location} as before, but their CRCs differ"
    if finding.kind is FaultKind.DUPLICATED:
        return f"{_when(finding)}: {count(finding.events, 'event')} too many {location}"
    if finding.kind is FaultKind.UNPROVEN:
        events = count(finding.events, "event")
        return f"{_when(finding)}: {events} not proven to be {location}: {fault.reason}"
    why = f": {fault.reason}" if fault.reason else ""
    events = count(finding.events, "event")
    return f"{_when(finding)}: {events} not {location}{why}; which ones is unknown"


def _hole(fault: Fault) -> str:
    finding = fault.finding
    owner = _WHOSE.get(finding.tier, finding.tier)
    host = f" on {finding.host}" if finding.host else ""
    last_seq = finding.seq + fault.named - 1
    events = (
        f"entry {number(finding.seq)}"
        if fault.named == 1
        else (f"entries {number(finding.seq)} to {number(last_seq)}")
    )
    if fault.reason:
        return f"{events} in the journal {finding.source} of the {owner}{host}: {fault.reason}"
    return (
        f"{events} in the journal {finding.source} of the {owner}{host} never arrived, written"
        f" {_when(finding)}: the content is unknown"
    )


def _landed_file(fault: Fault) -> str:
    finding = fault.finding
    return f"{finding.path} {place(finding.tier, finding.destination)} {fault.reason}"


def file_fault(fault: str, committed: int, rows: int) -> str:
    """Explains the fault of a landed file."""
    committed_count = count(committed, "row") if committed >= 0 else "an unknown number of rows"
    row_count = count(rows, "row") if rows >= 0 else "rows that cannot be read"
    if fault == "missing":
        return f"is gone: {committed_count} were committed there"
    if fault == "extra":
        return f"{NO_LOAD_WROTE}, and has {row_count}"
    return f"is not as it was committed: it had {committed_count} and has {row_count}"


def hole_reason(hole: Hole) -> str:
    owner = _WHOSE[hole.tier.value]
    entries = "an entry" if hole.count == 1 else "entries"
    return f"{entries} of the {owner}'s journal {hole.journal} never arrived"


def behind(agent: ExpectedAgent) -> str:
    """Explains the wait for an agent."""
    if not agent.heard:
        return f"{agent.host}: no agent has ever reported from there"
    last_report = f"last heard at {moment(agent.heard)}"
    if not agent.until:
        return f"{agent.host}: the agent has not reported yet up to when it is done ({last_report})"
    return f"{agent.host}: the agent is done up to {moment(agent.until)} ({last_report})"


def offsets_ahead(tier: Tier, offsets: int, partitions: int, since: int) -> str:
    """Describes the remaining work of a later tier."""
    subject = {
        TierKind.BROKER: "the brokers have yet to count",
        TierKind.ORIGIN: f"the brokers of {tier.destination} have yet to count",
        TierKind.HDFS: f"{tier.destination or 'the loader'} has yet to load",
    }.get(tier.kind, "the mirror has yet to copy")
    partition_count = count(partitions, "partition")
    since_words = f", from {moment(since)} on" if since >= 0 else ""
    return f"{subject} {count(offsets, 'offset')} of {partition_count}{since_words}"


def copies_ahead(offsets: int, origin: str, since: int) -> str:
    """Describes the remaining work of the brokers of a copy."""
    from_when = f", from {moment(since)} on" if since >= 0 else ""
    return f"{count(offsets, 'offset')} of {origin} are yet to be copied, and counted{from_when}"


def behind_files(earlier: Tier, tier: Tier) -> str:
    cluster = f" of {earlier.destination}" if earlier.kind is TierKind.ORIGIN else ""
    return f"the brokers{cluster} have yet to count what is {place(tier.kind, tier.destination)}"


def missing_entry(hole: Hole, host: str) -> str:
    host_words = f" on {host}" if host else ""
    return (
        f"{count(hole.count, 'entry', 'entries')} of the {hole.tier.value}'s journal"
        f" {hole.journal}{host_words} may still arrive"
    )


def untold(files: int) -> str:
    return f"agents have yet to report events of {count(files, 'file')} that have landed"


def not_compared_yet(part: UncomparedOffsets, parts: int) -> str:
    last_offset = part.next_offset - 1
    stretch = f"offsets {number(part.first)} to {number(last_offset)} of partition {part.partition}"
    if part.first == last_offset:
        stretch = f"offset {number(part.first)} of partition {part.partition}"
    more = f" and {count(parts - 1, 'other stretch', 'other stretches')}" if parts > 1 else ""
    return (
        f"{stretch}{more}: landed, and not yet compared with what agents have signed, which the"
        " next load does"
    )


def not_compared() -> str:
    """Explains why landed events are not proven, although all counts are right."""
    return (
        "the loader has not seen what agents have signed of them, and the audit has seen it, so"
        " nobody knows whether they landed as they were sent: brokers show the two different"
        " ledgers, or the loader could not read so much of `_audit`; rebuild these hours, which"
        " compares them again, and if that does not help, compare them with the log files"
    )


def fresh() -> str:
    return "statements about the newest windows may still arrive"
