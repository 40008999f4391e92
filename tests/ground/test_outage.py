"""What is said of an outage, and how long it pauses."""

import logging

import pytest

from ground.outage import FIRST_PAUSE, LONGEST_PAUSE, Outage

LOG = logging.getLogger("whose.it.is")
LOST = OSError("connection lost")
REFUSED = OSError("connection refused")
DESCRIBE = PermissionError("not allowed: DESCRIBE")
READ = PermissionError("not allowed: READ")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, LOG.name)
    return caplog


def test_it_is_said_once_and_when_it_is_over(said: pytest.LogCaptureFixture) -> None:
    outage = Outage(LOG, "reading")
    for error in (LOST, REFUSED, LOST):
        outage.failed(error)
    assert outage.why == "connection lost"
    outage.over()
    outage.over()
    first, last = said.messages
    assert first == "reading failed, trying again error='connection lost'"
    assert last.startswith("reading works again seconds=")
    assert {each.name for each in said.records} == {LOG.name}
    assert outage.why == ""


def test_what_does_not_pass_is_said_in_the_midst_of_it(said: pytest.LogCaptureFixture) -> None:
    outage = Outage(LOG, "reading")
    outage.failed(LOST)
    for error in (DESCRIBE, READ, DESCRIBE, READ):
        outage.failed(error, passing=False)
    outage.failed(REFUSED)
    assert [each.partition("error=")[2] for each in said.messages] == [
        repr(str(each)) for each in (LOST, DESCRIBE, READ)
    ]


def test_it_is_said_anew_of_the_next_one(said: pytest.LogCaptureFixture) -> None:
    outage = Outage(LOG, "reading")
    for _ in range(2):
        outage.failed(READ, passing=False)
        outage.over()
    assert len(said.messages) == 4


def test_reasons_that_are_never_the_same_are_not_said_for_ever(
    said: pytest.LogCaptureFixture,
) -> None:
    outage = Outage(LOG, "reading")
    for number in range(1000):
        outage.failed(PermissionError(f"refusal {number}"), passing=False)
    assert len(said.messages) == 10


def test_pauses_grow_up_to_the_longest_and_begin_anew() -> None:
    outage = Outage(LOG, "reading", chance=lambda: 1.0)
    pauses = [outage.failed(LOST) for _ in range(10)]
    assert pauses[:2] == [FIRST_PAUSE, 2 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    outage.over()
    assert outage.failed(LOST) == FIRST_PAUSE
