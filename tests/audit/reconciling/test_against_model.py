"""Verdicts against the model: what is named is what is so, no more and no less."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from audit.reconciling.windows import accounted
from ground.intervals import upto
from tests.audit.reconciling.pipeline_model import (
    AGENT,
    BROKER,
    FOREIGN,
    HDFS,
    HOSTS,
    PARTITIONS,
    WINDOW,
    Batch,
    Fate,
    Pipeline,
    Row,
)

_MANY = 99
_EXAMPLES = settings(max_examples=60, deadline=None, phases=[Phase.generate, Phase.shrink])


def _pipelines(
    fates: Iterable[Fate] = (), rows: Iterable[Row] = (), *, settled: bool = False
) -> st.SearchStrategy[Pipeline]:
    """Made from bytes: by far the quickest to draw. What is more frequent stands there oftener."""
    of_batch = [Fate.FINE] * 3 + list(fates)
    of_row = [Row.LANDED] * 3 + list(rows)

    def batch(made: bytes) -> Batch:
        size = made[0] % 3 + 1
        spread = made[1] % 2  # over windows
        return Batch(
            host=made[2] % (HOSTS + 1) + FOREIGN,
            partition=made[3] % PARTITIONS,
            windows=tuple((made[4] + each * spread * made[5]) % 4 for each in range(size)),
            rows=tuple(of_row[made[6 + each] % len(of_row)] for each in range(size)),
            fate=of_batch[made[9] % len(of_batch)],
        )

    def cursors(made: bytes) -> list[int]:
        return [_MANY if settled or each % 2 == 0 else each // 2 % 8 for each in made]

    def pipeline(made: bytes, ends: bytes) -> Pipeline:
        return Pipeline(
            [batch(made[at : at + 10]) for at in range(0, len(made) - 9, 10)],
            told=cursors(ends[:HOSTS]),
            counted=cursors(ends[3:5]),
            loaded=cursors(ends[5:7]),
            over_gaps=bool(ends[7] % 2),
        )

    batches = st.integers(0, 14).flatmap(
        lambda many: st.binary(min_size=many * 10, max_size=many * 10)
    )
    return st.builds(pipeline, batches, st.binary(min_size=8, max_size=8))


def _offsets(findings: Iterable[Finding]) -> Counter[tuple[int, int]]:
    return Counter(
        (each.partition, offset)
        for each in findings
        for offset in range(each.offset, each.offset + each.offsets)
    )


def _of(verdict: TopicVerdict, tier: str) -> list[Finding]:
    return [
        each
        for each in verdict.findings
        if each.tier == tier
        and each.partition >= 0
        and each.kind in {FaultKind.MISSING, FaultKind.UNPROVEN}
    ]


def _missing_at_brokers(pipeline: Pipeline) -> set[tuple[int, int]]:
    ends = [upto(pipeline.claimed(each)[BROKER]) for each in range(PARTITIONS)]
    return {
        (event.partition, event.offset)
        for laid in pipeline.laid
        if laid.stated and not laid.in_broker
        for event in laid.events()
        if event.offset < ends[event.partition]
    }


@_EXAMPLES
@given(_pipelines())
def test_no_alarm_without_a_fault(pipeline: Pipeline) -> None:
    """However far anybody is behind, and whoever else writes."""
    verdict = reconcile(pipeline.picture())
    assert not verdict.findings
    assert verdict.state in {State.COMPLETE, State.PENDING}
    assert all(window.missing == window.excess == 0 for window in verdict.windows)


@_EXAMPLES
@given(_pipelines(settled=True))
def test_complete_once_everybody_is_done(pipeline: Pipeline) -> None:
    verdict = reconcile(pipeline.picture())
    assert verdict.state is State.COMPLETE
    assert not verdict.waits


@_EXAMPLES
@given(_pipelines(list(Fate), list(Row)))
def test_sums_add_up(pipeline: Pipeline) -> None:
    picture = pipeline.picture()
    verdict = reconcile(picture)
    for window in verdict.windows:
        first, last = window.sums[0].events, accounted(HDFS, window.sums[-1])
        lacking = window.missing + window.pending
        assert first - lacking + window.excess + window.unclaimed == last


@_EXAMPLES
@given(
    _pipelines([Fate.DROPPED, Fate.UNCOUNTED, Fate.UNSTATED, Fate.SKIPPED, Fate.FLIPPED], list(Row))
)
def test_what_brokers_lack_is_named(pipeline: Pipeline) -> None:
    verdict = reconcile(pipeline.picture())
    assert _offsets(_of(verdict, "broker")) == Counter(_missing_at_brokers(pipeline))


@_EXAMPLES
@given(_pipelines([Fate.DROPPED, Fate.UNCOUNTED, Fate.UNSTATED, Fate.SKIPPED], [Row.ABSENT]))
def test_what_files_lack_is_named(pipeline: Pipeline) -> None:
    verdict = reconcile(pipeline.picture())
    elsewhere = _missing_at_brokers(pipeline)
    ends = [upto(pipeline.claimed(each)[HDFS]) for each in range(PARTITIONS)]
    expected = {
        (event.partition, event.offset)
        for laid in pipeline.laid
        for event in laid.events()
        if event.offset < ends[event.partition]
        and (event.partition, event.offset) not in elsewhere
        and (
            (laid.stated and not (laid.in_files and event.row is not Row.ABSENT))
            or (laid.in_broker and not laid.in_files)
        )
    }
    assert _offsets(_of(verdict, "hdfs")) == Counter(expected)


@_EXAMPLES
@given(_pipelines([Fate.DROPPED, Fate.UNSTATED, Fate.SKIPPED], [Row.ABSENT, Row.DOUBLED]))
def test_names_are_those_of_the_events(pipeline: Pipeline) -> None:
    """Host, file, seq and bytes belong to the offset."""
    events = {
        (event.partition, event.offset): event for laid in pipeline.laid for event in laid.events()
    }
    for each in reconcile(pipeline.picture()).findings:
        if each.partition < 0 or not each.source:
            continue
        for number in range(each.offsets):
            event = events[each.partition, each.offset + number]
            assert (each.source, each.seq + number) == (f"s{event.host}", event.seq)
            assert (each.host, each.path) == (f"web-{event.host}", f"/var/log/{event.host}.log")
            assert each.position <= event.seq * 10 < each.end_position
            assert each.from_time <= event.window * WINDOW < each.to_time


@_EXAMPLES
@given(_pipelines([Fate.DROPPED, Fate.SKIPPED], [Row.ABSENT]))
def test_what_has_a_name_is_not_called_unnamed(pipeline: Pipeline) -> None:
    """All events of agents; foreign ones that the loader left out have none."""
    foreign = [
        event
        for laid in pipeline.laid
        if not laid.stated and laid.in_files
        for event in laid.events()
        if event.row is Row.ABSENT
    ]
    verdict = reconcile(pipeline.picture())
    unnamed = sum(each.events for each in verdict.findings if each.kind is FaultKind.UNNAMED)
    assert unnamed <= len(foreign)


@_EXAMPLES
@given(_pipelines([Fate.SKIPPED], [Row.ABSENT], settled=True))
def test_every_missing_event_is_counted(pipeline: Pipeline) -> None:
    """Once everybody is done, by window and tier, with a name or without."""
    absent = Counter(
        event.window
        for laid in pipeline.laid
        for event in laid.events()
        if event.offset < upto(pipeline.claimed(event.partition)[HDFS])
        and (not laid.in_files or event.row is Row.ABSENT)
    )
    verdict = reconcile(pipeline.picture())
    pending = any(window.pending for window in verdict.windows)
    for window in verdict.windows:
        number = window.start // WINDOW
        if not pending:
            assert window.missing == absent[number]
        if absent[number] and not window.waits:
            assert window.state is State.MISSING


@_EXAMPLES
@given(_pipelines([], [Row.DOUBLED], settled=True))
def test_every_doubled_row_is_counted(pipeline: Pipeline) -> None:
    doubled = Counter(
        event.window
        for laid in pipeline.laid
        for event in laid.events()
        if event.row is Row.DOUBLED
    )
    verdict = reconcile(pipeline.picture())
    for window in verdict.windows:
        expected = doubled[window.start // WINDOW]
        assert window.excess == expected
        assert window.state is (State.DUPLICATED if expected else State.COMPLETE)
    named = [each.events for each in verdict.findings]
    assert sum(named) == doubled.total()


@_EXAMPLES
@given(_pipelines([Fate.FLIPPED], settled=True))
def test_changed_batches_show_in_their_windows(pipeline: Pipeline) -> None:
    changed = {min(laid.batch.windows) for laid in pipeline.laid if laid.batch.fate is Fate.FLIPPED}
    verdict = reconcile(pipeline.picture())
    assert {each.start // WINDOW for each in verdict.windows if each.changed} == changed


@_EXAMPLES
@given(
    _pipelines([Fate.DROPPED, Fate.UNSTATED, Fate.SKIPPED, Fate.UNCOUNTED], [Row.ABSENT, Row.DEAD])
)
def test_nothing_is_duplicated_or_changed_that_is_not(pipeline: Pipeline) -> None:
    kinds = {each.kind for each in reconcile(pipeline.picture()).findings}
    assert not kinds & {FaultKind.DUPLICATED, FaultKind.CHANGED}


@_EXAMPLES
@given(_pipelines(list(Fate), list(Row)))
def test_complete_windows_are(pipeline: Pipeline) -> None:
    """Nothing that an agent spoke of is missing in a window that is called complete, unless a row
    that is there twice hides it, or one of another producer."""
    verdict = reconcile(pipeline.picture())
    bad = {
        event.window
        for laid in pipeline.laid
        if laid.stated and laid.in_broker
        for event in laid.events()
        if not laid.in_files or event.row is Row.ABSENT
    }
    hidden = {
        event.window
        for laid in pipeline.laid
        for event in laid.events()
        if event.row in {Row.DOUBLED, Row.DEAD} or not laid.in_broker
    }
    for window in verdict.windows:
        if window.state is State.COMPLETE:
            assert window.start // WINDOW not in bad - hidden


@_EXAMPLES
@given(_pipelines([], [Row.DOUBLED]))
def test_what_a_tier_has_not_come_to_is_waited_for(pipeline: Pipeline) -> None:
    """Whoever else has some in that window; unless they are as many, and of the same CRCs."""
    windows = {each.start: each for each in reconcile(pipeline.picture()).windows}
    for laid in pipeline.laid:
        claimed = pipeline.claimed(laid.batch.partition)
        for at, (is_there, later) in enumerate(((laid.stated, BROKER), (laid.in_broker, HDFS))):
            if not is_there or laid.first < upto(claimed[later]):
                continue
            for event in laid.events():
                window = windows[event.window * WINDOW]
                first, second = window.sums[at : at + 2]
                if (first.events, first.crc_sum) != (accounted(later, second), second.crc_sum):
                    assert later.kind in window.waits


@_EXAMPLES
@given(_pipelines([], [Row.DEAD], settled=True))
def test_dead_letters_are_accounted_for(pipeline: Pipeline) -> None:
    verdict = reconcile(pipeline.picture())
    assert verdict.state is State.COMPLETE
    dead = sum(event.row is Row.DEAD for laid in pipeline.laid for event in laid.events())
    assert sum(window.dead for window in verdict.windows) == dead


@_EXAMPLES
@given(_pipelines([Fate.UNSTATED]))
def test_a_lost_statement_is_not_proven(pipeline: Pipeline) -> None:
    lost = sum(
        laid.told and laid.batch.fate is Fate.UNSTATED and laid.batch.host != FOREIGN
        for laid in pipeline.laid
    )
    findings = reconcile(pipeline.picture()).findings
    assert {each.kind for each in findings} <= {FaultKind.UNPROVEN}
    assert sum(each.source.startswith("agent-") for each in findings) == lost
    assert AGENT.kind == "agent"
