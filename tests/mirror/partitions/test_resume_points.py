"""Where the copying of a partition goes on, by what both sides say."""

from typing import Any

from mirror.partitions.gaps import Gap
from mirror.partitions.resume_points import Both, GoOn, Span, Stop, decide
from tests.mirror.headers import batch
from wire.record_batches.batch import BatchHeader, read_header


def header(base: int, content: bytes = b"x") -> BatchHeader:
    return read_header(batch(base, 1, content))


def decided(both: Both, **given: Any) -> GoOn | Stop:
    return decide(both, **{"compacts": False, "accepted": None, "may_pass": False, **given})


def test_it_goes_on_where_the_copy_ends() -> None:
    assert decided(Both(Span(0, 0), Span(0, 0))) == GoOn(0)
    both = Both(Span(5, 90), Span(0, 50), last_there=header(49), last_here=header(49))
    assert decided(both) == GoOn(50)


def test_another_history_stops_it() -> None:
    both = Both(Span(0, 90), Span(0, 50), last_there=header(49, b"y"), last_here=header(49))
    found = decided(both)
    assert isinstance(found, Stop)
    assert "differs" in found.reason
    assert f"{header(49).crc:#010x}" in found.reason
    assert decided(both, compacts=True) == GoOn(50)


def test_a_source_that_went_back_stops_it() -> None:
    found = decided(Both(Span(0, 40), Span(0, 50)))
    assert isinstance(found, Stop)
    assert "40" in found.reason
    assert "50" in found.reason


def test_a_gap_stops_it_until_it_is_accepted() -> None:
    both = Both(Span(80, 90), Span(0, 50), next_there=header(80))
    found = decided(both)
    assert isinstance(found, Stop)
    assert found.gap == Gap(50, 80)
    assert decided(both, accepted=40) == found
    assert decided(both, accepted=50) == decided(both, may_pass=True) == GoOn(80, Gap(50, 80))
    assert decided(both, compacts=True) == GoOn(80)


def test_a_log_that_starts_within_its_first_batch() -> None:
    both = Both(Span(80, 90), Span(0, 0), next_there=header(78))
    assert decided(both, accepted=0) == GoOn(80, Gap(0, 78))
    near = Both(Span(80, 90), Span(0, 79), next_there=header(79))
    assert decided(near) == GoOn(80)


def test_a_hole_within_the_source_is_a_gap_too() -> None:
    found = decided(Both(Span(0, 90), Span(0, 50), next_there=header(60)))
    assert isinstance(found, Stop)
    assert found.gap == Gap(50, 60)
