"""What lies at the offsets that an agent claims is not what it sent: somebody wrote in the name of
its producer, so that the broker took the agent's batch for a repetition. Each passage is compared
by itself, whatever else is in its windows. Here it is known what was sent."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from audit.reconciling.findings import FaultKind, State
from audit.reconciling.topic_verdict import TopicVerdict
from tests.audit.audited_ledger import judged
from tests.audit.log_entries import TIME, agent, in_orders, lines
from tests.audit.store.said import HOUR, Json, entry, passage, window

SENT = 5_000_000_007  # sums of CRCs
FOREIGN, ELSEWHERE = TIME, TIME + HOUR
Batch = tuple[int, int, int]  # offset, count, CRC


def claim(*stretches: tuple[int, int], crc_sum: int = SENT, number: int = 0) -> Json:
    events = sum(count for _, count in stretches)
    said = passage(0, 0, 0, [window(TIME, events, crc_sum=crc_sum)], runs=[lines(0, events)])
    offsets = [{"first": first, "count": count} for first, count in stretches]
    return agent(number, said | {"offsets": offsets, "leader_epoch": 0})


def listed(
    first: int, count: int, *batches: Batch, number: int = 0, epoch: int = 0, **more: object
) -> Json:
    """A broker's passage, all in the window of the agent unless `at` says when the rest is."""
    said, reached = [], first
    for offset, size, crc in batches:
        said.append({"skipped": offset - reached, "count": size, "crc": crc})
        reached = offset + size
    windows = more.pop("windows", None) or [window(TIME, count, crc_sum=SENT)]
    lists = {"lists_batches": True, "batches": said, "leader_epoch": epoch, **more}
    told = passage(0, first, count, windows, **lists)  # type: ignore[arg-type]
    return entry("broker", "broker", number, TIME + number, passages=[told])


def verdict_of(tmp_path: Path, said: Sequence[Json], order: int = 0) -> TopicVerdict:
    return judged(tmp_path, in_orders(said)[order])


ALTERED = {
    "with foreign records in the window": [
        listed(0, 9, (0, 2, SENT), (5, 3, 8), windows=[window(TIME, 9, crc_sum=SENT + 99)])
    ],
    "with other times": [
        listed(
            0,
            5,
            (0, 2, SENT),
            (2, 3, 8),
            windows=[window(TIME, 2, crc_sum=SENT), window(ELSEWHERE, 3, crc_sum=8)],
        )
    ],
    "by nobody's batch": [listed(0, 9, (0, 2, SENT), windows=[window(TIME, 9, crc_sum=SENT + 7)])],
    "of other sizes": [listed(0, 5, (0, 1, SENT - 7), (1, 4, 7))],
    "in two statements": [listed(0, 2, (0, 2, SENT)), listed(2, 7, (5, 3, 8), number=1)],
}


@pytest.mark.parametrize("name", ALTERED)
@pytest.mark.parametrize("order", [0, 2], ids=["together", "backwards"])
def test_altered_batches_are_found(tmp_path: Path, name: str, order: int) -> None:
    stretches = [(0, 2), (5, 3)] if "foreign" in name or "two" in name or "nobody" in name else []
    verdict = verdict_of(tmp_path, [claim(*(stretches or [(0, 2), (2, 3)])), *ALTERED[name]], order)
    changed = [each for each in verdict.findings if each.kind is FaultKind.CHANGED]
    assert {(each.partition, each.offset, each.offsets) for each in changed} >= {(0, 0, 2)}
    assert all("the agent sent other batches" in each.words for each in changed)
    assert verdict.windows[0].state is State.CHANGED


SOUND = {
    "beside foreign ones": [listed(0, 9, (0, 2, SENT - 7), (5, 3, 7))],
    "in two statements": [listed(0, 2, (0, 2, SENT - 7)), listed(2, 7, (5, 3, 7), number=1)],
    "by an older broker": [listed(0, 9, lists_batches=False)],
    "at the time of append": [listed(0, 9, (0, 2, -1), (5, 3, -1))],
    "told twice": [
        listed(0, 9, (0, 2, SENT - 7), (5, 3, 7)),
        listed(0, 9, (0, 2, SENT - 7), (5, 3, 7), number=1, epoch=1),
    ],
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("order", [0, 2], ids=["together", "backwards"])
def test_sound_batches_are_no_fault(tmp_path: Path, name: str, order: int) -> None:
    verdict = verdict_of(tmp_path, [claim((0, 2), (5, 3)), *SOUND[name]], order)
    assert [each for each in verdict.findings if each.kind is FaultKind.CHANGED] == []
