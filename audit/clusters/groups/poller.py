"""Polls one cluster for its consumer groups and their lags, on a thread of its own.

Neither the ledger's followers nor the judge wait for it. What is unknown is described beside the
rest: an absent broker that coordinates groups, brokers too old to serve groups, groups that we may
not see. Nothing is kept across restarts.

Groups that brokers refused to describe are left alone for a while, as repeated requests would cost
time and fill the brokers' logs.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from audit.clusters.groups.lags import GroupsSeen, seen
from audit.clusters.polling import ANSWER_S, ClusterPoller
from audit.configuration.config import Cluster
from client.connection.brokers import Brokers
from client.errors import ClientError, NotAllowed, Unsupported, check
from client.groups.lag import lag
from client.groups.offsets import (
    DEAD,
    EMPTY,
    Committed,
    GroupOfMembers,
    ListedGroup,
    committed_offsets,
    describe_groups,
)
from client.producing.delivery import TopicPartition
from wire.messages import list_groups
from wire.messages.list_groups import ListGroupsRequest

_MOST_BYTES: Final = 16 * 1024 * 1024  # of messages, read for their times
_MOST_GROUPS: Final = 10_000
_MOST_DESCRIBED: Final = 500  # groups, in one poll
_MOST_REFUSED: Final = 50  # in one poll
_ASK_REFUSED_EVERY: Final = 60  # polls
# A login that may describe all groups may describe this one, which does not exist.
_ANY: Final = "penstock-audit-looks"

log = logging.getLogger(__name__)


class GroupsPoller(ClusterPoller):
    """The thread that polls one cluster's groups and their lags."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        *,
        every_seconds: float,
        receive: Callable[[str, GroupsSeen], None],
    ) -> None:
        """`receive` is called on the poller's thread."""
        super().__init__(name, cluster, about="groups", every_seconds=every_seconds)
        self._receive = receive
        self._seen = GroupsSeen()
        self._refused: dict[str, str] = {}
        self._polls = 0
        self._may_see = True

    def _note_failure(self, error: ClientError | None) -> None:
        words = (
            "polling its groups failed because of a bug: see the audit's log"
            if error is None
            else f"its groups cannot be asked for: {error}"
        )
        self._note(self._unknown(words))

    def _poll(self, brokers: Brokers) -> None:
        while not self._stopping.is_set():
            self._note(self._poll_once(brokers))
            self._wait(self._every)

    def _note(self, seen_: GroupsSeen) -> None:
        for words in set(seen_.troubles) - set(self._seen.troubles):
            log.warning("cannot read all consumer groups cluster=%s reason=%r", self._name, words)
        self._seen = seen_
        self._receive(self._name, seen_)

    def _unknown(self, why: str) -> GroupsSeen:
        """Returns unknown lags: the former ones are too old to be shown. The list of groups stays,
        to poll them again."""
        return GroupsSeen(self._seen.looked, self._seen.groups, troubles=(why,))

    def _poll_once(self, brokers: Brokers) -> GroupsSeen:
        self._polls += 1
        if self._polls % _ASK_REFUSED_EVERY == 0:
            self._refused.clear()
        troubles: list[str] = []
        groups = self._listed(brokers, troubles)
        offsets = self._committed(brokers, groups.values(), troubles)
        troubles += _in_words(self._refused)
        if not groups and (missing_right := self._lacking(brokers)):
            troubles.append(missing_right)
        now = time.time()
        lags = lag(
            brokers,
            offsets,
            now,
            before=self._seen.lags,
            most_bytes=_MOST_BYTES,
            within=ANSWER_S,
        )
        members = _members(brokers, [groups[name] for name in offsets if name in groups])
        return seen(int(now * 1000), groups, lags, troubles, members)

    def _listed(self, brokers: Brokers, troubles: list[str]) -> dict[str, ListedGroup]:
        """Lists the groups of all brokers; of one that does not answer, those it coordinated."""
        groups: dict[str, ListedGroup] = {}
        old_brokers = 0
        broker_ids = sorted(brokers.persist(lambda: brokers.refresh([])).brokers)
        for broker_id in broker_ids:
            try:
                connection = brokers.broker(broker_id)
                answer = connection.call(list_groups.API, ListGroupsRequest(), within=ANSWER_S)
                check(answer.error_code, f"groups of broker {broker_id}")
            except Unsupported:
                old_brokers += 1
                continue
            except ClientError as error:
                words = f"Groups that broker {broker_id} coordinates are not all known: {error}"
                troubles.append(words)
                former_groups = self._seen.groups.values()
                groups |= {
                    former_group.name: former_group
                    for former_group in former_groups
                    if former_group.coordinator == broker_id
                }
                continue
            for group in answer.groups:
                groups[group.group_id] = ListedGroup(
                    group.group_id, group.protocol_type, group.group_state, broker_id
                )
        if old_brokers:
            subject = (
                "Its brokers serve"
                if old_brokers == len(broker_ids)
                else f"{old_brokers} brokers serve"
            )
            troubles.append(f"{subject} no consumer groups: they are too old")
        if len(groups) > _MOST_GROUPS:
            troubles.append(f"Of {len(groups):,} groups only {_MOST_GROUPS:,} are polled")
        return {name: groups[name] for name in sorted(groups)[:_MOST_GROUPS]}

    def _committed(
        self, brokers: Brokers, groups: Iterable[ListedGroup], troubles: list[str]
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """Asks each coordinator; one that does not answer does not stop the others."""
        by_coordinator: dict[int, list[str]] = {}
        for group in groups:
            if group.name not in self._refused:
                by_coordinator.setdefault(group.coordinator, []).append(group.name)
        offsets: dict[str, dict[TopicPartition, Committed]] = {}
        count_before = len(self._refused)
        for names in by_coordinator.values():
            batches: list[Sequence[str]] = [names]
            while batches and len(self._refused) - count_before < _MOST_REFUSED:
                batch = batches.pop()
                try:
                    offsets |= committed_offsets(brokers, batch)
                except NotAllowed as error:
                    middle = len(batch) // 2
                    if middle:
                        batches += [batch[middle:], batch[:middle]]
                    else:
                        self._refused[batch[0]] = str(error)
                except ClientError as error:
                    subject = f"{len(batch):,} groups" if len(batch) > 1 else "a group"
                    troubles.append(f"The offsets of {subject} are unknown: {error}")
            if batches:
                remaining_groups = sum(map(len, batches))
                troubles.append(
                    f"{remaining_groups:,} groups are asked for later, as many were refused"
                )
        return offsets

    def _lacking(self, brokers: Brokers) -> str:
        """Returns the missing right, in words, without which groups are not even listed. Each
        refusal is in a broker's log, so this is not checked with every poll."""
        if self._polls % _ASK_REFUSED_EVERY == 1:
            self._may_see = True
            try:
                committed_offsets(brokers, [_ANY])
            except NotAllowed:
                self._may_see = False
            except ClientError:
                pass  # reported already, if it affects an existing group
        if self._may_see:
            return ""
        return (
            f"No group is seen: {brokers.who} sees those that it may DESCRIBE, and may not "
            "DESCRIBE every group"
        )


def _members(brokers: Brokers, groups: Iterable[ListedGroup]) -> dict[str, GroupOfMembers]:
    """Describes groups that have members. Their coordinators have just answered; one that does not
    now is asked with the next poll."""
    names = [group.name for group in groups if group.state not in {"", EMPTY, DEAD}]
    try:
        return describe_groups(brokers, names[:_MOST_DESCRIBED])
    except ClientError:
        return {}


def _in_words(refused: dict[str, str]) -> list[str]:
    if not refused:
        return []
    first_error = next(iter(refused.values()))
    suffix = f"; likewise {len(refused) - 1:,} more" if len(refused) > 1 else ""
    return [f"A group is listed but not shown: {first_error}{suffix}"]
