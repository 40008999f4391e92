"""What is named as missing against what the sums lack: which windows a fault is one of, and how
much of a window's lack nobody can name.

An event is in one window, but its batch may reach into several. So faults are laid on the windows
that they may be in, those that must end first being laid first, until the lack is filled.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from audit.reconciling.axis import Axis
from audit.reconciling.faults import Fault


def lay(faults: Iterable[Fault], lack: dict[int, int], axis: Axis) -> list[Fault]:
    """Takes from the lack of each window what these faults explain. What they found no place for
    is returned; whose time is not known may be anywhere."""
    some = list(faults)
    coming = sorted(
        (each for each in some if each.has_time), key=lambda each: each.finding.from_time
    )
    left = {id(each): each.count for each in some}
    touched = {id(each): axis.touched(*_times(each)) for each in coming}
    active: list[tuple[int, int, Fault]] = []
    at = 0
    for window in sorted(lack):
        while at < len(coming) and touched[id(coming[at])].start <= window:
            heappush(active, (touched[id(coming[at])].stop, at, coming[at]))
            at += 1
        while active and lack[window]:
            stop, _, fault = active[0]
            if stop <= window or not left[id(fault)]:
                heappop(active)
                continue
            _take(fault, window, lack, left)
    for fault in some:
        if not fault.has_time:
            for window in sorted(lack):
                _take(fault, window, lack, left)
    return [each for each in some if not each.windows]


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
