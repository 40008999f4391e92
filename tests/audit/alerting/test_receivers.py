"""Receivers over time: what they are told of a state that changes, and what mutes it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.alerting.conditions import AlertKey, UnknownClusters
from audit.alerting.notes import FILE, MOST, Acknowledgement, AlertNotes, Silence, TooManyNotes
from audit.alerting.receivers import Pace, Receivers, Situation
from audit.configuration.receivers import Receiver, Severity
from harness.processes.waiting import wait_until
from tests.audit.alerting.alerts_made import SEVEN, missing, silent, situation
from tests.audit.alerting.listener import Listener

RACK = ("raised", "silent", "web-1,web-2")
LOST = ("raised", "missing", "clicks")


class Story(Listener):
    """Its receiver can be started again."""

    receivers = Receivers()
    directory = Path()

    def start(self, **settings: Any) -> None:
        self.receivers.stop()
        hook = {"hook": Receiver(url=self.url, **settings)}
        self.receivers = Receivers(hook, self.directory, Pace(gather=0, again=0, pause=0.01))
        self.receivers.start()

    def await_said(self, *said: tuple[str, str, str]) -> None:
        """Each message is accepted, counted and kept."""
        (state,) = wait_until(
            lambda: [e for e in self.receivers.states() if e.sent and len(self.said) >= len(said)],
            what=f"{said}",
        )
        assert (tuple(self.said), state.trouble) == (said, "")


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with Story() as made:
        made.directory = tmp_path
        yield made
        made.receivers.stop()


def test_a_state_that_changes_is_told_once(story: Story) -> None:
    story.start()
    story.receivers.offer(situation(*silent("web-1", "web-2"), *missing()))
    story.await_said(LOST, RACK)
    kept = story.directory / "alert-receivers.json"
    wait_until(lambda: "silent" in kept.read_text(), what="known")
    story.start()  # a restart repeats nothing
    story.receivers.offer(situation(*silent("web-2"), *missing()))  # one is back
    later = [each._replace(since=SEVEN + 9) for each in silent("web-2", "web-3")]
    story.receivers.offer(situation(*later, *missing()))
    grown = ("raised", "silent", "web-2,web-3")
    story.await_said(LOST, RACK, grown)
    assert story.posts[2]["since"] == story.posts[1]["since"] == SEVEN
    groups = situation(*silent("web-2")).groups
    (rack,) = (each.notice for each in groups.values())
    dc1, dc2 = (UnknownClusters(frozenset({each})) for each in ("dc1", "dc2"))
    stays = (Situation(groups), Situation(standing=groups), Situation(unknown=dc1))
    assert not any(each.is_over(rack) for each in stays)
    assert Situation(unknown=dc2).is_over(rack)
    story.receivers.offer(situation(*missing()))
    story.await_said(LOST, RACK, grown, ("resolved", "silent", "web-2,web-3"))
    assert story.posts[-1]["resolved"] > story.posts[-1]["since"]


def test_what_is_muted_is_not_told_but_for_its_end(story: Story) -> None:
    story.refuses = b'"orders"'  # nor does what is refused keep the others back
    story.start()
    story.receivers.offer(situation(*missing("orders"), *missing()))
    story.await_said(LOST)
    story.receivers.offer(situation(*missing(hours=(0, 1)), *silent("web-9"), muted=True))
    story.receivers.offer(Situation())
    story.await_said(LOST, ("resolved", "missing", "clicks"))
    assert story.refused == 1, "its beginning; its end is not told"


def test_who_was_away_is_told_the_state(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    story.status = 503
    story.start(severities=(Severity.CRITICAL,))
    story.receivers.offer(situation(*missing("orders"), *silent("web-1")))
    wait_until(lambda: story.refused > 3, what="tried again and again")
    story.receivers.offer(situation(*missing()))
    story.status = 200
    story.await_said(LOST)
    assert [each.getMessage() for each in caplog.records] == [
        "receiver does not accept alerts, trying again receiver=hook error='HTTP 503'",
        "receiver accepts alerts again receiver=hook",
    ]


SAID: dict[str, Any] = {"by": "ada", "reason": "known", "time": 5, "until": 9}


@pytest.mark.parametrize(
    ("matched", "mutes"),
    [
        ({"kind": "silent"}, True), ({"kind": "late"}, False), ({"cluster": "dc2"}, False),
        ({"host": "web-*", "cluster": "dc1"}, True), ({"host": "WEB-1"}, False),
        ({"topic": "*", "kind": "silent"}, True), ({"topic": "c*"}, False),
    ],
)  # fmt: skip
def test_a_silence_matches_all_that_is_given(matched: dict[str, str], mutes: bool) -> None:
    about, notes = AlertKey("silent", "dc1", "", "web-1"), AlertNotes()
    notes.add_silence(Silence(id="s", **SAID | matched))
    assert (notes.silence(about, 8) is not None) == mutes
    assert notes.silence(about, 9) is None


def test_notes_outlive_a_restart_and_are_bounded(tmp_path: Path) -> None:
    kept = AlertNotes(tmp_path)
    kept.acknowledge(Acknowledgement(id="a", **SAID | {"until": -1}))
    kept.acknowledge(Acknowledgement(id="b", **SAID))
    for name in ("0", "1"):
        kept.add_silence(Silence(id=name, kind="late", **SAID))
    assert (kept.end_silence("1"), kept.end_silence("1")) == (True, False)
    again = AlertNotes(tmp_path)
    known = [again.acknowledgement(*about) is not None for about in (("a", 99), ("b", 8), ("b", 9))]
    assert known == [True, True, False]
    assert [each.id for each in again.silences(6)] == ["0"]
    again.forget_resolved({"a"})
    assert AlertNotes(tmp_path).acknowledgement("b", 8) is None
    (tmp_path / FILE).write_bytes(b"{}garbage")
    assert AlertNotes(tmp_path).silences(6) == ()
    full = AlertNotes()
    with pytest.raises(TooManyNotes):
        for number in range(MOST + 1):
            full.acknowledge(Acknowledgement(id=str(number), **SAID))
