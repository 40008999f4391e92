"""Plans the placement of replicas when a broker is removed or added. Pure.

Rule 1: a partition keeps its number of replicas, on live brokers, and on no fewer racks. If that
        is impossible, the plan fails; only a drain gives up a rack, if
        its broker is the only one there.
Rule 2: no replica moves unnecessarily. A drain moves each replica of its broker once; a filled
        broker gets its share of all replicas from the brokers with the most, and no more.
Rule 3: within that, brokers get equal numbers of replicas and of leaders, and the replicas of a
        topic are spread.

Numbers of replicas count, not bytes. A broker without a rack is a rack of its own.

The time of a plan is about linear in the number of replicas, of which a cluster may have tens of
thousands.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from heapq import heappop, heappush, heapreplace
from math import ceil

import msgspec

Key = tuple[str, int]
"""A partition."""
Replicas = tuple[int, ...]
"""The first one is the preferred leader."""
Placement = Mapping[Key, Replicas]
Racks = Mapping[int, str | None]
"""The racks of live brokers."""


class NoPlace(Exception):
    """No broker can take a replica."""


def drained(before: Placement, racks: Racks, broker: int) -> dict[Key, Replicas]:
    """Returns the changes that leave this broker without replicas. Raises `NoPlace`."""
    other_racks = {candidate: rack for candidate, rack in racks.items() if candidate != broker}
    moves = {key: replicas for key, replicas in before.items() if broker in replicas}
    places: dict[frozenset[int], Places] = {}
    candidates = {}
    for key, replicas in moves.items():
        remaining_brokers = frozenset(replicas) - {broker}
        if remaining_brokers not in places:
            places[remaining_brokers] = _widest(remaining_brokers, other_racks)
        candidates[key] = places[remaining_brokers]
    stuck_keys = sorted(key for key, brokers in candidates.items() if not brokers)
    if stuck_keys:
        topic, index = stuck_keys[0]
        raise NoPlace(
            f"no broker can take {len(stuck_keys)} partitions ({topic}-{index} is on "
            f"{','.join(map(str, before[stuck_keys[0]]))}): there are {len(other_racks)} other "
            "brokers, and a broker can hold only one replica"
        )
    loads = Counter(dict.fromkeys(other_racks, 0))
    loads.update(
        replica for replicas in before.values() for replica in replicas if replica in other_racks
    )
    receivers = _evenly(candidates, loads)
    leads = Counter(dict.fromkeys(other_racks, 0))
    leads.update(replicas[0] for replicas in before.values() if replicas[0] in other_racks)
    changes = {}
    for key, replicas in sorted(moves.items()):
        target = tuple(receivers[key] if replica == broker else replica for replica in replicas)
        if replicas[0] == broker:
            leader = min(
                (candidate for candidate in target if candidate in other_racks),
                key=lambda candidate: leads[candidate],
            )
            leads[leader] += 1
            target = (leader, *(replica for replica in target if replica != leader))
        changes[key] = target
    return changes


def filled(before: Placement, racks: Racks, new: Set[int]) -> dict[Key, Replicas]:
    """Returns the changes that give these new brokers their share of replicas."""
    planner = _Filling(before, racks, new)
    while planner.step():
        pass
    return {key: replicas for key, replicas in planner.placed.items() if replicas != before[key]}


def spread(replicas: Sequence[int], racks: Racks) -> int:
    """Counts the racks that the replicas are on."""
    return len({racks.get(replica) or replica for replica in replicas})


# A drain


Places = tuple[int, ...]
"""The brokers that a replica can move to."""


def _widest(stay: Set[int], racks: Racks) -> Places:
    """The brokers for one more replica that keep the number of racks highest."""
    free_brokers = [rack for rack in sorted(racks) if rack not in stay]
    used_racks = {racks.get(broker) or broker for broker in stay}
    elsewhere = [broker for broker in free_brokers if (racks[broker] or broker) not in used_racks]
    return tuple(elsewhere or free_brokers)


def _evenly(allowed: Mapping[Key, Places], loads: Counter[int]) -> dict[Key, int]:
    """Assign a broker to each partition, so that `loads`, which are updated, become even.

    Each partition goes to its least loaded candidate, those with the fewest candidates first. Then
    chains of exchanges are made as long as one leads to a broker with two replicas less.
    """
    receivers: dict[Key, int] = {}
    topic_counts: Counter[tuple[str, int]] = Counter()
    for key in sorted(allowed, key=lambda key: (len(allowed[key]), key)):
        receiver = min(
            allowed[key],
            key=lambda candidate: (loads[candidate], topic_counts[key[0], candidate], candidate),
        )
        receivers[key] = receiver
        loads[receiver] += 1
        topic_counts[key[0], receiver] += 1
    keys_by_broker: _Having = {}
    for key, receiver in receivers.items():
        keys_by_broker.setdefault(receiver, {}).setdefault(allowed[key], {})[key] = None
    while chain := _chain(keys_by_broker, loads):
        for key, receiver in chain:
            loads[receivers[key]] -= 1
            loads[receiver] += 1
            del keys_by_broker[receivers[key]][allowed[key]][key]
            keys_by_broker.setdefault(receiver, {}).setdefault(allowed[key], {})[key] = None
            receivers[key] = receiver
    return receivers


_Having = dict[int, dict[Places, dict[Key, None]]]
"""The partitions assigned to each broker, grouped by their candidates, which are few."""


def _chain(has: _Having, loads: Mapping[int, int]) -> list[tuple[Key, int]]:
    """A chain of exchanges that evens out the loads; empty if there is none."""
    minimum = min(loads.values(), default=0)
    for source in sorted(has, key=lambda candidate: (-loads[candidate], candidate)):
        if loads[source] < minimum + 2:
            break
        steps: dict[int, tuple[Key, int]] = {}
        queue = [source]
        for giver in queue:
            for candidates, keys in has.get(giver, {}).items():
                for receiver in candidates if keys else ():
                    if receiver == source or receiver in steps:
                        continue
                    steps[receiver] = next(iter(keys)), giver
                    if loads[receiver] <= loads[source] - 2:
                        return list(_back(steps, receiver, source))
                    queue.append(receiver)
    return []


def _back(
    steps: Mapping[int, tuple[Key, int]], receiver: int, source: int
) -> Iterator[tuple[Key, int]]:
    while receiver != source:
        key, giver = steps[receiver]
        yield key, receiver
        receiver = giver


# New brokers


class _Has(msgspec.Struct):
    """A broker's partitions, and the number that it leads."""

    keys: set[Key]
    leads: int


class _Offers:
    """The partitions of equal worth that one broker could give to another, best first.

    Topics are in a heap: the best has the largest difference between the giver's number of
    partitions and the receiver's. Within a topic, the lowest partition is the best. Differences
    only fall, as givers only give, so they are corrected when a topic comes up. Partitions that
    were moved meanwhile are removed then, too.
    """

    __slots__ = ("_indexes", "_topics")

    def __init__(self) -> None:
        self._topics: list[tuple[int, str]] = []
        self._indexes: dict[str, list[int]] = {}

    def put(self, key: Key, apart: int) -> None:
        topic, index = key
        if topic not in self._indexes:
            self._indexes[topic] = []
            heappush(self._topics, (-apart, topic))
        heappush(self._indexes[topic], index)

    def best(self, apart: Callable[[str], int], is_there: Callable[[Key], bool]) -> Key | None:
        """Returns the best partition; None if none is left. `is_there` tells whether a partition
        can still be given, with the same worth."""
        while self._topics:
            known_worth, topic = self._topics[0]
            indexes = self._indexes[topic]
            while indexes and not is_there((topic, indexes[0])):
                heappop(indexes)
            if not indexes:
                heappop(self._topics)
                del self._indexes[topic]
            elif (worth := -apart(topic)) != known_worth:
                heapreplace(self._topics, (worth, topic))
            else:
                return topic, indexes[0]
        return None


_Worth = tuple[int, bool]
"""A partition's worth for a pair of brokers: the racks that it gains, and whether the giver is the
preferred leader. A partition that would lose racks is not given."""


class _Filling:
    """Moves replicas to new brokers, one by one."""

    def __init__(self, before: Placement, racks: Racks, new: Set[int]) -> None:
        self.placed = dict(before)
        self._racks = racks
        self._brokers = {rack: _Has(set(), 0) for rack in racks}
        self._of_topic: Counter[tuple[str, int]] = Counter()
        for key, replicas in before.items():
            for replica in replicas:
                if replica in self._brokers:
                    self._brokers[replica].keys.add(key)
                    self._of_topic[key[0], replica] += 1
            if replicas and replicas[0] in self._brokers:
                self._brokers[replicas[0]].leads += 1
        total = sum(len(broker.keys) for broker in self._brokers.values())
        self._share = ceil(total / len(racks)) if racks else 0
        self._open = set(new) & racks.keys()  # brokers that may get more
        self._old = racks.keys() - new
        self._offers: dict[tuple[int, int], dict[_Worth, _Offers]] = {}

    def step(self) -> bool:
        """Moves one replica; False if no move is left."""
        while self._open:
            receiver = min(self._open, key=lambda broker: (len(self._brokers[broker].keys), broker))
            size = len(self._brokers[receiver].keys)
            if size < self._share:
                givers = sorted(
                    self._old, key=lambda broker: (-len(self._brokers[broker].keys), broker)
                )
                for giver in givers:
                    if len(self._brokers[giver].keys) < size + 2:
                        break
                    key = self._best(giver, receiver)
                    if key is not None:
                        self._move(key, giver, receiver)
                        return True
            self._open.discard(receiver)
        return False

    def _best(self, giver: int, to: int) -> Key | None:
        """The giver's best partition for this broker."""
        if (giver, to) not in self._offers:
            self._offers[giver, to] = {}
            for key in self._brokers[giver].keys:
                self._offer(giver, to, key)
        lead = self._brokers[giver].leads >= self._brokers[to].leads + 2
        offers = self._offers[giver, to]
        for worth in sorted(offers, key=lambda offer: (offer[0], offer[1] == lead), reverse=True):
            partition = offers[worth].best(
                partial(self._apart, giver, to), partial(self._is_worth, giver, to, worth)
            )
            if partition is not None:
                return partition
        return None

    def _is_worth(self, giver: int, to: int, worth: _Worth, key: Key) -> bool:
        return self._worth(giver, to, key) == worth

    def _worth(self, giver: int, to: int, key: Key) -> _Worth | None:
        """The worth of a partition for a pair of brokers; None if it cannot be given."""
        replicas = self.placed[key]
        if giver not in replicas or to in replicas:
            return None
        target = [to if replica == giver else replica for replica in replicas]
        rack_gain = spread(target, self._racks) - spread(replicas, self._racks)
        return None if rack_gain < 0 else (rack_gain, replicas[0] == giver)

    def _apart(self, giver: int, to: int, topic: str) -> int:
        return self._of_topic[topic, giver] - self._of_topic[topic, to]

    def _offer(self, giver: int, to: int, key: Key) -> None:
        worth = self._worth(giver, to, key)
        if worth is not None:
            offers = self._offers[giver, to].setdefault(worth, _Offers())
            offers.put(key, self._apart(giver, to, key[0]))

    def _move(self, key: Key, giver: int, to: int) -> None:
        replicas = self.placed[key]
        self.placed[key] = tuple(to if replica == giver else replica for replica in replicas)
        self._brokers[giver].keys.discard(key)
        self._brokers[to].keys.add(key)
        if replicas[0] == giver:
            self._brokers[giver].leads -= 1
            self._brokers[to].leads += 1
        self._of_topic[key[0], giver] -= 1
        self._of_topic[key[0], to] += 1
        for replica in replicas:  # the best partitions of the others may have changed
            for other in self._open:
                if (replica, other) in self._offers:
                    self._offer(replica, other, key)
