"""The status of an agent as values: the content of `/status` and the source of `/metrics`.

It is built for each request, and not maintained in between. New fields are added at the end of a
struct, with defaults, so that `penstock agent --status` can read the status of another release.
Counts start at zero with the process, as Prometheus expects.
"""

from enum import StrEnum
from typing import Final

import msgspec

from agent.configuration.refusals import Refusal
from agent.files.backfill_plan import BackfillPlan

STATUS_PATH: Final = "/status"  # of the HTTP port


class AgentPhase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    FAILED = "failed"


class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A followed source.

    `position` is the next byte to read: the journal has everything before it. `lag_bytes` are the
    bytes between `acknowledged` and `size`; `lag_seconds` is how long the oldest of them has
    waited, as far as this agent saw it arrive.
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
    deleted: bool = False  # held open until it is read
    error: str = ""  # the last one, while it lasts
    inode: int = 0  # of the file; 0 if an older agent does not report it


class UnreadablePath(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of an input that cannot be read."""

    path: str
    why: str


class InputStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An input: counts of its lines, and why it has stopped, if so.

    A line is counted once it is journalled. `stopped` is a problem that needs an operator: a
    missing schema, a topic that refuses batches. Waiting for brokers, or for `rate_limit`, shows
    only as lag.
    """

    name: str
    topic: str
    files: int = 0
    unreadable_files: int = 0
    size: int = 0
    lag_bytes: int = 0
    lag_seconds: float = 0.0
    stopped: str = ""
    warning: str = ""  # a problem that does not stop it
    events: int = 0
    lines: int = 0  # that the events were made of
    bytes: int = 0  # of the files, processed
    filtered_lines: int = 0
    dead_lettered_lines: int = 0
    lost_bytes: int = 0
    cut_lines: int = 0  # too long, and shipped cut
    adjusted_times: int = 0  # outside the bounds of `times`
    rate_limited_seconds: float = 0.0
    unreadable: tuple[UnreadablePath, ...] = ()  # some of them
    replaced_lines: int = 0  # with invalid bytes in the input's encoding
    replaced_characters: int = 0
    dropped_values: int = 0  # of fields that the topic's schema does not have
    unread_files: int = 0  # compressed
    waiting_archives: int = 0  # not identified yet, or of files that are still followed
    backfill: BackfillPlan | None = None  # if it reads archives
    has_matches: bool = False  # files that it matches exist, followed or not


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that the agent writes to, including dead letters and the ledger."""

    name: str
    partitions: tuple[int, ...] = ()  # those that this agent has chosen
    schema_id: int = -1
    schema_version: int = -1
    stalled: str = ""  # why it has stopped; empty while it moves
    batches: int = 0  # acknowledged
    events: int = 0  # acknowledged
    bytes: int = 0  # of acknowledged batches, as they were sent
    retries: int = 0
    in_flight_batches: int = 0
    in_flight_bytes: int = 0
    last_error: str = ""
    replaced: int = 0  # refused batches that were replaced


class JournalStatus(msgspec.Struct, frozen=True, kw_only=True):
    bytes: int = 0
    generation: int = 0
    open_batches: int = 0
    statements: int = 0  # of the ledger, not yet published
    sources: int = 0
    full: str = ""  # why it cannot be written; empty while it can
    damage: str = ""  # found at the start, with its consequences
    given_up_statements: int = 0  # dropped because too many waited to be published


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    resident_bytes: int = 0
    cpu_seconds: float = 0.0
    open_files: int = 0  # of those that are followed
    paused_seconds: float = 0.0  # to keep `limits.cpu`
    in_flight_bytes: int = 0
    in_flight_limit: int = 0  # `limits.in_flight_bytes`, or less to keep `limits.memory_bytes`
    over_memory: bool = False  # above `limits.memory_bytes`, and cannot shrink further
    kept_files: int = 0  # open files that outlive the process


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The complete status of an agent."""

    phase: AgentPhase
    version: str  # of Penstock
    agent: str = ""  # its id
    host: str = ""
    cluster: str = ""
    started_millis: int = 0
    loaded_millis: int = 0  # when the configuration was last loaded
    copied_from: str = ""  # the id of the agent whose data directory this was a copy of
    failure: str = ""
    inotify: str = "on"  # or why files are only scanned every `scan_interval`
    registry: str = ""  # why the registry is not reachable; empty while it is
    ledger_seq: int = 0
    files: tuple[FileStatus, ...] = ()
    inputs: tuple[InputStatus, ...] = ()
    topics: tuple[TopicStatus, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    journal: JournalStatus = JournalStatus()
    process: ProcessStatus = ProcessStatus()
    fingerprint: str = ""  # of the key that it signs with
    public_key: str = ""  # as PEM


def why_not_ready(status: Status) -> str:
    """The reasons why the agent is not ready: the configured things that do not work. Empty if it
    is ready.

    Nothing waits for the ledger, so the state of `_audit` does not count.
    """
    if status.phase is not AgentPhase.RUNNING:
        return status.failure or status.phase.value
    reasons = [status.journal.full] if status.journal.full else []
    reasons += [
        f"input {input_status.name}: {input_status.stopped}"
        for input_status in status.inputs
        if input_status.stopped
    ]
    reasons += [f"{refusal.path}: {refusal.why}" for refusal in status.refusals]
    return "; ".join(reasons)
