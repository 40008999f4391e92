"""Faults that go on in each other, as one: events that follow each other in a file and a partition,
windows that follow each other in time. Only what is accepted alike is joined.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from audit.reconciling.faults import Fault


def joined(faults: Iterable[Fault]) -> list[Fault]:
    of_files: list[Fault] = []
    of_windows: list[Fault] = []
    others: list[Fault] = []
    for fault in faults:
        one = fault.finding
        if one.source and one.partition >= 0:
            of_files.append(fault)
        elif one.source or one.path or one.partition >= 0:
            others.append(fault)
        else:
            of_windows.append(fault)
    return [*_events(of_files), *_windows(of_windows), *others]


def _events(faults: list[Fault]) -> list[Fault]:
    found: list[Fault] = []
    for fault in sorted(faults, key=_place):
        if found and _follows(found[-1], fault):
            _add(found[-1], fault)
        else:
            found.append(fault)
    return found


def _place(fault: Fault) -> tuple[str, ...]:
    one = fault.finding
    return (one.source, one.tier, one.destination, one.kind, f"{one.partition:09}{one.offset:020}")


def _follows(before: Fault, fault: Fault) -> bool:
    one, two = before.finding, fault.finding
    return (
        before.exact
        and fault.exact
        and before.reason == fault.reason
        and (one.source, one.tier, one.destination, one.kind, one.partition, one.accepted)
        == (two.source, two.tier, two.destination, two.kind, two.partition, two.accepted)
        and (one.offset + one.offsets, one.seq + one.events, one.end_position)
        == (two.offset, two.seq, two.position)
    )


def _add(before: Fault, fault: Fault) -> None:
    one, two = before.finding, fault.finding
    before.finding = replace(
        one,
        events=one.events + two.events,
        offsets=one.offsets + two.offsets,
        end_position=two.end_position,
        from_time=min(one.from_time, two.from_time),
        to_time=max(one.to_time, two.to_time),
    )
    before.count += fault.count
    before.windows += fault.windows


def _windows(faults: list[Fault]) -> list[Fault]:
    found: list[Fault] = []
    last: dict[tuple[str, ...], Fault] = {}
    for fault in sorted(faults, key=lambda each: each.finding.from_time):
        one = fault.finding
        key = (one.kind, one.tier, one.destination, one.accepted, fault.reason)
        before = last.get(key)
        if before is not None and before.finding.to_time == one.from_time:
            events = before.finding.events + one.events
            before.finding = replace(before.finding, events=events, to_time=one.to_time)
            before.windows += fault.windows
        else:
            found.append(fault)
            last[key] = fault
    return found
