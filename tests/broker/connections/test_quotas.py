"""Quotas: which one counts for a client, and what using more of it comes to."""

import pytest

from broker.connections.quotas import UNLIMITED, Mutations, Quota, Quotas, find
from broker.errors import ApiError, ErrorCode
from cluster.records.quotas import (
    ADDRESS,
    CLIENT,
    USER,
    Entity,
    QuotaSnapshot,
    entity_of,
    node_name,
)
from ground.meter import Meter

ALL: dict[Entity, float] = {
    ((CLIENT, "c"), (USER, "u")): 1.0,
    ((CLIENT, None), (USER, "u")): 2.0,
    ((USER, "u"),): 3.0,
    ((CLIENT, "c"), (USER, None)): 4.0,
    ((CLIENT, None), (USER, None)): 5.0,
    ((USER, None),): 6.0,
    ((CLIENT, "c"),): 7.0,
    ((CLIENT, None),): 8.0,
}


def of(rates: dict[Entity, float], quota: Quota = Quota.PRODUCE) -> QuotaSnapshot:
    return {entity: {quota: rate} for entity, rate in rates.items()}


def test_the_most_particular_quota_counts() -> None:
    left = dict(ALL)
    while left:
        found = find(of(left), Quota.PRODUCE, "u", "c")
        assert found is not None
        assert found[1] == min(left.values())
        del left[next(entity for entity, rate in left.items() if rate == found[1])]
    assert find({}, Quota.PRODUCE, "u", "c") is None


def test_others_have_the_defaults_each_for_himself() -> None:
    quotas = Quotas(5.0)
    quotas.follow(of({((USER, None),): 100.0}), 0.0)
    alice, bob = quotas.share_of("alice", "a", 0.0), quotas.share_of("bob", "a", 0.0)
    assert alice.produce is not bob.produce
    assert alice.produce is quotas.share_of("alice", "another", 0.0).produce
    assert alice.fetch is None


def test_who_may_do_nothing_has_a_small_share_of_all_requests() -> None:
    quotas = Quotas(5.0)
    share, other = (quotas.share_of("bob", each, 0.0, may_nothing=True) for each in "xy")
    assert share.request is not None
    assert share.request.rate == 5.0
    assert share.request is other.request
    assert quotas.share_of("bob", "x", 0.0).request is None


def test_what_is_used_beyond_a_second_is_waited_for() -> None:
    meter = Meter(100.0, now=0.0)
    assert meter.use(100, 0.0) == 0
    assert meter.use(50, 0.0) == pytest.approx(0.5)
    assert meter.use(0, 0.5) == pytest.approx(0)
    assert meter.use(1_000_000, 1.0) == 10.0
    assert not meter.is_idle(2.0)
    assert meter.is_idle(20_000.0)


def test_over_a_long_time_nobody_has_more_than_the_rate() -> None:
    meter, now, used = Meter(1000.0, now=0.0), 0.0, 0
    while now < 100:
        used += 700
        now += meter.use(700, now) or 0.01
    assert used == pytest.approx(100 * 1000, rel=0.05)


def test_what_was_used_is_remembered_when_other_quotas_change() -> None:
    quotas = Quotas(5.0)
    one: Entity = ((CLIENT, "c"),)
    quotas.follow(of({one: 100.0}), 0.0)
    share = quotas.share_of("u", "c", 0.0)
    assert share.produce is not None
    share.produce.use(1_000, 0.0)
    before = quotas.generation
    quotas.follow(of({one: 100.0, ((CLIENT, "other"),): 1.0}), 0.0)
    assert quotas.generation != before
    again = quotas.share_of("u", "c", 0.0).produce
    assert again is share.produce
    quotas.follow(of({one: 200.0}), 0.0)
    fresh = quotas.share_of("u", "c", 0.0).produce
    assert fresh is not None
    assert fresh.use(1, 0.0) == 0
    quotas.follow({}, 0.0)
    assert not quotas.active
    assert quotas.share_of("u", "c", 0.0).produce is None


def test_connections_of_an_address() -> None:
    quotas = Quotas(5.0)
    quotas.follow(of({((ADDRESS, None),): 2.0, ((ADDRESS, "a"),): 5.0}, Quota.CONNECTIONS), 0.0)
    assert [bool(quotas.connection_from("a", 0.0)) for _ in range(7)] == [False] * 5 + [True] * 2
    assert [bool(quotas.connection_from("b", 0.0)) for _ in range(3)] == [False] * 2 + [True]
    assert not quotas.connection_from("c", 0.0)


def test_partitions_that_are_created_and_deleted() -> None:
    now = 0.0
    quotas = Quotas(5.0)
    quotas.follow(of({((USER, "u"),): 2.0}, Quota.MUTATIONS), now)
    meter = quotas.share_of("u", "c", now).mutations
    assert meter is not None
    strict = Mutations(meter, lambda: now, strict=True)
    strict.use(22)  # eleven seconds' worth
    strict.use(6)  # as in Kafka, what begins while there is any left is done
    with pytest.raises(ApiError) as refused:
        strict.use(1)
    assert refused.value.code is ErrorCode.throttling_quota_exceeded
    assert strict.wait_s == pytest.approx(3.0)
    patient = Mutations(meter, lambda: now, strict=False)
    patient.use(2)
    assert patient.wait_s == pytest.approx(4.0)
    now = 4.0
    Mutations(meter, lambda: now, strict=True).use(1)


def test_without_such_a_quota_there_is_no_bound() -> None:
    quotas = Quotas(5.0)
    quotas.follow(of({((USER, "u"),): 2.0}), 0.0)
    assert quotas.share_of("u", "c", 0.0).mutations is None
    UNLIMITED.use(1_000_000)
    assert UNLIMITED.wait_s == 0


@pytest.mark.not_quick("names very many clients")
def test_names_that_clients_choose_are_not_kept_for_ever() -> None:
    quotas = Quotas(5.0)
    quotas.follow(of({((CLIENT, None),): 100.0}), 0.0)
    for number in range(30_000):
        meter = quotas.share_of("u", f"client-{number}", number / 1000).produce
        assert meter is not None
        meter.use(10, number / 1000)
    assert len(quotas._meters) <= 20_000
    assert len(quotas._shares) <= 20_000


@pytest.mark.parametrize(
    "entity",
    [((CLIENT, "a,b=c/d"), (USER, "ü~ .")), ((USER, None),), ((ADDRESS, "::1"),), ((USER, ".."),)],
)
def test_an_entity_is_found_again_by_its_node(entity: Entity) -> None:
    name = node_name(entity)
    assert "/" not in name
    assert name not in {".", ".."}
    assert entity_of(name) == entity
    assert entity_of("nonsense") is None
