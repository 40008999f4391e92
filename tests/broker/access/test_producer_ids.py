"""Whose a producer id is."""

from broker.access.producer_ids import ProducerIds
from broker.connections.caller import ANONYMOUS

KEY = bytes(range(32))


def test_every_broker_of_the_cluster_knows_whose_an_id_is() -> None:
    here, there = (ProducerIds(KEY, guards_anonymous=True) for _ in range(2))
    elsewhere = ProducerIds(KEY[::-1], guards_anonymous=True)
    given = {here.new("alice") for _ in range(100)}
    assert len(given) == 100
    assert all(0 <= each < 1 << 63 for each in given)
    assert all(there.belongs(each, "alice") for each in given)
    for ids, principal in ((there, "bob"), (there, ANONYMOUS), (elsewhere, "alice")):
        assert not any(ids.belongs(each, principal) for each in given)
    assert not here.belongs(7, "alice")


def test_ids_of_earlier_brokers_have_no_owner() -> None:
    ids = ProducerIds(KEY, guards_anonymous=True, earlier=5)
    assert ids.belongs(5 << 40 | 7, "alice")
    assert ids.belongs(5 << 40 | 7, "bob")
    assert not ids.belongs(6 << 40 | 7, "alice")
    assert not ProducerIds(KEY, guards_anonymous=True).belongs(5 << 40 | 7, "alice")


def test_without_logins_and_rules_any_id_may_be_used() -> None:
    ids = ProducerIds(KEY, guards_anonymous=False)
    assert ids.belongs(7, ANONYMOUS)
    assert not ids.belongs(7, "alice")
