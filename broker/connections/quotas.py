"""Kafka's client quotas: the limits of clients, and their usage.

A quota is set for an entity: a user, a client id, or both, by name or for all others. Of those that
match a client, the first in this order applies:

    user and client id · user, any client id · user · any user and client id ·
    any user, any client id · user · client id · any client id

A user's quota is shared by all its connections, a client id's by all clients with that id; a
default is the same number for each, not one for all. Use beyond one second's worth is throttled:
the response says for how long, and until then nothing more is read from that connection.

A client without any rights by the ACLs, and without a quota of its own, gets a small share of the
request time (`limits.percent_without_rights`).

Created and deleted partitions are counted by the broker that does it, the controller, with a burst
of eleven seconds' worth, as in Apache Kafka's defaults (KIP-599).
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from broker.errors import ApiError, ErrorCode
from cluster.records.quotas import ADDRESS, CLIENT, NONE, USER, Entity, QuotaSnapshot
from ground.meter import Meter

_BURST_OF_MUTATIONS_S: Final = 11.0
_MOST_KNOWN: Final = 20_000
_WITHOUT_RIGHTS: Final = "user without rights"  # no entity of Kafka's


class Quota(StrEnum):
    """The limited quantities, by Kafka's names."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONNECTIONS = "connection_creation_rate"
    MUTATIONS = "controller_mutation_rate"


OF_ADDRESSES: Final = frozenset({Quota.CONNECTIONS})


class Share:
    """One client's meter for each kind of quota; None: unlimited."""

    __slots__ = ("fetch", "mutations", "produce", "request")

    def __init__(self, meters: Mapping[Quota, Meter]) -> None:
        self.produce = meters.get(Quota.PRODUCE)
        self.fetch = meters.get(Quota.FETCH)
        self.request = meters.get(Quota.REQUEST)
        self.mutations = meters.get(Quota.MUTATIONS)


class Mutations:
    """Counts the partitions that one request creates or deletes against its client's share.

    A `strict` one is rejected after overuse; otherwise the request is done, and throttled
    afterwards. In both cases `wait_s` is then the throttle time.
    """

    __slots__ = ("_meter", "_now", "_strict", "wait_s")

    def __init__(self, meter: Meter | None, now: Callable[[], float], *, strict: bool) -> None:
        self._meter = meter
        self._now = now
        self._strict = strict
        self.wait_s = 0.0

    def use(self, partitions: int) -> None:
        """Counts partitions that the request creates or deletes. Raises ApiError."""
        if self._meter is None:
            return
        now = self._now()
        if self._strict and (wait_seconds := self._meter.use(0, now)) > 0:
            self.wait_s = max(self.wait_s, wait_seconds)
            raise ApiError(
                ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded."
            )
        wait_seconds = self._meter.use(partitions, now)
        if not self._strict:
            self.wait_s = max(self.wait_s, wait_seconds)


UNLIMITED: Final = Mutations(None, lambda: 0.0, strict=False)


class Quotas:
    """The quotas and the usage of all clients. Belongs to the event loop."""

    def __init__(self, percent_without_rights: float) -> None:
        self._percent_without_rights = percent_without_rights
        self.active = False
        """Whether there is any quota."""
        self.generation = 0
        """Changes whenever shares may have changed."""
        self._snapshot = NONE
        self._meters: dict[tuple[Quota, Entity], Meter] = {}
        self._shares: dict[tuple[str, str | None, bool], Share] = {}

    def follow(self, snapshot: QuotaSnapshot, now: float) -> None:
        """Applies new quotas. Usage under an unchanged quota still counts."""
        self._snapshot = snapshot
        self.active = bool(snapshot)
        self.generation += 1
        self._shares.clear()
        for (quota, entity), meter in tuple(self._meters.items()):
            rate = self._rate(quota, entity)
            if rate is None:
                del self._meters[quota, entity]
            elif rate != meter.rate:
                self._meters[quota, entity] = _new_meter(quota, rate, now)

    def share_of(
        self, user: str, client: str | None, now: float, *, may_nothing: bool = False
    ) -> Share:
        """Returns the client's share: the same object until `generation` changes."""
        key = user, client, may_nothing
        share = self._shares.get(key)
        if share is None:
            if len(self._shares) >= _MOST_KNOWN:
                self._forget_idle(now)
            meters = {
                quota: self._meter(quota, entity, rate, now)
                for quota in Quota
                if quota not in OF_ADDRESSES
                if (match := find(self._snapshot, quota, user, client)) is not None
                for entity, rate in [match]
            }
            if may_nothing and Quota.REQUEST not in meters:
                rate = self._percent_without_rights
                meters[Quota.REQUEST] = self._meter(
                    Quota.REQUEST, ((_WITHOUT_RIGHTS, user),), rate, now
                )
            share = self._shares[key] = Share(meters)
        return share

    def connection_from(self, address: str, now: float) -> float:
        """Counts a connection from this address; returns the seconds until the quota allows it."""
        for entity in (((ADDRESS, address),), ((ADDRESS, None),)):
            rate = self._snapshot.get(entity, {}).get(Quota.CONNECTIONS)
            if rate is not None:
                return self._meter(Quota.CONNECTIONS, ((ADDRESS, address),), rate, now).use(1, now)
        return 0.0

    def _meter(self, quota: Quota, whose: Entity, rate: float, now: float) -> Meter:
        meter = self._meters.get((quota, whose))
        if meter is None:
            if len(self._meters) >= _MOST_KNOWN:
                self._forget_idle(now)
            meter = self._meters[quota, whose] = _new_meter(quota, rate, now)
        return meter

    def _rate(self, quota: Quota, whose: Entity) -> float | None:
        names_by_kind = dict(whose)
        if ADDRESS in names_by_kind:
            for entity in (whose, ((ADDRESS, None),)):
                if (rate := self._snapshot.get(entity, {}).get(quota)) is not None:
                    return rate
            return None
        match = find(
            self._snapshot, quota, names_by_kind.get(USER) or "", names_by_kind.get(CLIENT)
        )
        return match[1] if match is not None and match[0] == whose else None

    def _forget_idle(self, now: float) -> None:
        """Names are chosen by clients, so their number is not bounded otherwise."""
        self._shares.clear()
        self.generation += 1
        for key, meter in tuple(self._meters.items()):
            if meter.is_idle(now):
                del self._meters[key]


def _new_meter(quota: Quota, rate: float, now: float) -> Meter:
    if quota is Quota.MUTATIONS:
        return Meter(rate, now, _BURST_OF_MUTATIONS_S)
    return Meter(rate, now)


def find(
    snapshot: QuotaSnapshot, quota: Quota, user: str, client: str | None
) -> tuple[Entity, float] | None:
    """Returns the key under which the client's usage is counted, and its limit per second; None if
    no quota applies."""
    name = client or ""
    user_and_client: Entity = ((CLIENT, name), (USER, user))
    one_user: Entity = ((USER, user),)
    one_client: Entity = ((CLIENT, name),)
    order: tuple[tuple[Entity, Entity], ...] = (
        (user_and_client, user_and_client),
        (((CLIENT, None), (USER, user)), user_and_client),
        (one_user, one_user),
        (((CLIENT, name), (USER, None)), user_and_client),
        (((CLIENT, None), (USER, None)), user_and_client),
        (((USER, None),), one_user),
        (one_client, one_client),
        (((CLIENT, None),), one_client),
    )
    for entity, counting_key in order:
        rate = snapshot.get(entity, {}).get(quota)
        if rate is not None:
            return counting_key, rate
    return None
