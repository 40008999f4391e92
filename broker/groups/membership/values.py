"""The input and output of groups, as values.

Nothing here belongs to the wire: handlers make these from requests, and responses from these. Times
are in seconds, except saved ones, which are in milliseconds as in the protocol.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from wire.errors import ErrorCode

NO_MEMBER: Final = ""  # the id of a member that has none yet
NO_GENERATION: Final = -1
KIND: Final = "kafka"


class State(StrEnum):
    """The states of a group, by Kafka's names, which clients see.

        Empty ──join──▶ PreparingRebalance ──all joined, or time is up──▶ CompletingRebalance
          ▲                │    ▲     ▲                                       │        │
          └──nobody left───┘    │     └──join, leave, time-out, not saved─────┘        │
                                └─────join, leave, time-out────── Stable ◀──saved──────┘

    Dead is a group that is not on this broker any more.
    """

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupRules(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings for all groups.

    `initial_delay` is how long an empty group waits for more members after the first one
    (group.initial.rebalance.delay.ms). `most_bytes` bounds the ids and metadata of a group's
    members, and, separately, everything that their leader assigns.
    """

    initial_delay: float = 3.0
    least_session: float = 6.0
    most_session: float = 1800.0
    most_members: int = 5_000
    most_bytes: int = 64 << 20


class Protocol(msgspec.Struct, frozen=True):
    """An assignment protocol that a member supports, with metadata for other members."""

    name: str
    metadata: bytes


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    """A JoinGroup request. `needs_member_id`: a member without id gets one, and rejoins with it
    (KIP-394, version 4). `may_skip_assignment`: the client understands skip_assignment (KIP-814,
    version 9)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: tuple[Protocol, ...]
    needs_member_id: bool
    may_skip_assignment: bool
    reason: str | None = None


class JoinedMember(msgspec.Struct, frozen=True):
    """A member as described to the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of joining. `members` is for the leader only; with `skip_assignment` the leader
    need not assign anything."""

    code: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncOutcome(msgspec.Struct, frozen=True, kw_only=True):
    code: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


JoinAnswer = Callable[[JoinOutcome], None]
SyncAnswer = Callable[[SyncOutcome], None]


class Syncing(msgspec.Struct, frozen=True, kw_only=True):
    """A SyncGroup request. Protocol type and protocol are sent from version 5 on (KIP-559); only
    the leader sends assignments."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """A member that is to leave, by member id, or by instance id alone (administrators)."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class LeaveOutcome(msgspec.Struct, frozen=True):
    """The result of leaving. `codes` are in the order of the members in the request."""

    code: ErrorCode
    codes: tuple[ErrorCode, ...] = ()


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a group. Protocol, metadata and assignments are set for a stable group, and
    empty for others."""

    state: State
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]


class MemberRecord(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: bytes
    assignment: bytes


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The saved form of a group: a finished generation, or one without members."""

    kind: str = KIND
    protocol_type: str | None
    protocol: str | None
    generation: int
    leader: str | None
    members: tuple[MemberRecord, ...]
