"""Receivers over time: what they are told of a state that changes, and what mutes it."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.alerting.conditions import AlertKey
from audit.alerting.notes import FILE, MOST, Acknowledgement, AlertNotes, Silence, TooManyNotes
from audit.alerting.receivers import Pace, Receivers, Situation
from audit.receiver_config import Receiver, ReceiverKind, Severity
from harness.waiting import wait_until
from tests.audit.alerting.alerts_made import missing, silent, situation
from tests.audit.alerting.listener import Listener

PACE = Pace(gather=0, again=0, repeat=0.05, pause=0.01)


class Story:
    """Receivers that can be started again."""

    def __init__(self, directory: Path) -> None:
        self.listener = Listener()
        self.directory = directory
        self.receivers = Receivers()

    def start(self, *, pace: Pace = PACE, **settings: object) -> None:
        self.receivers.stop()
        one = Receiver(url=self.listener.url, **settings)  # type: ignore[arg-type]
        self.receivers = Receivers({"hook": one}, self.directory, pace)
        self.receivers.start()

    def await_said(self, *said: tuple[str, str, str]) -> None:
        wait_until(lambda: len(self.listener.said) >= len(said), what=f"{said}")
        assert tuple(self.listener.said) == said

    def await_known(self) -> None:
        """The message that was accepted is counted, and kept."""
        posts = len(self.listener.posts)
        wait_until(lambda: next(iter(self.receivers.states())).sent >= posts, what="known")


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    made = Story(tmp_path)
    with made.listener:
        yield made
        made.receivers.stop()


RACK = ("raised", "silent", "web-1,web-2")
LOST = ("raised", "missing", "clicks")


def test_a_state_that_changes_is_told_once(story: Story) -> None:
    story.start()
    story.receivers.offer(situation(*silent("web-1", "web-2"), *missing()))
    story.await_said(LOST, RACK)
    story.await_known()
    story.start()  # a restart repeats nothing
    story.receivers.offer(situation(*silent("web-2"), *missing()))  # one is back
    story.receivers.offer(situation(*silent("web-2", "web-3"), *missing()))
    grown = ("raised", "silent", "web-2,web-3")
    story.await_said(LOST, RACK, grown)
    (about_clicks,) = situation(*missing()).groups
    for stays in (
        Situation(standing=[about_clicks], unknown=["dc1"]),
        Situation(unknown=["dc1", "dc2"]),
    ):
        story.receivers.offer(stays)
    story.receivers.offer(situation(*missing()))
    story.await_said(LOST, RACK, grown, ("resolved", "silent", "web-2,web-3"))
    assert story.listener.posts[-1]["resolved"] > story.listener.posts[-1]["since"]


def test_what_is_muted_is_not_told_but_for_its_end(story: Story) -> None:
    story.start()
    story.receivers.offer(situation(*missing()))
    story.await_said(LOST)
    story.receivers.offer(situation(*missing(hours=(0, 1)), *silent("web-9"), muted=True))
    story.receivers.offer(Situation())
    story.await_said(LOST, ("resolved", "missing", "clicks"))


def test_who_was_away_is_told_the_state(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    story.listener.status = 503
    story.start(severities=(Severity.CRITICAL,))
    story.receivers.offer(situation(*missing("orders"), *silent("web-1")))
    wait_until(lambda: story.listener.refused > 3, what="tried again and again")
    story.receivers.offer(situation(*missing()))
    story.listener.status = 200
    story.await_said(LOST)
    story.await_known()
    lines = [each.getMessage() for each in caplog.records]
    assert lines == [
        "receiver does not take alerts, trying again receiver=hook error='HTTP 503'",
        "receiver takes alerts again receiver=hook",
    ]


def test_what_is_refused_keeps_nothing_back(story: Story) -> None:
    story.listener.refuses = b'"orders"'
    story.start()
    story.receivers.offer(situation(*missing("orders"), *missing()))
    story.await_said(LOST)
    wait_until(lambda: story.listener.refused == 1, what="refused once")


def test_alertmanager_is_told_all_again_and_again(story: Story) -> None:
    story.start(kind=ReceiverKind.ALERTMANAGER)
    story.receivers.offer(situation(*missing(), *silent("web-1")))
    wait_until(lambda: len(story.listener.posts) > 2, what="repeated")
    assert {len(each["alerts"]) for each in story.listener.posts} == {2}
    story.receivers.offer(Situation())
    wait_until(lambda: story.listener.posts[-1]["alerts"][0]["annotations"].get("resolved"))


ABOUT = AlertKey("silent", "dc1", "", "web-1")
SAID = {"by": "ada", "reason": "known", "time": 5}


@pytest.mark.parametrize(
    ("matched", "mutes"),
    [
        ({"kind": "silent"}, True), ({"kind": "late"}, False), ({"cluster": "dc2"}, False),
        ({"host": "web-*", "cluster": "dc1"}, True), ({"host": "WEB-1"}, False),
        ({"topic": "*", "kind": "silent"}, True), ({"topic": "c*"}, False),
    ],
)  # fmt: skip
def test_a_silence_matches_all_that_is_given(matched: dict[str, str], mutes: bool) -> None:
    notes = AlertNotes()
    notes.add_silence(Silence(id="s", until=9, **matched, **SAID))  # type: ignore[arg-type]
    assert (notes.silence(ABOUT, 8) is not None) == mutes
    assert notes.silence(ABOUT, 9) is None


def test_notes_outlive_a_restart_and_are_bounded(tmp_path: Path) -> None:
    kept = AlertNotes(tmp_path)
    for name, until in (("a", -1), ("b", 9)):
        kept.acknowledge(Acknowledgement(id=name, until=until, **SAID))  # type: ignore[arg-type]
    for name in ("0", "1"):
        kept.add_silence(Silence(id=name, kind="late", until=9, **SAID))  # type: ignore[arg-type]
    assert kept.end_silence("1")
    assert not kept.end_silence("1")
    again = AlertNotes(tmp_path)
    known = [again.acknowledgement(*about) is not None for about in (("a", 99), ("b", 8), ("b", 9))]
    assert known == [True, True, False]
    assert [each.id for each in again.silences(6)] == ["0"]
    again.forget_resolved({"a"})
    assert AlertNotes(tmp_path).acknowledgement("b", 8) is None
    (tmp_path / FILE).write_bytes(b"{}garbage")
    alone = AlertNotes(tmp_path)
    assert alone.silences(6) == ()
    alone = AlertNotes()
    with pytest.raises(TooManyNotes):
        for number in range(MOST + 1):
            alone.acknowledge(Acknowledgement(id=str(number), **SAID))  # type: ignore[arg-type]
