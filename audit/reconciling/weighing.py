"""What is named as missing against what the sums lack: which windows a fault is one of, and how
much of a window's lack nobody can name.

An event is in one window, but its batch may reach into several. So faults are laid on the windows
that they may be in, those that must end first being laid first, until the lack is filled.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

from audit.reconciling.axis import Axis
from audit.reconciling.faults import Fault


def lay(
    faults: Sequence[Fault], lack: dict[int, int], axis: Axis, awaited: Collection[int]
) -> list[Fault]:
    """Takes from the lack of each window what these faults explain. What they found no place for
    is returned; whose time is not known may be anywhere. Windows for which something is awaited
    come last: what they lack may have a better reason."""
    left = {id(each): each.count for each in faults}
    for some in (
        [each for each in sorted(lack) if each not in awaited],
        [each for each in sorted(lack) if each in awaited],
    ):
        _lay(faults, some, lack, left, axis)
    return [each for each in faults if not each.windows]


def _lay(
    faults: Sequence[Fault],
    windows: Sequence[int],
    lack: dict[int, int],
    left: dict[int, int],
    axis: Axis,
) -> None:
    touched = {id(each): axis.touched(*_times(each)) for each in faults if each.has_time}
    coming = [each for each in faults if each.has_time and left[id(each)]]
    coming.sort(key=lambda each: touched[id(each)].start)
    active: list[tuple[int, int, Fault]] = []
    at = 0
    for window in windows:
        while at < len(coming) and touched[id(coming[at])].start <= window:
            heappush(active, (touched[id(coming[at])].stop, at, coming[at]))
            at += 1
        while active and lack[window]:
            stop, _, fault = active[0]
            if stop <= window or not left[id(fault)]:
                heappop(active)
                continue
            _take(fault, window, lack, left)
    for fault in faults:
        if not fault.has_time:
            for window in windows:
                if not left[id(fault)]:
                    break
                _take(fault, window, lack, left)


def attach(faults: Iterable[Fault], axis: Axis) -> None:
    """To all windows that they may be in, where they have none yet."""
    for fault in faults:
        if not fault.windows and fault.has_time:
            fault.windows.extend(axis.touched(*_times(fault)))


def _take(fault: Fault, window: int, lack: dict[int, int], left: dict[int, int]) -> None:
    taken = min(left[id(fault)], lack[window])
    if taken:
        lack[window] -= taken
        left[id(fault)] -= taken
        fault.windows.append(window)


def _times(fault: Fault) -> tuple[int, int]:
    return fault.finding.from_time, fault.finding.to_time
