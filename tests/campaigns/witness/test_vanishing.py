"""The witness judges what is said of a log that lost more than anybody had counted."""

from tests.campaigns.witness.examples import landed, logged, red, theirs, written
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.judging import judge
from tests.campaigns.witness.reading import Row
from tests.campaigns.witness.truth import Truth
from tests.campaigns.witness.verdict import Called, Seen

BEYOND = Called("unknown", "?", tier="broker", partition=0, offset=3, offsets=1, from_time=8_000)


def rules(truth: Truth, rows: list[Row], records: list[Kept], called: Called = BEYOND) -> list[str]:
    seen = Seen(rows, records)
    return sorted(each.rule for each in judge(truth, seen, red(called, state="unknown")))


def unclean() -> Truth:
    truth = written(3)
    truth.foreign.add("theirs 3")
    truth.any_leads = True
    return truth


def test_it_covers_what_others_wrote_then() -> None:
    covering = Called("unknown", "?", partition=0, offset=3, from_time=8_000, to_time=9_500)
    records = [*logged(0, 1, 2), theirs(3)]
    assert rules(unclean(), landed(0, 1, 2), records, covering) == []
    early = Called("unknown", "?", partition=0, offset=3, from_time=5_000, to_time=6_500)
    assert rules(unclean(), landed(0, 1, 2), records, early) == ["hole"]


def test_it_must_have_been_possible() -> None:
    records = [*logged(0, 1, 2), theirs(3)]
    rows = [*landed(0, 1, 2), Row("part.parquet", "", -1, -1, 3, "theirs 3")]
    assert rules(unclean(), rows, records) == []
    removed = unclean()
    removed.any_leads = False
    assert rules(removed, rows, records) == ["unexplained"]
    removed.done.add("remove-partition")
    assert rules(removed, rows, records) == []


def test_agents_say_what_they_have_sent() -> None:
    assert rules(unclean(), landed(0, 1, 2), logged(0, 1, 2)) == ["unexplained"]


def test_it_covers_no_line_before_it() -> None:
    records = [*logged(0, 1, 2), theirs(4)]
    late = Called("unknown", "?", partition=0, offset=2, from_time=0, to_time=99_000)
    assert rules(unclean(), landed(0, 1), records, late) == []
    assert rules(unclean(), landed(0, 2), records, late) == ["hole"]
