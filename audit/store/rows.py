"""What is kept of verdicts and alerts, and what is said of those who write entries. Values.

Times are milliseconds since 1970 UTC; -1 or an empty text where something is not known.
"""

from typing import NamedTuple

from audit.findings import Kinds
from audit.picture import TopicKey


class JudgedHour(NamedTuple):
    """What was said of an hour of a topic, the last time. States are verdicts' words."""

    key: TopicKey
    hour: int
    state: str
    events: int = 0
    missing: int = 0
    excess: int = 0
    pending_windows: int = 0
    findings: int = 0  # that nobody has accepted
    waits: str = ""
    partly_unseen: bool = False  # nobody watched for a time, and that is accepted
    # What is wrong in the hour, each kind by itself; events and findings where they begin.
    kinds: Kinds = ()


class Alert(NamedTuple):
    """Raised once, resolved once. What it is about is its name."""

    kind: str
    cluster: str
    topic: str  # empty with silent
    host: str
    words: str
    raised: int
    resolved: int = -1
    hour: int = -1  # of event time, with a fault
    finding: str = ""  # with a fault, the id of the first when it was raised
    since: int = -1  # when it began, as far as that is known


class TopicShare(NamedTuple):
    """Lines of a topic that agents read in some time, and those among them that became dead letters
    or were altered."""

    cluster: str
    topic: str
    lines: int
    dead: int
    altered: int


class LoadEnd(NamedTuple):
    """How the last load of a table ended."""

    cluster: str
    topic: str
    destination: str
    failed: bool
    since: int  # when the first of the loads began that have failed
    time: int  # when the loader said so


class JournalRow(NamedTuple):
    """Somebody who writes entries."""

    cluster: str
    journal: str
    tier: str
    host: str
    entries: int
    last: int


class Touched(NamedTuple):
    """What has changed by a chunk, to be judged again."""

    hours: set[tuple[TopicKey, int]]
    entries: int = 0  # new ones
    repeated: int = 0
    left_out: int = 0  # of a later version, or without a name
