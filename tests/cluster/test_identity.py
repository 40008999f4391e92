"""The cluster's id, and producer ids that are never given twice."""

import base64
import threading
import uuid

from cluster import paths
from cluster.identity import claim_cluster_id, cluster_id, find_cluster_id, new_cluster_id
from cluster.operations import Delete
from cluster.producer_ids import COUNTING_BITS, allocate
from cluster.session import Session
from tests.cluster.conftest import Connect
from tests.cluster.proxy import Proxy


def test_an_id_is_a_uuid_in_22_characters() -> None:
    text = new_cluster_id(lambda: uuid.UUID(int=1))
    assert text == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert len(base64.urlsafe_b64decode(new_cluster_id() + "==")) == 16


def test_no_id_looks_like_an_option() -> None:
    drawn = iter([uuid.UUID(int=0xF8 << 120), uuid.UUID(int=2)])
    assert new_cluster_id(lambda: next(drawn)) == "AAAAAAAAAAAAAAAAAAAAAg"


def test_the_id_is_created_once(session: Session, connect: Connect) -> None:
    assert find_cluster_id(session) is None
    sessions = [connect() for _ in range(5)]
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda own=own: found.append(cluster_id(own))) for own in sessions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert set(found) == {find_cluster_id(session)}


def test_a_claimed_id_holds_unless_there_is_one(session: Session) -> None:
    claim_cluster_id(session, "first")
    claim_cluster_id(session, "second")
    assert cluster_id(session) == "first"


def test_blocks_of_producer_ids_never_overlap(session: Session, connect: Connect) -> None:
    sessions = [session, connect(), connect()]
    blocks: list[range] = []

    def take(own: Session) -> None:
        blocks.extend(allocate(own, 10) for _ in range(10))

    threads = [threading.Thread(target=take, args=(own,)) for own in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [number for block in blocks for number in block]
    assert len(ids) == len(set(ids)) == 300
    assert {number >> COUNTING_BITS for number in ids} == {ids[0] >> COUNTING_BITS}


def test_a_lost_answer_loses_a_block_and_gives_none_twice(
    session: Session, proxied: Session, proxy: Proxy
) -> None:
    first = allocate(session)
    proxied.read(paths.PRODUCER_IDS)
    proxy.swallow_the_next_answer()
    second = allocate(proxied)
    third = allocate(session)
    assert len({*first, *second, *third}) == 3000


def test_two_clusters_draw_different_high_bits(connect: Connect, chroot: str) -> None:
    highs = {allocate(connect(f"{chroot}/{name}"))[0] >> COUNTING_BITS for name in "abcd"}
    assert len(highs) == 4


def test_ids_are_positive_int64_whatever_is_drawn(session: Session) -> None:
    for drawn in (0, (1 << 22) - 1):
        block = allocate(session, random_bits=lambda _, drawn=drawn: drawn)
        assert 0 < block[0] <= block[-1] < 1 << 63
        session.write([Delete(paths.PRODUCER_IDS)])


def test_a_counter_that_is_used_up_draws_again(session: Session) -> None:
    allocate(session, (1 << COUNTING_BITS) - 5, random_bits=lambda _: 1)
    assert allocate(session, 10, random_bits=lambda _: 7)[0] >> COUNTING_BITS == 8
