"""Heartbeats: one a window, topics named when it must be."""

from agent.ledger.publishing import NAMED_SECONDS, Heartbeats

WINDOW = 60_000


def heartbeats() -> Heartbeats:
    return Heartbeats(WINDOW, "1.2")


def say(beats: Heartbeats, now: float) -> list[dict[str, object]]:
    found = beats.statements(now)
    beats.said(found, now)
    return found


def test_nothing_is_said_of_nothing() -> None:
    beats = heartbeats()
    assert not beats.due
    beats.tell({}, 0)
    assert not beats.due
    assert beats.statements(0) == []


def test_once_a_window() -> None:
    beats = heartbeats()
    beats.tell({"a": 3 * WINDOW + 5}, 17)
    assert beats.due
    assert say(beats, 0) == [
        {"until": 3 * WINDOW, "topics": ["a"], "lag_bytes": 17, "program_version": "1.2"}
    ]
    beats.tell({"a": 4 * WINDOW - 1}, 20)
    assert not beats.due
    beats.tell({"a": 4 * WINDOW}, 20)
    assert beats.due
    assert say(beats, 1) == [{"until": 4 * WINDOW, "lag_bytes": 20}]


def test_topics_are_named_when_they_change_and_once_an_hour() -> None:
    beats = heartbeats()
    for at, topics in enumerate([{"a", "b"}, {"a", "b"}, {"a"}, {"a"}]):
        beats.tell(dict.fromkeys(topics, at * WINDOW), 0)
        (said,) = say(beats, float(at))
        assert said.get("topics") == (sorted(topics) if at in {0, 2} else None)
    beats.tell({"a": 9 * WINDOW}, 0)
    (said,) = say(beats, 2 + NAMED_SECONDS)
    assert said["topics"] == ["a"]


def test_topics_that_are_not_as_far_are_named() -> None:
    beats = heartbeats()
    beats.tell({"a": WINDOW, "b": WINDOW}, 0)
    say(beats, 0)
    beats.tell({"a": 3 * WINDOW, "b": 2 * WINDOW}, 0)
    said = say(beats, 1)
    assert [(each["until"], each["topics"]) for each in said] == [
        (2 * WINDOW, ["b"]),
        (3 * WINDOW, ["a"]),
    ]


def test_what_the_journal_did_not_take_is_said_again() -> None:
    beats = heartbeats()
    beats.tell({"a": WINDOW}, 0)
    first = beats.statements(0)
    assert beats.due
    assert beats.statements(1) == first
