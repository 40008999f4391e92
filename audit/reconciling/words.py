"""What verdicts say to a person: each sentence that the audit has for a fault or for waiting.

Times are UTC. Events, seqs and offsets are given from the first to the last, bytes from the first
to the one after the last, as positions in a file are.
"""

from datetime import UTC, datetime
from typing import Final

from audit.findings import FaultKind, Finding
from audit.picture import Copied, Disputed, ExpectedAgent, Hole, Tier, TierKind, UncountedLoss
from audit.reconciling.faults import Fault

_WHOSE = {"agent": "agent", "origin": "broker", "broker": "broker", "mirror": "mirror"} | {
    "hdfs": "loader"
}
LOG_LOST: Final = "the log has lost them"
_DAY_AND_TIME = "%Y-%m-%d %H:%M:%S"


def number(value: int) -> str:
    return f"{value:,}"


def count(value: int, one: str, several: str = "") -> str:
    return f"{number(value)} {one if value == 1 else several or one + 's'}"


def moment(time: int) -> str:
    """A time, to the second; those that no calendar has as they are."""
    try:
        return datetime.fromtimestamp(time / 1000, UTC).strftime(_DAY_AND_TIME)
    except (ValueError, OverflowError, OSError):
        return f"{time} ms"


def between(from_time: int, to_time: int) -> str:
    """`2026-11-20 10:00:00 to 10:05:00`"""
    first, last = moment(from_time), moment(to_time)
    if first == last:
        return first
    day = first[:10]
    return f"{first} to {last.removeprefix(day).strip()}"


def place(tier: str, destination: str) -> str:
    """Where something is, or is not."""
    if tier == TierKind.HDFS:
        return f"in {destination}" if destination else "in the files"
    if tier == TierKind.ORIGIN:
        return f"at the brokers of {destination}" if destination else "at the brokers of the origin"
    return {TierKind.BROKER.value: "at the brokers", TierKind.MIRROR.value: "at the mirror"}.get(
        tier, "at the agents"
    )


def more_damage(batches: int, offsets: int) -> str:
    """Of what is not said one by one."""
    of = count(batches, "stretch", "stretches")
    return f"{of} of batches more, {count(offsets, 'offset')}, are not as they were written"


def more_faults(faults: int) -> str:
    """Of what is not said one by one."""
    return f"And {count(faults, 'more fault')}: the worst are said"


def at(tier: Tier) -> str:
    return place(tier.kind.value, tier.destination)


def _events(one: Finding) -> str:
    if one.events == 1:
        return f"event {number(one.seq)}"
    return f"events {number(one.seq)} to {number(one.seq + one.events - 1)}"


def _bytes(one: Finding) -> str:
    return f"bytes {number(one.position)} to {number(one.end_position)}"


def _offsets(topic: str, one: Finding) -> str:
    if one.offsets == 1:
        return f"{topic}-{one.partition}, offset {number(one.offset)}"
    last = one.offset + one.offsets - 1
    return f"{topic}-{one.partition}, offsets {number(one.offset)} to {number(last)}"


def _file(one: Finding) -> str:
    return f"{one.host or 'a host'}: {one.path or 'file ' + one.source}"


def _when(one: Finding) -> str:
    return between(one.from_time, one.to_time)


def of(topic: str, fault: Fault) -> str:
    """A finding in one sentence."""
    one = fault.finding
    if one.kind is FaultKind.LOST:
        return _lost(fault)
    if one.kind is FaultKind.UNKNOWN:
        return _unknown(topic, fault)
    if fault.named:
        return _hole(fault)
    if one.path and not one.source:
        return _landed_file(fault)
    if one.source:
        return _of_file(topic, fault)
    if one.partition >= 0:
        return _of_partition(topic, fault)
    return _of_windows(fault)


def _unknown(topic: str, fault: Fault) -> str:
    one = fault.finding
    if one.partition >= 0:
        return (
            f"{topic}-{one.partition}: what was written from offset {number(one.offset)} on is"
            f" gone, and nobody knows how much that was: {fault.reason}"
        )
    if one.seq >= 0:
        are = "is" if one.events == 1 else "are"
        return (
            f"{_file(one)}, {_events(one)} {are} {place(one.tier, one.destination)}, and no agent"
            " has said that it shipped them: another one of that host may have shipped them again"
        )
    when = f"from {moment(one.from_time)} to {moment(one.to_time)}"
    why = f": {fault.reason}" if fault.reason else ""
    if not one.source:
        names = {
            "changed": "and names changed there",
            "brief": "and a file was begun there",
        }.get(fault.traces, "and it is not known what happened there")
        return f"{_file(one)} was not watched {when}, {names}{why}"
    if fault.traces == "truncated":
        return (
            f"{_file(one)} was truncated while no agent watched it, {when}; what was in it beyond "
            f"byte {number(one.position)} is unknown{why}"
        )
    what = "vanished" if fault.traces == "vanished" else "was not seen to its end"
    return (
        f"{_file(one)} {what} while no agent watched it, {when}; unknown beyond byte"
        f" {number(one.position)}{why}"
    )


_UNWATCHED: Final = {
    "changed": "names changed while no agent watched",
    "brief": "a file was begun while no agent watched",
    "vanished": "the file vanished while no agent watched it",
    "truncated": "the file was truncated while no agent watched it",
}


def why(fault: Fault) -> str:
    """The reason alone, without what it is the reason of."""
    one = fault.finding
    if one.kind is not FaultKind.UNKNOWN or one.partition >= 0:
        return fault.reason
    if one.seq >= 0:
        return "no agent has said that it shipped them"
    said = f": {fault.reason}" if fault.reason else ""
    return f"{_UNWATCHED.get(fault.traces, 'no agent was watching')}{said}"


def uncounted(loss: UncountedLoss) -> str:
    """Why something is gone of which nobody had spoken."""
    return f"the log lost them before anybody had counted them: {loss.reason}"


def disputed(numbers: Disputed) -> str:
    """Why entries of a journal are not believed."""
    return (
        f"there are two that say other things, and neither is believed; from"
        f" {moment(numbers.since)} on nothing is proven"
    )


def collision(topic: str, partition: int, kept: int, events: int) -> str:
    """Why events are dead letters that could be decoded."""
    if kept < 0:
        return "others with their source and numbers had landed before, and cannot be compared"
    last = (
        f"offset {number(kept)}"
        if events == 1
        else f"offsets {number(kept)} to {number(kept + events - 1)}"
    )
    return (
        f"others with their source and numbers are there instead, from {topic}-{partition}, {last},"
        " with other content"
    )


def copy_of(run: Copied, agent: str) -> str:
    """Whose copy a file is that was shipped by this agent."""
    since = f" since {moment(run.since)}" if run.since >= 0 else ""
    if run.agent and run.agent == agent:
        when = f",{since}" if since else ""
        return (
            f"had been shipped before by the same agent as source {run.original}: its journal was"
            f" damaged, and has forgotten that{when}"
        )
    who = f"agent {run.agent}" if run.agent else "another agent"
    return (
        f"had been shipped before by {who} as source {run.original}: the agent's data directory is"
        f" another one{since}"
    )


_MOMENT: Final = 5_000


def emptied_at_most(millis: int) -> str:
    """Why nobody needs to accept that a new file may have been emptied in so long a time."""
    if millis <= _MOMENT:
        return "for a moment only, and hardly anybody empties a new file within one"
    return "every name is known, and hardly anybody empties a new file in place before it is read"


def landed_once() -> str:
    """Why it is no fault that something was sent twice."""
    return "sent twice, landed once"


def shipped_again() -> str:
    """Why it is no fault that a log has lost something."""
    return "shipped again since, and landed"


def read_again() -> str:
    """Why it is no fault that a log has lost more events than a file has."""
    return "the file was read again, and all that its agent says is in it has landed"


def _lost(fault: Fault) -> str:
    one = fault.finding
    size = f"bytes {number(one.position)} to {number(one.end_position)}"
    lines = f" ({count(one.events, 'line')})" if one.events >= 0 else ""
    why = f": {fault.reason}" if fault.reason else ""
    return f"{_file(one)}, {size}{lines} were gone before they were read{why}"


def _of_file(topic: str, fault: Fault) -> str:
    one = fault.finding
    if one.kind is FaultKind.DUPLICATED and one.position >= 0:
        return f"{_file(one)}, {_bytes(one)} ({count(one.events, 'event')}) {fault.reason}"
    if one.kind is FaultKind.DUPLICATED and one.tier == TierKind.HDFS:
        return f"{_file(one)}, {_events(one)} are {place(one.tier, one.destination)} twice"
    if one.kind is FaultKind.DUPLICATED:
        were = "was" if one.events == 1 else "were"
        return f"{_file(one)}, {_events(one)} {were} shipped more than once"
    if one.partition < 0:
        return f"{_file(one)}: the agent's statement about {_events(one)} is missing" + (
            f", {fault.reason}" if fault.reason else ""
        )
    bytes_named = one.position >= 0 and one.end_position >= 0
    if not bytes_named:
        what = f"{_file(one)}, {_events(one)}"
    elif fault.exact:
        what = f"{_file(one)}, {_bytes(one)} ({_events(one)})"
    else:
        what = f"{_file(one)}, {_events(one)} (within {_bytes(one)})"
    are = "is" if one.events == 1 and not bytes_named else "are"
    return f"{what} {are} {_verdict(one, fault)} ({_offsets(topic, one)})"


def _verdict(one: Finding, fault: Fault) -> str:
    if one.kind is FaultKind.CHANGED:
        return f"not as they were written: {fault.reason}"
    if one.kind is FaultKind.UNPROVEN:
        return f"not proven to be {place(one.tier, one.destination)}: {fault.reason}"
    return f"not {place(one.tier, one.destination)}" + (f": {fault.reason}" if fault.reason else "")


def _of_partition(topic: str, fault: Fault) -> str:
    one = fault.finding
    are = "is" if one.offsets == 1 else "are"
    return f"{_offsets(topic, one)} {are} {_verdict(one, fault)}"


def _of_windows(fault: Fault) -> str:
    one = fault.finding
    where = place(one.tier, one.destination)
    if one.kind is FaultKind.CHANGED and fault.reason:
        return fault.reason
    if one.kind is FaultKind.CHANGED:
        return f"{_when(one)}: as many events are {where} as before, but their CRCs differ"
    if one.kind is FaultKind.DUPLICATED:
        return f"{_when(one)}: {count(one.events, 'event')} too many {where}"
    if one.kind is FaultKind.UNPROVEN:
        return (
            f"{_when(one)}: {count(one.events, 'event')} not proven to be {where}: {fault.reason}"
        )
    return f"{_when(one)}: {count(one.events, 'event')} not {where}, and nobody knows which"


def _hole(fault: Fault) -> str:
    one = fault.finding
    whose = _WHOSE.get(one.tier, one.tier)
    host = f" on {one.host}" if one.host else ""
    last = one.seq + fault.named - 1
    which = (
        f"entry {number(one.seq)}"
        if fault.named == 1
        else (f"entries {number(one.seq)} to {number(last)}")
    )
    if fault.reason:
        return f"{which} in the journal {one.source} of the {whose}{host}: {fault.reason}"
    return (
        f"{which} in the journal {one.source} of the {whose}{host} never came, written"
        f" {_when(one)}: what was said there is not known"
    )


def _landed_file(fault: Fault) -> str:
    one = fault.finding
    return f"{one.path} {place(one.tier, one.destination)} {fault.reason}"


def file_fault(fault: str, committed: int, found: int) -> str:
    """What is wrong with a landed file."""
    had = count(committed, "row") if committed >= 0 else "an unknown number of rows"
    has = count(found, "row") if found >= 0 else "rows that cannot be read"
    if fault == "missing":
        return f"is gone: {had} were committed there"
    if fault == "extra":
        return f"was written by no load, and has {has}"
    return f"is not as it was committed: it had {had} and has {has}"


def hole_reason(hole: Hole) -> str:
    whose = _WHOSE[hole.tier.value]
    entries = "an entry" if hole.count == 1 else "entries"
    return f"{entries} of the {whose}'s journal {hole.journal} never came"


def behind(agent: ExpectedAgent) -> str:
    """Why an agent is waited for."""
    if not agent.heard:
        return f"{agent.host}: nothing was ever heard from there"
    heard = f"last heard at {moment(agent.heard)}"
    if not agent.until:
        return f"{agent.host}: the agent has not said yet up to when it is done ({heard})"
    return f"{agent.host}: the agent is done up to {moment(agent.until)} ({heard})"


def offsets_ahead(tier: Tier, offsets: int, partitions: int, since: int) -> str:
    """What a later tier is waited for."""
    who = {
        TierKind.BROKER: "the brokers have yet to count",
        TierKind.ORIGIN: f"the brokers of {tier.destination} have yet to count",
        TierKind.HDFS: f"{tier.destination or 'the loader'} has yet to load",
    }.get(tier.kind, "the mirror has yet to copy")
    of = count(partitions, "partition")
    from_when = f", from {moment(since)} on" if since >= 0 else ""
    return f"{who} {count(offsets, 'offset')} of {of}{from_when}"


def copies_ahead(offsets: int, origin: str, since: int) -> str:
    """What the brokers of a copy are waited for."""
    from_when = f", from {moment(since)} on" if since >= 0 else ""
    return f"{count(offsets, 'offset')} of {origin} are yet to be copied, and counted{from_when}"


def behind_files(earlier: Tier, tier: Tier) -> str:
    of = f" of {earlier.destination}" if earlier.kind is TierKind.ORIGIN else ""
    return f"the brokers{of} have yet to count what is {place(tier.kind, tier.destination)}"


def missing_entry(hole: Hole, host: str) -> str:
    on = f" on {host}" if host else ""
    return (
        f"{count(hole.count, 'entry', 'entries')} of the {hole.tier.value}'s journal"
        f" {hole.journal}{on} may still come"
    )


def untold(files: int) -> str:
    return f"agents have yet to speak of events of {count(files, 'file')} that have landed"


def fresh() -> str:
    return "statements about the newest windows may still come"
