"""Altered text: counts add up by file, an unread file counts once, and rows are bounded."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from audit.api.answers import AlteredTotal, Remark
from audit.reconciling.picture import TopicKey
from audit.store.statements.altered_text import MOST_REMARKS, MOST_ROWS
from tests.audit.audited_ledger import DAY, AuditedLedger
from tests.audit.store.said import BEGIN, CLUSTER, HOUR, MINUTE, TOPIC, Json, entry

KEY = TopicKey(CLUSTER, TOPIC, "")
HOST = "host-of-a1"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[AuditedLedger]:
    with AuditedLedger(tmp_path / "ledger", clock=BEGIN + 9 * HOUR) as opened:
        yield opened


def said(kind: str, lines: int, count: int, minute: int = 0, **more: Any) -> Json:
    time = BEGIN + minute * MINUTE
    known: Json = {"topic": TOPIC, "input": "shop", "source": "s", "path": "/log/a", "kind": kind}
    known |= {"lines": lines, "count": count, "from_time": time, "to_time": time + MINUTE}
    return known | more


def entries(*parts: Sequence[Json], tier: str = "agent") -> list[Json]:
    return [
        entry(tier, "a1", seq, BEGIN + seq * MINUTE, altered=list(part))
        for seq, part in enumerate(parts)
    ]


def seen(
    ledger: AuditedLedger, folded: Sequence[Json], begin: int = BEGIN, end: int = BEGIN + DAY
) -> tuple[list[AlteredTotal], list[Remark]]:
    return ledger.fold_each(folded).reading.remarks(KEY, begin, end)


def test_counts_of_a_file_add_up_in_any_order(tmp_path: Path) -> None:
    told = entries(
        [said("replaced", 2, 3), said("dropped", 5, 5, name="user")],
        [said("replaced", 7, 9, 70, hint="cp1252"), said("cut", 1, 512)],
        [said("dropped", 1, 1, name="id")],
    )
    for number, order in enumerate(permutations([*told, told[1]])):
        with AuditedLedger(tmp_path / str(number), clock=BEGIN + DAY) as ledger:
            totals, remarks = seen(ledger, order)
            assert totals == [
                AlteredTotal("cut", 1, 512),
                AlteredTotal("dropped", 6, 6),
                AlteredTotal("replaced", 9, 12),
            ]
            first = Remark(
                *("replaced", "shop", "/log/a", HOST, 9, 12, BEGIN, BEGIN + 71 * MINUTE),
                hint="cp1252",
            )
            assert remarks[0] == first
            assert [each.name for each in remarks] == ["", "user", "", "id"]


def test_only_what_reaches_into_the_time_is_remarked(ledger: AuditedLedger) -> None:
    told = entries([said("cut", 1, 1), said("cut", 1, 2, 120), said("cut", 1, 4, 240)])
    totals, _ = seen(ledger, told, BEGIN + 2 * HOUR, BEGIN + 3 * HOUR)
    assert totals == [AlteredTotal("cut", 1, 2)]


def test_an_unread_file_counts_once(ledger: AuditedLedger) -> None:
    """An agent that was killed says it again, and its restart may be in another hour."""
    again = [[said("unread", 0, 1, minute, source="")] for minute in (0, 1, 90)]
    other = said("unread", 0, 1, path="/log/b.gz")
    assert seen(ledger, entries(*again, [other]))[0] == [AlteredTotal("unread", 0, 2)]


def test_rows_are_bounded_and_nothing_is_left_uncounted(ledger: AuditedLedger) -> None:
    many = [said("dropped", 1, 1, name=f"f{at}") for at in range(MOST_ROWS + 100)]
    totals, remarks = seen(ledger, entries(many, [said("dropped", 1, 1, name="f0")]))
    assert totals == [AlteredTotal("dropped", MOST_ROWS + 101, MOST_ROWS + 101)]
    assert len(remarks) == MOST_REMARKS
    assert (remarks[0].lines, remarks[0].host, remarks[0].path) == (100, "", "")


def test_only_agents_say_what_they_altered(ledger: AuditedLedger) -> None:
    assert seen(ledger, entries([said("cut", 1, 1)], tier="broker")) == ([], [])


def test_figures_and_times_out_of_all_proportion_are_cut(ledger: AuditedLedger) -> None:
    wild = [said("cut", 2**62, -(2**62), to_time=2**62, from_time=-(2**62), name="x" * 10_000)]
    (total,), (remark,) = seen(ledger, entries(wild), 0, BEGIN + 2 * DAY)
    assert (0 < total.lines < 2**50, total.count) == (True, 0)
    assert (len(remark.name), remark.last_time) == (200, BEGIN + DAY)


def test_what_is_older_than_the_audit_keeps_is_forgotten(ledger: AuditedLedger) -> None:
    told = entries([said("replaced", 1, 1)])
    assert seen(ledger, told)[1]
    ledger.store.expire(BEGIN + 400 * DAY)
    assert seen(ledger, [])[1] == []
