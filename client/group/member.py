"""One member of a group: it registers, claims what is its own, and knows when it may not read.

Rule 1: it may read what it has claimed, and only while its lease holds (lease.py). A process that
        was stopped for longer than its session finds that out before it reads on.
Rule 2: when members or partitions come or go, it computes its share anew. What is not its own any
        more it gives up, after its reader was told and has committed; what is new it claims, and
        asks again, as soon as something happens to the owners, while another member still has it.
        What stays its own it reads on: nobody else claims that.
Rule 3: when its session is lost, or a transaction says that it is fenced, all claims are lost, and
        it joins anew under another id.

All of it happens on the reader's thread, in `tend`. Watches and the session's state only set flags.
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
from cluster import group_members
from cluster.answers import PendingAnswer
from cluster.errors import Fenced, Unavailable
from cluster.session import Session, SessionState
from cluster.values import CommittedOffset, Membership, OwnedTopic, TopicPartition

_BETWEEN_S: Final = 0.1  # two rebalances: when many come at once, not one for each
_LOOK_AGAIN_S: Final = 2.0  # for what another member still has, even if nothing was heard
_WAIT_S: Final = 0.1  # for ZooKeeper, when there is nothing else to do

log = logging.getLogger(__name__)


class Reader(Protocol):
    """Who reads what the member claims; called within `tend` and `leave`."""

    def gained(self, partitions: Collection[TopicPartition]) -> None: ...

    def releasing(self, partitions: Collection[TopicPartition]) -> None:
        """They are given up when this returns; offsets can still be committed."""

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """They are no longer this member's, and were read without having been committed."""


def unique_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class Member:
    """Of one group, in one session that it shares with no other member."""

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
        """`name` must be nobody else's, now or ever."""
        self.group = group
        self.claims: set[TopicPartition] = set()
        self._session = session
        self._topics = tuple(sorted(set(topics)))
        self._reader = reader
        self._name = name or unique_name()
        self._clock = clock
        self._sessions = 0  # that it was a member in
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
        """As it is registered now; empty if it is not."""
        return self._membership.member if self._membership is not None else ""

    @property
    def may_read(self) -> bool:
        """Whether what is claimed is certainly nobody else's at this moment."""
        return self._lease.holds and self._is_current

    @property
    def has_news(self) -> bool:
        """Whether there is something to do for `tend` that others wait for."""
        now = self._clock()
        if self._session.state is not SessionState.CONNECTED or now < self._not_before:
            return False
        return self._changed.is_set() or now >= self._at_latest

    @property
    def is_settled(self) -> bool:
        """Whether it has all that is its own, as far as it has heard."""
        return self.may_read and not self._changed.is_set() and self._at_latest == float("inf")

    def tend(self) -> None:
        """Do what is due: join, ask whether the session lives, rebalance."""
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
        """Write them down, if all of these partitions are still its own.

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
        """Give all up, and go."""
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
                    log.warning("group member left without a word error=%r", str(error))

    # On threads of kazoo's

    def _on_state(self, _: SessionState) -> None:
        self._changed.set()  # watches are gone

    def _on_change(self, _: object) -> None:
        self._changed.set()

    # On the reader's thread

    @property
    def _is_current(self) -> bool:
        membership = self._membership
        return membership is not None and self._session.session_id == membership.session_id

    def _lose(self) -> None:
        """What was claimed is another's by now, or may be."""
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
        if self._former is not None:  # its session may live: it was fenced by somebody's hand
            group_members.leave(self._session, *self._former)
            self._former = None
        self._sessions += 1
        name = f"{self._name}-{self._sessions}"
        self._membership = group_members.join(self._session, self.group, name, self._topics)
        self._changed.set()
        self._not_before = float("-inf")
        log.info("group joined group=%r member=%s", self.group, name)

    def _confirm(self) -> bool:
        """Whether the session lives, by an answer that is young enough; waits a little for one."""
        if self._question is None and self._lease.is_due:
            self._question = self._lease.asked(), self._session.start_sync()
        if self._question is not None:
            asked, answer = self._question
            if answer.is_here or not self._lease.holds:
                self._take(asked, answer)
        return self.may_read

    def _take(self, asked: float, answer: PendingAnswer[bool]) -> None:
        try:
            answer.get(_WAIT_S)
        except Unavailable:
            if answer.is_here:  # with bad news, and not just late
                self._question = None
                time.sleep(_WAIT_S / 10)
            return
        self._question = None
        # It is this session that has lived, unless there is another one by now.
        if self._is_current:
            self._lease.renew(asked, self._session.granted_timeout_s)

    def _rebalance(self) -> None:
        membership = self._membership
        assert membership is not None
        self._changed.clear()
        self._not_before, self._at_latest = self._clock() + _BETWEEN_S, float("inf")
        self._known = group_members.members(self._session, self.group, self._known, self._on_change)
        if membership.member not in self._known:  # somebody has removed it
            raise group_members.fenced(self._session, membership.member, self.group)
        counts = self._open_topics(membership)
        wanted = assigned(membership.member, self._known, counts)
        surplus = frozenset(self.claims - wanted)
        if surplus:
            self._reader.releasing(surplus)
            if self._membership is None:
                return  # lost while it committed
            self.claims -= surplus
            group_members.release(self._session, membership, surplus)
        missing = wanted - self.claims
        for topic in sorted({each.topic for each in missing}):
            self._claim(membership, topic, {each[1] for each in missing if each.topic == topic})

    def _open_topics(self, membership: Membership) -> dict[str, int]:
        """How many partitions each has. Of one that has another one's name by now, nothing is this
        member's."""
        counts: dict[str, int] = {}
        for topic in self._topics:
            found = group_members.topic_of(self._session, topic, self._on_change)
            if found is None:
                continue
            opened = group_members.open_topic(self._session, membership, topic, *found)
            before = self._opened.get(topic)
            if before is not None and before.version != opened.version:
                gone = frozenset(each for each in self.claims if each.topic == topic)
                self.claims -= gone
                if gone:
                    self._reader.lost(gone)
                group_members.release(self._session, membership, gone)
            self._opened[topic] = opened
            counts[topic] = found[1]
        return counts

    def _claim(self, membership: Membership, topic: str, numbers: set[int]) -> None:
        opened = self._opened[topic]
        claimed = group_members.claim(self._session, membership, opened, numbers)
        gained = frozenset(TopicPartition(topic, each) for each in claimed)
        self.claims |= gained
        if gained:
            self._reader.gained(gained)
        if blocked := numbers - claimed:
            # Whoever has them gives them up when he hears what we have heard, or loses them.
            taken = group_members.owned(self._session, self.group, topic, self._on_change)
            self._at_latest = self._clock() + _LOOK_AGAIN_S
            if not blocked <= taken:
                self._changed.set()

    def first_partitions(self, topic: str) -> int:
        """How many it had when the group began to read it."""
        return self._opened[topic].partitions
