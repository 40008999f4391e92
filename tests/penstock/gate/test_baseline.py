"""Which finding is one that there was before."""

from typing import Any

import pytest

from audit.findings import FaultKind, Finding
from penstock.gate.baseline import KnownFinding

MISSING: dict[str, Any] = {
    "kind": FaultKind.MISSING,
    "words": "…",
    "tier": "broker",
    "host": "web-1",
    "path": "/var/log/a.log",
    "source": "s1",
    "partition": 0,
    "offset": 100,
    "offsets": 12,
    "seq": 100,
    "events": 12,
    "position": 1_000,
    "end_position": 1_120,
    "from_time": 60_000,
    "to_time": 120_000,
}
UNNAMED: dict[str, Any] = {
    "kind": FaultKind.UNNAMED,
    "words": "…",
    "tier": "broker",
    "events": 12,
    "from_time": 60_000,
    "to_time": 120_000,
}


UNWATCHED: dict[str, Any] = {
    "kind": FaultKind.UNKNOWN,
    "words": "…",
    "tier": "agent",
    "host": "web-1",
    "path": "/var/log/shop.log",
    "source": "s1",
    "position": 100,
    "from_time": 60_000,
    "to_time": 120_000,
}


def known(fields: dict[str, Any], topic: str = "dc1/clicks", **changes: Any) -> KnownFinding:
    return KnownFinding.of(topic, Finding(**{**fields, **changes}))


@pytest.mark.parametrize("fields", [MISSING, UNNAMED])
def test_the_same_is_known_whatever_its_words(fields: dict[str, Any]) -> None:
    assert known(fields).covers(known(fields, words="other words"))


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": 104, "offsets": 8, "seq": 104, "events": 8, "position": 1_040},
        {"from_time": 0, "to_time": 240_000},
    ],
)
def test_less_of_it_is_known(changes: dict[str, Any]) -> None:
    assert known(MISSING).covers(known(MISSING, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": 13},
        {"offset": 99, "offsets": 13},
        {"events": 13},
        {"end_position": 1_121},
        {"host": "web-2"},
        {"partition": 1},
        {"source": "s2"},
        {"kind": FaultKind.CHANGED},
        {"offset": -1, "offsets": -1},
        {"topic": "dc2/clicks"},
    ],
)
def test_more_of_it_or_another_is_new(changes: dict[str, Any]) -> None:
    assert not known(MISSING).covers(known(MISSING, **changes))


def test_what_nobody_watched_is_known_by_its_time() -> None:
    """It begins at a byte and ends nobody knows where: another one later in the file is new."""
    later: dict[str, Any] = {"position": 200, "from_time": 600_000, "to_time": 660_000}
    assert known(UNWATCHED).covers(known(UNWATCHED))
    assert not known(UNWATCHED).covers(known(UNWATCHED, **later))


@pytest.mark.parametrize("changes", [{"events": 13}, {"from_time": 0}, {"to_time": 180_000}])
def test_what_has_no_name_is_known_by_its_time_and_size(changes: dict[str, Any]) -> None:
    assert not known(UNNAMED).covers(known(UNNAMED, **changes))
