"""The members of a group: their identities, leader, pending requests, and common protocols.

Rule 1: an instance id belongs to at most one member.
Rule 2: if there are members, one is the leader: the first that came, until it is removed, or does
        not rejoin while others do.
Rule 3: counts are maintained incrementally: members that wait for a generation, members yet to
        sync, members that support each protocol, and bytes of metadata. Only what is sent to every
        member anyway iterates over all of them.
"""

from collections import Counter
from collections.abc import Iterator

from broker.groups.membership.member import Member, MemberDetails
from broker.groups.membership.values import JoinAnswer, JoinedMember, MemberDescription, SyncAnswer

Waiting = JoinAnswer | SyncAnswer


class Members:
    __slots__ = (
        "_by_id", "_by_instance", "_knowing", "_to_sync", "_waiting", "joining", "leader",
        "pending", "size",
    )  # fmt: skip

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._by_instance: dict[str, Member] = {}
        self._knowing: Counter[str] = Counter()  # by protocol: members that support it
        self._to_sync: dict[Member, None] = {}
        self.pending: set[str] = set()  # assigned ids that have not joined yet
        self._waiting: dict[Waiting, Member] = {}
        self.joining = 0  # how many wait for a generation
        self.leader: Member | None = None
        self.size = 0  # bytes

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def instance(self, instance_id: str | None) -> Member | None:
        return None if instance_id is None else self._by_instance.get(instance_id)

    def add(self, member: Member) -> None:
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member
        if self.leader is None:
            self.leader = member
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        self.take_join(member)
        self.take_sync(member)
        del self._by_id[member.member_id]
        if member.instance_id is not None:
            del self._by_instance[member.instance_id]
        self._to_sync.pop(member, None)
        self._count(member, -1)
        if self.leader is member:
            self.leader = next(iter(self), None)

    def rename(self, member: Member, member_id: str) -> None:
        """Gives a static member a new id; everything else stays."""
        self._count(member, -1)
        del self._by_id[member.member_id]
        member.member_id = member_id
        self._by_id[member_id] = member
        self._count(member, 1)

    def update(self, member: Member, details: MemberDetails) -> None:
        self._count(member, -1)
        member.details = details
        self._count(member, 1)

    def _count(self, member: Member, sign: int) -> None:
        self.size += sign * (len(member.member_id) + member.details.size)
        for name in member.details.names:
            self._knowing[name] += sign
            if not self._knowing[name]:
                del self._knowing[name]

    # Protocols

    def all_know(self, name: str) -> bool:
        return self._knowing[name] == len(self)

    def vote(self) -> str:
        """Returns the protocol chosen by vote: each member votes for its first choice of the common
        protocols; in a tie, the first to get a vote wins."""
        votes = Counter(
            next(name for name in member.details.names if self.all_know(name)) for member in self
        )
        return max(votes, key=votes.__getitem__)

    def rebalance_timeout(self) -> float:
        return max((member.details.rebalance_timeout for member in self), default=0.0)

    def for_leader(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(
                member.member_id, member.instance_id, member.details.metadata(protocol or "")
            )
            for member in self
        )

    def described(self, protocol: str | None) -> tuple[MemberDescription, ...]:
        return tuple(member.describe(protocol) for member in self)

    # Waiting

    def wait_to_join(self, member: Member, answer: JoinAnswer) -> JoinAnswer | None:
        """Registers the callback of a joining member; returns the callback that it replaces, if
        any."""
        old_answer = self.take_join(member)
        member.join_answer = answer
        self._waiting[answer] = member
        self.joining += 1
        return old_answer

    def take_join(self, member: Member) -> JoinAnswer | None:
        """Removes and returns the callback of a joining member; None if the member is not
        waiting."""
        answer, member.join_answer = member.join_answer, None
        if answer is not None:
            del self._waiting[answer]
            self.joining -= 1
        return answer

    def wait_to_sync(self, member: Member, answer: SyncAnswer) -> SyncAnswer | None:
        old_answer = self.take_sync(member)
        member.sync_answer = answer
        self._waiting[answer] = member
        return old_answer

    def take_sync(self, member: Member) -> SyncAnswer | None:
        answer, member.sync_answer = member.sync_answer, None
        if answer is not None:
            del self._waiting[answer]
        return answer

    def forget(self, answer: Waiting) -> Member | None:
        """Removes the callback of a disconnected client; returns its member, or None if the
        callback was not waiting."""
        member = self._waiting.get(answer)
        if member is not None:
            if member.join_answer == answer:
                self.take_join(member)
            else:
                self.take_sync(member)
        return member

    def elect(self) -> bool:
        """Replaces a leader that has not joined; returns whether there is a leader."""
        if self.leader is not None and self.leader.join_answer is None:
            self.leader = next(
                (member for member in self if member.join_answer is not None), self.leader
            )
        return self.leader is not None and self.leader.join_answer is not None

    # Members yet to sync

    @property
    def to_sync(self) -> tuple[Member, ...]:
        return tuple(self._to_sync)

    def all_to_sync(self) -> None:
        self._to_sync = dict.fromkeys(self)

    def synced(self, member: Member) -> bool:
        """Notes that a member requested its assignment; returns whether all members have done
        so."""
        self._to_sync.pop(member, None)
        return not self._to_sync

    def none_to_sync(self) -> None:
        self._to_sync.clear()
