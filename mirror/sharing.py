"""Which partitions are this worker's: workers of one name share those of all copies, as members of
a group of the paper's kind, in the ZooKeeper of the target.

For a moment two workers may copy one partition, when one has not noticed yet that it was taken from
it: that does no harm, as the target compares. So nobody waits for anybody here.

A thread of its own, as ZooKeeper is waited for.
"""

import logging
import threading
from collections.abc import Callable, Collection
from typing import Final

from client.fetch_session import Key
from client.group.member import Member
from cluster.errors import ClusterError, Fenced
from cluster.session import Session
from cluster.values import TopicPartition
from mirror.config import MirrorConfig

log = logging.getLogger(__name__)

_GLANCE_S: Final = 0.1
_AGAIN_S: Final = 2.0
_SESSION_S: Final = 10.0


class Sharing:
    """One worker's share. `topics` says which copies there are, `share` is told what is its own."""

    def __init__(
        self,
        config: MirrorConfig,
        topics: Callable[[], Collection[str]],
        share: Callable[[frozenset[Key]], None],
    ) -> None:
        self.trouble = "it is no member yet"  # any thread
        self._config = config
        self._topics = topics
        self._share = share
        self._told = threading.Event()
        self._shared: frozenset[Key] = frozenset()
        self._thread = threading.Thread(target=self._run, name="sharing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Others get at once what was this worker's."""
        self._told.set()
        self._thread.join()

    # What a member tells, on this thread

    def gained(self, partitions: Collection[TopicPartition]) -> None:
        self._tell(self._shared | _keys(partitions))

    def releasing(self, partitions: Collection[TopicPartition]) -> None:
        self._tell(self._shared - _keys(partitions))

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self._tell(self._shared - _keys(partitions))

    def _tell(self, shared: frozenset[Key]) -> None:
        self._shared = shared
        self._share(shared)

    def _run(self) -> None:
        while not self._told.is_set():
            try:
                self._share_once()
            except Exception as error:  # a bug of ours: the next session tries again
                log.exception("sharing partitions failed, trying again")
                self.trouble = repr(error)
                self._told.wait(_AGAIN_S)

    def _share_once(self) -> None:
        """As long as one session lasts."""
        side = self._config.target
        try:
            session = Session.connect(
                side.zookeeper,
                secret=side.zookeeper_secret or None,
                security=side.zookeeper_security,
                timeout_s=_SESSION_S,
                makes_map=False,
            )
        except ClusterError as error:
            self._say(str(error))
            self._told.wait(_AGAIN_S)
            return
        try:
            self._be_members(session)
        except (ClusterError, Fenced) as error:
            self._say(str(error))
        finally:
            session.close()
            self._tell(frozenset())

    def _be_members(self, session: Session) -> None:
        while not self._told.is_set():
            topics = tuple(sorted(self._topics()))
            if not topics:
                self._told.wait(_GLANCE_S)
                continue
            member = Member(session, self._config.name, topics, self)
            try:
                self._be_member(member, topics)
            finally:
                member.leave()

    def _be_member(self, member: Member, topics: tuple[str, ...]) -> None:
        """As long as there are the same copies."""
        while not self._told.is_set() and tuple(sorted(self._topics())) == topics:
            member.tend()
            if member.name:
                self._say("")
            self._told.wait(_GLANCE_S)

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.warning("partitions are not shared error=%r", trouble)
        self.trouble = trouble


def _keys(partitions: Collection[TopicPartition]) -> frozenset[Key]:
    return frozenset((each.topic, each.partition) for each in partitions)
