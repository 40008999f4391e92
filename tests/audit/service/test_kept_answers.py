"""Parts of answers are made once while nothing changes, and gone when something has."""

import weakref

from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AuditConfig
from audit.service.service import Service


class Made:
    pass


def service() -> Service:
    return Service(AuditConfig(data_dir="unused"), AuditState({"local": ClusterState()}))


def test_what_was_made_is_answered_again_until_something_changes() -> None:
    asked = service()
    first = asked.kept("a", Made)
    assert asked.kept("a", Made) is first
    assert asked.kept("b", Made) is not first
    asked.standing.changed()
    assert asked.kept("a", Made) is not first


def test_what_was_made_before_a_change_takes_no_memory_after_it() -> None:
    asked = service()
    old = [weakref.ref(asked.kept(("verdict", each), Made)) for each in range(100)]
    assert all(each() is not None for each in old)
    asked.standing.changed()
    asked.kept(("verdict", 100), Made)
    assert all(each() is None for each in old)


def test_what_took_so_long_that_something_changed_meanwhile_is_not_kept() -> None:
    asked = service()

    def slow() -> Made:
        asked.standing.changed()
        asked.kept("b", Made)
        return Made()

    first = asked.kept("a", slow)
    newer = asked.kept("b", Made)
    assert asked.kept("a", Made) is not first
    assert asked.kept("b", Made) is newer


def test_only_so_much_is_kept() -> None:
    asked = service()
    first = weakref.ref(asked.kept(0, Made))
    for each in range(1, 1000):
        asked.kept(each, Made)
    assert first() is None
