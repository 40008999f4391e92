"""Whoever lost his journal counts again, and cuts elsewhere: nothing is lost or doubled by it."""

from contextlib import closing
from pathlib import Path

import pytest

from audit.findings import FaultKind
from audit.http.topics import tier_totals
from audit.picture import TierKind, TopicKey
from audit.reconciling.verdict import reconcile
from audit.store.store import AuditStore
from audit.verdicts import TopicVerdict
from ledger.reading import LedgerPositions
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    body,
    entry,
    passage,
    run,
    window,
)

KEY = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
B0 = BEGIN // HOUR * HOUR
TIME = B0 + MINUTE


def agent(count: int) -> Json:
    runs = [run("file", 0, count, path="/a", position=0, end_position=count * 10)]
    promise = {"until": B0 + 3 * HOUR, "topics": [TOPIC], "program_version": "1"}
    return entry(
        "agent",
        "agent",
        0,
        TIME + MINUTE,
        passages=[passage(0, 0, count, [window(TIME, count)], runs=runs)],
        heartbeats=[promise],
    )


def broker(journal: str, first: int, count: int) -> Json:
    return entry(
        "broker", journal, 0, TIME, passages=[passage(0, first, count, [window(TIME, count)])]
    )


def loader(count: int) -> Json:
    there = passage(0, 0, count, [window(TIME, count)], runs=[run("file", 0, count)])
    return entry("hdfs", "loader", 0, TIME, destination=ROOT, run=1, passages=[there])


def judged(directory: Path, chunks: list[list[Json]]) -> TopicVerdict:
    with closing(AuditStore.open(directory)) as store, closing(store.reading()) as reading:
        for each in chunks:
            store.fold(CLUSTER, body(each), LedgerPositions())
        now = B0 + 2 * HOUR
        picture = reading.picture(KEY, B0, B0 + HOUR, now, expected_millis=30 * 24 * HOUR)
    return reconcile(picture)


@pytest.mark.parametrize(("read_again", "events"), [(60, 100), (50, 40)])
def test_what_a_mirror_has_copied(tmp_path: Path, read_again: int, events: int) -> None:
    """It is killed amid its work. What the next one reads again it tells batch by batch; what the
    first one had told of it together is read between two of these. Its offsets tell how much it
    was; or else, that it was more than it has said."""

    def mirror(first: int, count: int) -> Json:
        return broker(f"mirror-{first}-{count}", first, count) | {"tier": "mirror"}

    chunks = [
        [agent(100), broker("b", 0, 100), loader(100)],
        *([mirror(*offsets)] for offsets in ((0, 40), (30, 60), (40, read_again))),
    ]
    verdict = judged(tmp_path, chunks)
    assert verdict.state == "complete"
    shown = {each.tier: each for each in tier_totals(verdict, {})}
    assert (shown["mirror"].events, shown["mirror"].at_least) == (events, events < 100)
    assert (shown["broker"].events, shown["broker"].at_least) == (100, False)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    "counted", [[(0, 60), (40, 60)], [(40, 60), (0, 60)], [(20, 30), (0, 100), (0, 40)]]
)
def test_passages_that_overlap(
    tmp_path: Path, counted: list[tuple[int, int]], together: bool
) -> None:
    said = [broker(f"b{at}", *each) for at, each in enumerate(counted)]
    chunks = [[*said, agent(100), loader(100)]] if together else [[each] for each in said]
    verdict = judged(tmp_path, chunks if together else [*chunks, [agent(100)], [loader(100)]])
    assert verdict.findings == []
    assert verdict.state == "complete"


@pytest.mark.parametrize("landed", [0, 30])
def test_what_is_not_loaded_yet_is_waited_for(tmp_path: Path, landed: int) -> None:
    """Sums say nothing of these windows, and offsets say that more is to come."""
    said = [broker("b0", 0, 60), broker("b1", 40, 60), agent(100), loader(landed)]
    verdict = judged(tmp_path, [[each] for each in said])
    assert (verdict.state, verdict.findings) == ("pending", [])
    assert [each.waits for each in verdict.windows] == [["hdfs"]]
    (wait,) = verdict.waits
    assert wait.words.startswith(f"{ROOT} has yet to load {100 - landed} offsets of 1 partition")


def test_what_is_missing_is_missing(tmp_path: Path) -> None:
    """Offsets tell it, where sums do not."""
    said = [broker("b0", 0, 60), broker("b1", 40, 60), agent(100), loader(90), later()]
    (finding,) = judged(tmp_path, [[each] for each in said]).findings
    assert (finding.kind, finding.tier) == (FaultKind.MISSING, TierKind.HDFS)
    assert (finding.path, finding.seq, finding.events, finding.offset) == ("/a", 90, 10, 90)


def later() -> Json:
    """The loader goes on, at the offsets after those that it has left out."""
    there = passage(0, 100, 1, [window(TIME, 0)])
    return entry("hdfs", "loader", 1, TIME, destination=ROOT, run=2, passages=[there])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("together", [True, False])
def test_an_agent_that_ships_events_again(
    tmp_path: Path, order: tuple[int, int], together: bool
) -> None:
    """All tiers have as many: nobody else could tell."""
    runs = [run("file", 60, 40, path="/a", position=600, end_position=1_000)]
    again = passage(0, 100, 40, [window(TIME, 40)], runs=runs)
    agents = [agent(100), entry("agent", "agent", 1, TIME + MINUTE, passages=[again])]
    there = passage(0, 0, 140, [window(TIME, 140)], runs=[run("file", 0, 100)])
    rest = [
        broker("b", 0, 140),
        entry("hdfs", "loader", 0, TIME, destination=ROOT, run=1, passages=[there]),
    ]
    said = [*(agents[each] for each in order), *rest]
    verdict = judged(tmp_path, [said] if together else [[each] for each in said])
    (finding,) = verdict.findings
    assert finding.words == "host-of-agent: /a, events 60 to 99 were shipped more than once"
    assert (finding.kind, finding.source, finding.seq) == (FaultKind.DUPLICATED, "file", 60)
    assert verdict.state == "duplicated"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("together", [True, False])
def test_an_agent_that_says_again_what_it_has_shipped(
    tmp_path: Path, order: tuple[int, int], together: bool
) -> None:
    """Its journal was damaged: the same events at the same offsets are no others."""
    runs = [run("file", 60, 40, path="/a", position=600, end_position=1_000)]
    again = passage(0, 60, 40, [window(TIME, 40)], runs=runs)
    agents = [agent(100), entry("agent", "agent", 1, TIME + MINUTE, passages=[again])]
    said = [*(agents[each] for each in order), broker("b", 0, 100), loader(100)]
    verdict = judged(tmp_path, [said] if together else [[each] for each in said])
    assert verdict.findings == []
    assert verdict.state == "complete"
