"""The cluster's id."""

import base64
import threading
import uuid

from cluster.records.identity import claim_cluster_id, cluster_id, find_cluster_id, new_cluster_id
from cluster.session.session import Session
from tests.cluster.conftest import Connect


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
