"""Where lines went is shown where they are looked for."""

from contextlib import closing
from pathlib import Path

from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.judged_ledger import FIRST, KEY
from tests.audit.store.said import (
    CLUSTER,
    HOUR,
    MINUTE,
    body,
    entry,
    excepted,
    passage,
    run,
    window,
)

TIME = FIRST + MINUTE
LONG_AGO = 915_148_800_000  # 1999
LATER = 4_070_908_800_000  # 2099


def test_one_event_of_another_year_takes_no_lines_with_it(tmp_path: Path) -> None:
    windows = [window(LONG_AGO, 1), window(TIME, 97), window(LATER, 1)]
    lines = run("file", 0, 99, lines=99, excepted=[excepted("dead_lettered", 1, 10, "no time")])
    said = entry("agent", "a", 0, TIME, passages=[passage(0, 0, 99, windows, runs=[lines])])
    with closing(AuditStore.open(tmp_path)) as store, closing(store.reading()) as reading:
        store.fold(CLUSTER, body([said]), LedgerPositions())
        flow = reading.flow(KEY, FIRST, FIRST + HOUR)
        elsewhere = reading.flow(KEY, 0, FIRST)
    assert (flow.shipped, flow.events, flow.dead) == (99, 99, 1)
    assert (flow.read, flow.lost) == (100, 0)  # what was read is what became of it
    assert elsewhere.shipped == 0
