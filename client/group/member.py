"""One member of a group: registers, claims its share of partitions, and stops reading when its
claims may be lost.

Rule 1: it may read what it has claimed, but only while its lease holds (lease.py). A process that
        was stopped for longer than its session notices before it reads on.
Rule 2: when members or partitions change, it computes its share again. It gives up what no longer
        belongs to it, after its reader was told and has committed. It claims what is new, and tries
        again, at every change of the owners, while another member still has it. It reads on in what
        it keeps: no other member claims that.
Rule 3: when its session is lost, or a transaction reports that it is fenced, all claims are lost,
        and it joins again under another id.

All of this happens in `tend`, on the reader's thread. Watches and session events only set flags.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from client.group.assignment import assigned
from client.group.lease import Lease, boottime
from cluster.errors import Fenced, Unavailable
from cluster.groups import members as group_members
from cluster.session.answers import PendingAnswer
from cluster.session.session import Session, SessionState
from cluster.values import CommittedOffset, Membership, OwnedTopic, TopicPartition

_BETWEEN_S: Final = 0.1  # between rebalances, so that many simultaneous changes take only one
_LOOK_AGAIN_S: Final = 2.0  # for partitions that another member still has, even without an event
_WAIT_S: Final = 0.1  # for ZooKeeper, when there is nothing else to do

log = logging.getLogger(__name__)


class Reader(Protocol):
    """The reader of claimed partitions. A member calls it within `tend` and `leave`."""

    def gained(self, partitions: Collection[TopicPartition]) -> None: ...

    def releasing(self, partitions: Collection[TopicPartition]) -> None:
        """Called before partitions are given up; offsets can still be committed until this
        returns."""

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Called when partitions are lost; uncommitted messages will be read again."""


def unique_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class Member:
    """A member of one group, in a session that it shares with no other member."""

    def __init__(
        self,
        session: Session,
        group: str,
        topics: Collection[str],
        reader: Reader,
        *,
        name: str = "",
        clock: Callable[[], float] = boottime,
    ) -> None:
        """`name` must be unique for ever."""
        self.group = group
        self.claims: set[TopicPartition] = set()
        self._session = session
        self._topics = tuple(sorted(set(topics)))
        self._reader = reader
        self._name = name or unique_name()
        self._clock = clock
        self._sessions = 0  # in which it was a member
        self._membership: Membership | None = None
        self._former: tuple[Membership, frozenset[TopicPartition]] | None = None
        self._lease = Lease(clock)
        self._question: tuple[float, PendingAnswer[bool]] | None = None
        self._opened: dict[str, OwnedTopic] = {}
        self._known: dict[str, tuple[str, ...]] = {}
        self._changed = threading.Event()
        self._changed.set()
        self._not_before = self._at_latest = float("-inf")
        self._unavailable = False
        session.add_listener(self._on_state)

    @property
    def name(self) -> str:
        """The member's registered name; empty if it is not registered."""
        return self._membership.member if self._membership is not None else ""

    @property
    def may_read(self) -> bool:
        """Whether the claimed partitions certainly belong to this member now."""
        return self._lease.holds and self._is_current

    @property
    def has_news(self) -> bool:
        """Whether `tend` has work to do that other members wait for."""
        now = self._clock()
        if self._session.state is not SessionState.CONNECTED or now < self._not_before:
            return False
        return self._changed.is_set() or now >= self._at_latest

    @property
    def is_settled(self) -> bool:
        """Whether the member has its whole share, as far as it knows."""
        return self.may_read and not self._changed.is_set() and self._at_latest == float("inf")

    def tend(self) -> None:
        """Joins, confirms the session, or rebalances, whichever is due."""
        try:
            if self._membership is not None and not self._is_current:
                self._lose()
            if self._membership is None and self._session.state is not SessionState.CONNECTED:
                time.sleep(_WAIT_S)
                return
            if self._membership is None:
                self._join()
            if self._confirm() and self.has_news:
                self._rebalance()
            self._unavailable = False
        except Fenced as fenced:
            log.warning("group member fenced group=%r reason=%s", self.group, fenced)
            self._lose()
        except Unavailable as error:
            if not self._unavailable:
                log.warning("group member waits for zookeeper error=%r", str(error))
            self._unavailable = True
            self._changed.set()
            self._not_before = self._clock() + _BETWEEN_S

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commits offsets, if all of these partitions still belong to this member.

        Raises Fenced, and then all claims are lost; Unavailable.
        """
        if self._membership is None or not self.claims.issuperset(offsets):
            raise group_members.fenced(self._session, self._name, self.group)
        try:
            group_members.commit(self._session, self._membership, self._opened, offsets)
        except Fenced:
            self._lose()
            raise

    def leave(self) -> None:
        """Gives up all claims, and leaves the group."""
        try:
            if self.claims and self._confirm():
                self._reader.releasing(frozenset(self.claims))
        finally:
            membership, claims = self._membership, frozenset(self.claims)
            self._membership = None
            self.claims.clear()
            if membership is not None:
                try:
                    group_members.leave(self._session, membership, claims)
                except Unavailable as error:
                    log.warning("group member could not leave cleanly error=%r", str(error))

    # On kazoo's threads

    def _on_state(self, _: SessionState) -> None:
        self._changed.set()  # watches are lost

    def _on_change(self, _: object) -> None:
        self._changed.set()

    # On the reader's thread

    @property
    def _is_current(self) -> bool:
        membership = self._membership
        return membership is not None and self._session.session_id == membership.session_id

    def _lose(self) -> None:
        """Drops all claims: they may belong to another member by now."""
        membership, claims = self._membership, frozenset(self.claims)
        self._membership = None
        self._question = None
        self._lease = Lease(self._clock)
        self._opened.clear()
        self.claims.clear()
        self._changed.set()
        if membership is not None:
            self._former = membership, claims
            log.warning(
                "group claims lost group=%r member=%s partitions=%d",
                *(self.group, membership.member, len(claims)),
            )
        if claims:
            self._reader.lost(claims)

    def _join(self) -> None:
        if self._former is not None:  # its session may be alive, if an operator fenced it
            group_members.leave(self._session, *self._former)
            self._former = None
        self._sessions += 1
        name = f"{self._name}-{self._sessions}"
        self._membership = group_members.join(self._session, self.group, name, self._topics)
        self._changed.set()
        self._not_before = float("-inf")
        log.info("group joined group=%r member=%s", self.group, name)

    def _confirm(self) -> bool:
        """Whether a recent answer shows that the session is alive; waits briefly for one."""
        if self._question is None and self._lease.is_due:
            self._question = self._lease.question_time(), self._session.start_sync()
        if self._question is not None:
            ask_time, answer = self._question
            if answer.is_here or not self._lease.holds:
                self._take(ask_time, answer)
        return self.may_read

    def _take(self, asked: float, answer: PendingAnswer[bool]) -> None:
        try:
            answer.get(_WAIT_S)
        except Unavailable:
            if answer.is_here:  # an error, not a late answer
                self._question = None
                time.sleep(_WAIT_S / 10)
            return
        self._question = None
        # The answer is about this session, unless there is a new one by now.
        if self._is_current:
            self._lease.renew(asked, self._session.granted_timeout_s)

    def _rebalance(self) -> None:
        membership = self._membership
        assert membership is not None
        self._changed.clear()
        self._not_before, self._at_latest = self._clock() + _BETWEEN_S, float("inf")
        self._known = group_members.members(self._session, self.group, self._known, self._on_change)
        if membership.member not in self._known:  # it was removed
            raise group_members.fenced(self._session, membership.member, self.group)
        counts = self._open_topics(membership)
        share = assigned(membership.member, self._known, counts)
        surplus_claims = frozenset(self.claims - share)
        if surplus_claims:
            self._reader.releasing(surplus_claims)
            if self._membership is None:
                return  # lost during the commit
            self.claims -= surplus_claims
            group_members.release(self._session, membership, surplus_claims)
        missing_partitions = share - self.claims
        for topic in sorted({partition.topic for partition in missing_partitions}):
            self._claim(
                membership,
                topic,
                {target[1] for target in missing_partitions if target[0] == topic},
            )

    def _open_topics(self, membership: Membership) -> dict[str, int]:
        """Returns the number of partitions of each topic. Claims on a topic that was recreated
        meanwhile are dropped."""
        counts: dict[str, int] = {}
        for topic in self._topics:
            topic_state = group_members.topic_of(self._session, topic, self._on_change)
            if topic_state is None:
                continue
            owned_topic = group_members.open_topic(self._session, membership, topic, *topic_state)
            old_topic = self._opened.get(topic)
            if old_topic is not None and old_topic.version != owned_topic.version:
                topic_claims = frozenset(claim for claim in self.claims if claim.topic == topic)
                self.claims -= topic_claims
                if topic_claims:
                    self._reader.lost(topic_claims)
                group_members.release(self._session, membership, topic_claims)
            self._opened[topic] = owned_topic
            counts[topic] = topic_state[1]
        return counts

    def _claim(self, membership: Membership, topic: str, numbers: set[int]) -> None:
        owned_topic = self._opened[topic]
        claimed_numbers = group_members.claim(self._session, membership, owned_topic, numbers)
        gained_partitions = frozenset(
            TopicPartition(topic, partition) for partition in claimed_numbers
        )
        self.claims |= gained_partitions
        if gained_partitions:
            self._reader.gained(gained_partitions)
        if blocked_numbers := numbers - claimed_numbers:
            # Their owners give them up once they see the same change, or lose them.
            owned_numbers = group_members.owned(self._session, self.group, topic, self._on_change)
            self._at_latest = self._clock() + _LOOK_AGAIN_S
            if not blocked_numbers <= owned_numbers:
                self._changed.set()

    def first_partitions(self, topic: str) -> int:
        """Returns the number of partitions of the topic when the group began to read it."""
        return self._opened[topic].partitions
