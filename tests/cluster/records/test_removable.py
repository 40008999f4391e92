"""Nodes that come and go: nobody changes one that he has not read."""

import pytest

from cluster.errors import Conflict
from cluster.layout import paths
from cluster.records import removable
from cluster.session.session import Session

PATH = f"{paths.QUOTAS}/user"


def is_not_done() -> bool:
    """No answer is lost here."""
    return False


def content(session: Session) -> bytes | None:
    return removable.read(session, PATH).data


def put(session: Session, data: bytes) -> None:
    removable.read(session, PATH).replace(session, data, is_not_done)


def remove(session: Session) -> None:
    removable.read(session, PATH).remove(session, is_not_done)


def test_it_comes_changes_and_goes(session: Session) -> None:
    for data in (b"one", b"two"):
        put(session, data)
        assert content(session) == data
    remove(session)
    assert content(session) is None


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_one_that_was_changed_or_made_anew_meanwhile_stays(
    session: Session, *, is_made_anew: bool
) -> None:
    put(session, b"one")
    before = removable.read(session, PATH)
    if is_made_anew:
        remove(session)
    put(session, b"two")
    assert (removable.read(session, PATH).version == before.version) is is_made_anew
    with pytest.raises(Conflict):
        before.replace(session, b"three", is_not_done)
    with pytest.raises(Conflict):
        before.remove(session, is_not_done)
    assert content(session) == b"two"


def test_one_that_came_meanwhile_stays(session: Session) -> None:
    before = removable.read(session, PATH)
    put(session, b"one")
    with pytest.raises(Conflict):
        before.replace(session, b"two", is_not_done)
    assert content(session) == b"one"
