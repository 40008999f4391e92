"""Which files become one. Pure."""

import heapq
from collections.abc import Mapping


def grouped(sizes: Mapping[str, int], wanted: int) -> list[list[str]]:
    """The files in so many groups, none of them empty, of about the same size."""
    groups: list[list[str]] = [[] for _ in range(min(wanted, len(sizes)))]
    heap = [(0, at) for at in range(len(groups))]
    for path in sorted(sizes, key=lambda each: (-sizes[each], each)):
        filled, at = heapq.heappop(heap)
        groups[at].append(path)
        heapq.heappush(heap, (filled + sizes[path], at))
    return [sorted(group) for group in groups]
