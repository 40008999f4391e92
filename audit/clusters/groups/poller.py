"""Asking one cluster for its consumer groups and their lag, again and again, on a thread of its
own.

Nothing waits for it: not the ledger's followers, not those who judge. What cannot be known is said
in words beside what is known: a broker that is away and coordinates groups, brokers that are too
old to serve any, groups that we may not see. Nothing is kept over a start.

What we were refused is left alone for a while: to ask for it again with each look would cost
requests, and fill the brokers' logs.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from audit.clusters.groups.lags import GroupsSeen, seen
from audit.clusters.polling import ANSWER_S, ClusterLook
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

_MOST_BYTES: Final = 16 * 1024 * 1024  # of messages, to learn when they were written
_MOST_GROUPS: Final = 10_000
_MOST_DESCRIBED: Final = 500  # groups, in one look
_MOST_REFUSED: Final = 50  # in one look
_ASK_REFUSED_EVERY: Final = 60  # looks
# Whoever may describe all groups may describe this one, which nobody has.
_ANY: Final = "penstock-audit-looks"

log = logging.getLogger(__name__)


class GroupsLook(ClusterLook):
    """Asks for the groups and their lag."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        *,
        every_seconds: float,
        found: Callable[[str, GroupsSeen], None],
    ) -> None:
        """`found` is called on this thread, with what was seen."""
        super().__init__(name, cluster, about="groups", every_seconds=every_seconds)
        self._found = found
        self._seen = GroupsSeen()
        self._refused: dict[str, str] = {}
        self._looks = 0
        self._may_see = True

    def _note_failure(self, error: ClientError | None) -> None:
        words = (
            "looking at its groups failed inside of the audit; its log says how"
            if error is None
            else f"its groups cannot be asked for: {error}"
        )
        self._note(self._not_known(words))

    def _look_on(self, brokers: Brokers) -> None:
        while not self._stopping.is_set():
            self._note(self._look(brokers))
            self._wait(self._every)

    def _note(self, found: GroupsSeen) -> None:
        for words in set(found.troubles) - set(self._seen.troubles):
            log.warning("groups not seen cluster=%s why=%r", self._name, words)
        self._seen = found
        self._found(self._name, found)

    def _not_known(self, why: str) -> GroupsSeen:
        """What was known is too old to be shown. The groups are those to be asked about still."""
        return GroupsSeen(self._seen.looked, self._seen.groups, troubles=(why,))

    def _look(self, brokers: Brokers) -> GroupsSeen:
        self._looks += 1
        if self._looks % _ASK_REFUSED_EVERY == 0:
            self._refused.clear()
        troubles: list[str] = []
        groups = self._listed(brokers, troubles)
        committed = self._committed(brokers, groups.values(), troubles)
        troubles += _in_words(self._refused)
        if not groups and (right := self._lacking(brokers)):
            troubles.append(right)
        now = time.time()
        lags = lag(
            brokers,
            committed,
            now,
            before=self._seen.lags,
            most_bytes=_MOST_BYTES,
            within=ANSWER_S,
        )
        members = _members(brokers, [groups[name] for name in committed if name in groups])
        return seen(int(now * 1000), groups, lags, troubles, members)

    def _listed(self, brokers: Brokers, troubles: list[str]) -> dict[str, ListedGroup]:
        """Of all brokers. Of one that does not answer, those that it coordinated before."""
        found: dict[str, ListedGroup] = {}
        too_old = 0
        known = sorted(brokers.persist(lambda: brokers.refresh([])).brokers)
        for broker in known:
            try:
                connection = brokers.broker(broker)
                answer = connection.call(list_groups.API, ListGroupsRequest(), within=ANSWER_S)
                check(answer.error_code, f"groups of broker {broker}")
            except Unsupported:
                too_old += 1
                continue
            except ClientError as error:
                words = f"Groups that broker {broker} coordinates are not all known: {error}"
                troubles.append(words)
                before = self._seen.groups.values()
                found |= {each.name: each for each in before if each.coordinator == broker}
                continue
            for each in answer.groups:
                found[each.group_id] = ListedGroup(
                    each.group_id, each.protocol_type, each.group_state, broker
                )
        if too_old:
            which = "Its brokers serve" if too_old == len(known) else f"{too_old} brokers serve"
            troubles.append(f"{which} no consumer groups: they are too old")
        if len(found) > _MOST_GROUPS:
            troubles.append(f"Of {len(found):,} groups only {_MOST_GROUPS:,} are looked at")
        return {name: found[name] for name in sorted(found)[:_MOST_GROUPS]}

    def _committed(
        self, brokers: Brokers, groups: Iterable[ListedGroup], troubles: list[str]
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """By coordinator: one that does not answer is no reason not to ask the others."""
        by_coordinator: dict[int, list[str]] = {}
        for each in groups:
            if each.name not in self._refused:
                by_coordinator.setdefault(each.coordinator, []).append(each.name)
        found: dict[str, dict[TopicPartition, Committed]] = {}
        refused_before = len(self._refused)
        for names in by_coordinator.values():
            waiting: list[Sequence[str]] = [names]
            while waiting and len(self._refused) - refused_before < _MOST_REFUSED:
                asked = waiting.pop()
                try:
                    found |= committed_offsets(brokers, asked)
                except NotAllowed as error:
                    half = len(asked) // 2
                    if half:
                        waiting += [asked[half:], asked[:half]]
                    else:
                        self._refused[asked[0]] = str(error)
                except ClientError as error:
                    several = f"{len(asked):,} groups" if len(asked) > 1 else "a group"
                    troubles.append(f"The offsets of {several} are not known: {error}")
            if waiting:
                left = sum(map(len, waiting))
                troubles.append(f"{left:,} groups are asked for later, as many were refused")
        return found

    def _lacking(self, brokers: Brokers) -> str:
        """The right without which groups are not even listed. Each refusal is in a broker's log, so
        that is not asked for with each look."""
        if self._looks % _ASK_REFUSED_EVERY == 1:
            self._may_see = True
            try:
                committed_offsets(brokers, [_ANY])
            except NotAllowed:
                self._may_see = False
            except ClientError:
                pass  # what is wrong there has been said, if it concerns a group that there is
        if self._may_see:
            return ""
        return (
            f"No group is seen: {brokers.who} sees those that it may DESCRIBE, and may not "
            "DESCRIBE every group"
        )


def _members(brokers: Brokers, groups: Iterable[ListedGroup]) -> dict[str, GroupOfMembers]:
    """Of those that have members. Their coordinators have just answered: one that does not now is
    asked with the next look."""
    names = [each.name for each in groups if each.state not in {"", EMPTY, DEAD}]
    try:
        return describe_groups(brokers, names[:_MOST_DESCRIBED])
    except ClientError:
        return {}


def _in_words(refused: dict[str, str]) -> list[str]:
    if not refused:
        return []
    first = next(iter(refused.values()))
    more = f", and so with {len(refused) - 1:,} more" if len(refused) > 1 else ""
    return [f"A group is listed and not shown: {first}{more}"]
