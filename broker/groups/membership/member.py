"""A member of a group: its metadata, and the callbacks of its pending requests."""

from typing import Final

import msgspec

from broker.groups.membership.values import (
    JoinAnswer,
    Joining,
    MemberDescription,
    MemberRecord,
    Protocol,
    SyncAnswer,
)

_OVERHEAD: Final = 64  # bytes of what is not measured


class MemberDetails(msgspec.Struct, frozen=True):
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: tuple[Protocol, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the member's protocols in order of preference, each once."""
        return tuple(dict.fromkeys(protocol.name for protocol in self.protocols))

    @property
    def size(self) -> int:
        protocols_size = sum(
            len(protocol.name) + len(protocol.metadata) for protocol in self.protocols
        )
        return len(self.client_id) + len(self.client_host) + protocols_size + _OVERHEAD

    def metadata(self, protocol: str) -> bytes:
        """Returns the metadata for a protocol; empty if the member does not support it."""
        return next(
            (candidate.metadata for candidate in self.protocols if candidate.name == protocol), b""
        )


def details_of(joining: Joining) -> MemberDetails:
    return MemberDetails(
        client_id=joining.client_id,
        client_host=joining.client_host,
        session_timeout=joining.session_timeout,
        rebalance_timeout=joining.rebalance_timeout,
        protocols=joining.protocols,
    )


class Member:
    """One member of a group; `members.py` owns it.

    `is_new`: it has not been in a generation yet; `knows_id`: it has received its id.
    """

    __slots__ = (
        "assignment",
        "details",
        "instance_id",
        "is_new",
        "join_answer",
        "knows_id",
        "member_id",
        "sync_answer",
    )  # fmt: skip

    def __init__(self, member_id: str, instance_id: str | None, details: MemberDetails) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.details = details
        self.assignment = b""
        self.is_new = True
        self.knows_id = False
        self.join_answer: JoinAnswer | None = None
        self.sync_answer: SyncAnswer | None = None

    @property
    def waits(self) -> bool:
        return self.join_answer is not None or self.sync_answer is not None

    def describe(self, protocol: str | None) -> MemberDescription:
        """Describes the member; without metadata and assignment if `protocol` is None."""
        return MemberDescription(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.details.client_id,
            client_host=self.details.client_host,
            metadata=b"" if protocol is None else self.details.metadata(protocol),
            assignment=b"" if protocol is None else self.assignment,
        )

    def record(self, protocol: str, assignment: bytes) -> MemberRecord:
        details = self.details
        return MemberRecord(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=details.client_id,
            client_host=details.client_host,
            session_timeout_ms=round(details.session_timeout * 1000),
            rebalance_timeout_ms=round(details.rebalance_timeout * 1000),
            metadata=details.metadata(protocol),
            assignment=assignment,
        )


def member_of(record: MemberRecord, protocol: str) -> Member:
    """Returns a member from its group's saved record, which has only the chosen protocol."""
    details = MemberDetails(
        client_id=record.client_id,
        client_host=record.client_host,
        session_timeout=record.session_timeout_ms / 1000,
        rebalance_timeout=record.rebalance_timeout_ms / 1000,
        protocols=(Protocol(protocol, record.metadata),),
    )
    member = Member(record.member_id, record.instance_id, details)
    member.assignment = record.assignment
    member.is_new = False
    member.knows_id = True
    return member
