"""What a run read of each partition, as the ledger will tell it. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from loader.commit.landed_sources import LandedSources
from loader.manifests import HourState, Passage
from loader.reports import SliceReport, WindowCount
from loader.tables import Hour, Slice, hour_of

Log = tuple[str, str, int]  # cluster, topic, partition


def log_of(piece: Slice) -> Log:
    return piece.cluster, piece.topic, piece.partition


def is_complete(hour: HourState | None) -> bool:
    return hour is not None and hour.complete >= 0


def passages(
    slices: Iterable[Slice],
    reports: Mapping[int, SliceReport],
    sources: LandedSources,
    hours: Mapping[Hour, HourState],
) -> tuple[Passage, ...]:
    """What was read, by partition. `hours` are those before the run: what is late in them."""
    read: dict[Log, list[Slice]] = defaultdict(list)
    for piece in slices:
        read[log_of(piece)].append(piece)
    return tuple(
        _passage(pieces, [reports[piece.number] for piece in pieces], sources, hours)
        for _, pieces in sorted(read.items())
    )


def _passage(
    pieces: Sequence[Slice],
    reports: Sequence[SliceReport],
    sources: LandedSources,
    hours: Mapping[Hour, HourState],
) -> Passage:
    first = min(piece.first for piece in pieces)
    next_offset = max(report.next_offset for report in reports)
    windows = _windows(reports)
    events = sum(
        report.row_count + report.duplicates + report.dead_count + report.other_hours
        for report in reports
    )
    return Passage(
        topic=pieces[0].topic,
        topic_id=pieces[0].topic_id,
        cluster=pieces[0].cluster,
        partition=pieces[0].partition,
        first=first,
        next_offset=next_offset,
        leader_epoch=max(report.leader_epoch for report in reports),
        no_events=next_offset - first - events,
        windows=windows,
        late={
            window.start: window.rows
            for window in windows
            if window.rows and is_complete(hours.get(hour_of(window.start)))
        },
        sources=sources.of(pieces[0].origin),
    )


def _windows(reports: Iterable[SliceReport]) -> tuple[WindowCount, ...]:
    found: dict[int, WindowCount] = {}
    for report in reports:
        for each in report.windows:
            known = found.get(each.start)
            found[each.start] = each if known is None else _both(known, each)
    return tuple(found[start] for start in sorted(found))


def _both(one: WindowCount, other: WindowCount) -> WindowCount:
    return WindowCount(
        start=one.start,
        rows=one.rows + other.rows,
        duplicates=one.duplicates + other.duplicates,
        dead=one.dead + other.dead,
        bytes=one.bytes + other.bytes,
        crc_sum=one.crc_sum + other.crc_sum,
    )
