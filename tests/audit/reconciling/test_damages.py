"""Damage, however much of it is reported."""

import time

import pytest

from audit.reconciling.findings import State
from audit.reconciling.missing import OffsetTimes
from audit.reconciling.picture import Acceptance, AlteredBatch
from audit.reconciling.stated_faults import MOST_DAMAGES, damaged, united
from audit.reconciling.verdict import MOST_FINDINGS, reconcile
from tests.audit.reconciling.pictures import HOUR, START, claimed, picture, source, stretch

CRC = "its CRC does not match"


def test_the_same_batch_reported_by_many_is_one() -> None:
    told = [
        AlteredBatch(0, 10, 5, CRC),
        AlteredBatch(0, 12, 6, "other"),
        AlteredBatch(0, 18, 2, CRC),
    ]
    assert united([*told, *told]) == [AlteredBatch(0, 10, 10, CRC)]
    assert united([AlteredBatch(0, 10, 5, CRC), AlteredBatch(1, 15, 5, CRC)]) == [
        AlteredBatch(0, 10, 5, CRC),
        AlteredBatch(1, 15, 5, CRC),
    ]


def test_neighbours_for_different_reasons_stay_two() -> None:
    told = [AlteredBatch(0, 10, 5, CRC, 7, 9), AlteredBatch(0, 15, 5, "other", 8, 12)]
    assert united(told) == told


def test_what_is_not_of_a_known_file_is_said_too() -> None:
    spoilt = picture(
        damaged=[AlteredBatch(0, 118, 10, CRC)],
        sources=[source(landed=((0, 120),), stretches=[stretch(120, 4)])],
    )
    said = {
        (each.finding.path, each.finding.offset, each.count)
        for each in damaged(spoilt, OffsetTimes((), ()))
    }
    assert said == {("", 118, 2), ("/var/log/shop/a.log", 120, 4), ("", 124, 4)}


@pytest.mark.not_quick("measures time")
def test_a_dying_disk_does_not_end_judging() -> None:
    """5,000 overlapping damages, and others apart, over 10,000 stretches."""
    spoilt = picture(
        damaged=[AlteredBatch(0, at, 1 << 50, CRC) for at in range(5_000)]
        + [AlteredBatch(1, 2 * at, 1, CRC, START, START + 1) for at in range(5_000)],
        sources=[source(landed=(), stretches=[stretch(at, 1) for at in range(10_000)])],
    )
    began = time.process_time()
    verdict = reconcile(spoilt)
    assert time.process_time() - began < 10
    assert verdict.state is State.CHANGED
    assert len(verdict.findings) <= MOST_DAMAGES + 1
    (more,) = (each for each in verdict.findings if "more" in each.words)
    assert more.words.endswith("offsets) are not as they were written")


@pytest.mark.not_quick("measures time")
def test_gaps_without_end_cost_little() -> None:
    """Every other offset is missing at the brokers, and each is a stretch of its own."""
    there = tuple((at, at + 1) for at in range(1, 8_192, 2))
    spoilt = picture(
        to_time=START + 24 * HOUR,
        now=START + 48 * HOUR,
        partitions=[claimed(agent=((0, 8_192),), broker=there, hdfs=there)],
        sources=[source(landed=(), stretches=[stretch(at, 1) for at in range(8_192)])],
    )
    began = time.process_time()
    verdict = reconcile(spoilt)
    assert time.process_time() - began < 5
    assert len(verdict.findings) == MOST_FINDINGS + 1
    assert verdict.findings[-1].words.endswith("more faults: only the worst are listed")


def test_a_part_of_united_damage_can_be_accepted() -> None:
    known = Acceptance(0, ((10, 15),), {}, {}, "", None, None, "disk broke", "me", START)
    spoilt = picture(
        damaged=[AlteredBatch(0, 10, 5, CRC), AlteredBatch(0, 15, 5, CRC)], accepted=[known]
    )
    found = {(each.offset, each.offsets): each.accepted for each in reconcile(spoilt).findings}
    assert found == {(10, 5): "disk broke (me, 2025-11-12 09:00 UTC)", (15, 5): ""}
