"""A partition that others have led: from where it is counted, and what is told by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.counting.leader_terms import MOST_UNASKED
from broker.counting.reports import Led
from broker.storage.log import Log
from ledger.counting.batches import Json
from tests.broker.counting.counted import Counted, led_at, under
from tests.broker.storage.log_files import append, batch, create, flush, grow

EACH = 3_000  # records of a batch
BATCHES = 5
END = BATCHES * EACH


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Of five batches, which another broker has led."""
    log = create(tmp_path)
    grow(log, BATCHES, EACH, size=1)
    yield log
    log.abandon()


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


def told_by(source: str, end: int) -> Json:
    """Up to there, in one passage."""
    passage = {"topic": "t", "topic_id": "one", "partition": 0, "leader_epoch": 0}
    offsets = [{"first": 0, "count": end}]
    passages = [{**passage, "offsets": offsets, "windows": []}]
    return {"header": {"source": source}, "tier": "broker", "passages": passages}


def beginnings(counted: Counted) -> list[tuple[int, int]]:
    """Of leader epochs, as they were told."""
    return [
        (passage["leader_epoch"], stretch["first"])
        for passage in counted.passages
        for stretch in passage["offsets"]
        if not stretch["count"]
    ]


def singly(first: int, end: int) -> list[tuple[int, int]]:
    return [(each, each + EACH) for each in range(first, end, EACH)]


def grown(log: Log, epoch: int) -> Led:
    append(log, batch(EACH, size=1), leader_epoch=epoch)
    flush(log)
    return led_at(log, epoch)


def test_what_the_ledger_shows_is_not_counted_again(log: Log, counted: Counted) -> None:
    counted.ledger.entries = [told_by("broker-x", 2 * EACH)]
    counted.look(led_at(log, 1))
    assert counted.offsets() == singly(2 * EACH, END)
    assert beginnings(counted) == [(1, END)]
    counted.look(grown(log, 1))
    append(log, batch(EACH, size=1), leader_epoch=1)
    counted.look(grown(log, 1))
    assert counted.offsets()[3:] == [(END, END + EACH), (END + EACH, END + 3 * EACH)]
    assert len(counted.ledger.asked) == 1
    assert beginnings(counted) == [(1, END)]


def test_what_nobody_ever_told_is_told_together(log: Log, counted: Counted) -> None:
    """As in a log that was there before there was a ledger."""
    counted.look(led_at(log, 1))
    assert len(counted.ledger.asked) == 1
    assert counted.offsets() == [(0, END)]


def test_a_little_is_counted_again_and_nobody_is_asked(log: Log, counted: Counted) -> None:
    """It has led before, and knows how far it had come."""
    early = led_at(log, 1)._replace(exposed=2 * EACH)
    counted.look(early)
    assert counted.offsets() == [(0, 2 * EACH)]
    asked = len(counted.ledger.asked)
    assert END - 2 * EACH < MOST_UNASKED
    counted.look(led_at(log, 3))
    assert counted.offsets()[1:] == singly(2 * EACH, END)
    assert len(counted.ledger.asked) == asked
    assert beginnings(counted) == [(1, END), (3, END)]
    counted.look(under(under(led_at(log, 3), 4, END), 6, END + 1))
    assert beginnings(counted)[2:] == [(4, END), (6, END + 1)], "nobody may have said the one"


def lacking(counted: Counted) -> list[tuple[int, int, int]]:
    """What leaders did not have: from which epoch and offset on, and how much of it."""
    return [
        (each["leader_epoch"], each["first"], each["count"])
        for entry in counted.told
        for each in entry.get("withdrawn", ())
    ]


def test_a_leader_that_was_not_in_sync_lacks_what_nobody_knows(
    log: Log, counted: Counted, tmp_path: Path
) -> None:
    """Said once, with where its epoch begins; each time that it happens."""
    led = led_at(log, 1)._replace(unclean=(1,))
    counted.look(led)
    counted.look(led)
    assert lacking(counted) == [(1, END, -1)]
    assert beginnings(counted) == [(1, END)]
    counted.look(under(led, 2, END))
    again = under(led, 4, END)._replace(unclean=(1, 4))
    counted.look(again)
    assert lacking(counted) == [(1, END, -1), (4, END, -1)]
    restarted = Counted(tmp_path)
    restarted.look(again)
    assert lacking(restarted) in ([], [(4, END, -1)]), "the last entry may be sent once more"


def test_the_next_leader_says_it_of_one_that_died_before_it_had(log: Log, counted: Counted) -> None:
    """Who had not written anything: the log does not know its epoch."""
    counted.look(led_at(log, 5)._replace(unclean=(2, 3)))
    assert lacking(counted) == [(5, END, -1)]


@pytest.mark.parametrize("by_itself", [True, False])
def test_much_is_counted_again_only_if_others_may_have(
    log: Log, counted: Counted, *, by_itself: bool
) -> None:
    """It was behind when it was started again: so its epoch is another one, and nobody's else."""
    counted.look(led_at(log, 1)._replace(exposed=EACH))
    source = counted.journal.source if by_itself else "broker-x"
    counted.ledger.entries = [told_by(source, EACH if by_itself else 4 * EACH)]
    assert END - EACH > MOST_UNASKED
    counted.look(led_at(log, 2))
    again = [(EACH, END)] if by_itself else singly(4 * EACH, END)
    assert counted.offsets()[1:] == again


def test_a_beginning_is_told_until_it_is_journalled(
    log: Log, counted: Counted, tmp_path: Path
) -> None:
    """Also where nothing can be counted yet, as consumers see nothing."""
    counted.ledger.entries = [told_by("broker-x", END)]
    led = led_at(log, 1)._replace(exposed=0)
    counted.is_silent = True
    assert counted.look(led)
    counted.is_silent = False
    assert counted.look(led) == counted.look(led) == ""
    assert beginnings(counted) == [(1, END)]
    assert counted.offsets() == []
    again = Counted(tmp_path)
    again.look(led)
    assert again.told == counted.told, "the entry that was the last is sent once more"


def test_counting_waits_while_the_ledger_does_not_answer(log: Log, counted: Counted) -> None:
    counted.ledger.is_silent = True
    assert counted.look(led_at(log, 1)) == "ConnectionRefusedError: nobody is there"
    assert counted.told == []
    counted.ledger.is_silent = False
    counted.ledger.entries = [told_by("broker-x", END)]
    assert counted.look(led_at(log, 1)) == ""
    assert counted.offsets() == []
