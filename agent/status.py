"""How an agent stands, as values: what `/status` shows, and all that `/metrics` is made of.

Built by the agent when somebody asks; nothing here is kept up while nobody does. Fields are added
at the end of a struct and have defaults, so that `penstock agent --status` of one release reads
what an agent of another says. Counts begin at zero with the process, as Prometheus expects.
"""

from enum import StrEnum
from typing import Final

import msgspec

STATUS_PATH: Final = "/status"  # of the HTTP port


class AgentPhase(StrEnum):
    """What an agent is about."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    FAILED = "failed"


class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One source that is followed.

    `position` is the next byte to be read: everything before it has been written down in the
    journal. What lies between `acknowledged` and `size` is the lag: `lag_bytes`. `lag_seconds` is
    for how long the oldest of it has been waiting, as far as this agent saw it come.
    """

    path: str
    source: str
    input: str
    topic: str
    size: int
    position: int
    acknowledged: int
    lag_bytes: int
    lag_seconds: float = 0.0
    deleted: bool = False  # held open for what was not read yet
    error: str = ""  # the last one, until it is over
    inode: int = 0  # of the file; 0 if the agent does not say


class UnreadablePath(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that an input means and that may not be read, or cannot be."""

    path: str
    why: str


class InputStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One input: what became of its lines, and why it stands still if it does.

    A line is counted when the journal has taken it over. `stopped` says in words what somebody has
    to see to before it goes on: there is no schema, the topic refuses. That it waits for brokers,
    or for its own `rate_limit`, is seen by its lag.
    """

    name: str
    topic: str
    files: int = 0
    unreadable_files: int = 0
    size: int = 0
    lag_bytes: int = 0
    lag_seconds: float = 0.0
    stopped: str = ""
    warning: str = ""  # it goes on, and somebody should know: a new version that does not fit, say
    events: int = 0
    lines: int = 0  # that the events were made from
    bytes: int = 0  # of the files, dealt with
    filtered_lines: int = 0
    dead_lettered_lines: int = 0
    lost_bytes: int = 0
    cut_lines: int = 0  # too long, and shipped cut
    adjusted_times: int = 0  # outside the bounds of `times`
    rate_limited_seconds: float = 0.0
    unreadable: tuple[UnreadablePath, ...] = ()  # some of them
    replaced_lines: int = 0  # that had bytes which are not valid in the input's encoding
    replaced_characters: int = 0
    dropped_values: int = 0  # of fields that the topic's schema does not have
    unread_files: int = 0  # compressed


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One topic that is written to, dead letters and the ledger included."""

    name: str
    partitions: tuple[int, ...] = ()  # those that this agent has chosen
    schema_id: int = -1
    schema_version: int = -1
    stalled: str = ""  # why it stands still, in words; empty while it does not
    batches: int = 0  # acknowledged
    events: int = 0  # acknowledged
    bytes: int = 0  # of acknowledged batches, as they were sent
    retries: int = 0
    in_flight_batches: int = 0
    in_flight_bytes: int = 0
    last_error: str = ""
    replaced: int = 0  # batches that were refused, and cured


class JournalStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What this agent remembers on disk."""

    bytes: int = 0
    generation: int = 0
    open_batches: int = 0
    statements: int = 0  # of the ledger, not yet published
    sources: int = 0
    full: str = ""  # why nothing can be written down now, in words
    damage: str = ""  # what was found damaged at the start, and what follows from it
    given_up_statements: int = 0  # dropped, as too many waited to be published


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What it uses of its host."""

    resident_bytes: int = 0
    cpu_seconds: float = 0.0
    open_files: int = 0  # of those that are followed
    paused_seconds: float = 0.0  # to keep `limits.cpu`
    in_flight_bytes: int = 0
    in_flight_limit: int = 0  # `limits.in_flight_bytes`, or less to keep `limits.memory_bytes`
    over_memory: bool = False  # above `limits.memory_bytes`, and nothing is left to give back
    kept_files: int = 0  # of the open ones, how many outlive the process


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A file of `inputs_dir` that is not, or not as it stands now, taken."""

    path: str
    why: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Everything."""

    phase: AgentPhase
    version: str  # of Penstock
    agent: str = ""  # its id
    host: str = ""
    cluster: str = ""
    started_millis: int = 0
    loaded_millis: int = 0  # when the configuration was last taken
    copied_from: str = ""  # the id of the agent whose data directory this was a copy of
    failure: str = ""
    inotify: str = "on"  # or why the disk is only looked at every `scan_interval`
    registry: str = ""  # why the registry cannot be asked; empty while it answers
    ledger_seq: int = 0
    files: tuple[FileStatus, ...] = ()
    inputs: tuple[InputStatus, ...] = ()
    topics: tuple[TopicStatus, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    journal: JournalStatus = JournalStatus()
    process: ProcessStatus = ProcessStatus()


def why_not_ready(status: Status) -> str:
    """In words, why not everything that is configured goes its way; empty if it does.

    The ledger makes nobody wait: what `_audit` does is no part of it.
    """
    if status.phase is not AgentPhase.RUNNING:
        return status.failure or status.phase.value
    reasons = [status.journal.full] if status.journal.full else []
    reasons += [f"input {each.name}: {each.stopped}" for each in status.inputs if each.stopped]
    reasons += [f"{each.path}: {each.why}" for each in status.refusals]
    return "; ".join(reasons)
