"""Statements of a journal as the ledger's passages: intervals that touch are taken together. Pure.

What a passage says is the sum of what its statements say, so it does not matter how statements are
spread over entries, only that each is in exactly one.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from agent.accounts import is_loss, joined
from agent.blind_times import Unwatched
from agent.journal.state import Finished, Shipped
from agent.parcels import Eventless
from agent.runs import KnownSource, Run
from ground.printable import path_text
from ledger.names import NOWHERE

Json = dict[str, Any]
PathOf = Callable[[str], str]


def passages_of(shipped: Iterable[Shipped], path_of: PathOf) -> list[Json]:
    """One for each partition and leader epoch, runs in the order of offsets."""
    together: dict[tuple[str, str, int, int], list[Shipped]] = defaultdict(list)
    for each in shipped:
        key = (each.topic, each.topic_id, each.partition, each.leader_epoch)
        together[key].append(each)
    return [
        _passage(sorted(found, key=lambda each: each.base_offset), path_of)
        for found in together.values()
    ]


def bare_passage(topic: str, topic_id: str, runs: Iterable[Run], path_of: PathOf) -> Json:
    """Runs that cannot be given together with offsets."""
    return {
        "topic": topic,
        "topic_id": topic_id,
        "partition": NOWHERE,
        "offsets": [],
        "windows": [],
        "runs": [run_json(run, path_of) for run in merged(runs)],
    }


def finished_json(finished: Finished) -> Json:
    return {
        "topic": finished.topic,
        "source": finished.source,
        "path": path_text(finished.path),
        "events": finished.events,
        "size": finished.size,
    }


def unwatched_json(unwatched: Iterable[Unwatched]) -> list[Json]:
    """Times of one folder that touch, of which the same can be told, are one."""
    found: list[Unwatched] = []
    for each in unwatched:
        before = found[-1] if found else None
        if before is not None and _goes_on(before, each):
            found[-1] = replace(before, to_millis=max(before.to_millis, each.to_millis))
        else:
            found.append(each)
    return [
        {
            "topic": each.topic,
            "path": path_text(each.path),
            "source": each.source,
            "position": each.position,
            "from_time": each.from_millis,
            "to_time": each.to_millis,
            "traces": each.traces.value,
            "reason": path_text(each.reason),
        }
        for each in found
    ]


def _goes_on(before: Unwatched, after: Unwatched) -> bool:
    is_same = (before.topic, before.path, before.traces, before.source, "") == (
        *(after.topic, after.path, after.traces, after.source),
        after.source,
    )
    return is_same and before.from_millis <= after.from_millis <= before.to_millis


def file_json(known: KnownSource) -> Json:
    """Which file a source is. Where nobody knows when a file was made, another one may have had
    its device and inode."""
    identity = f"{known.device:x}-{known.inode:x}-{known.born_ns:x}" if known.born_ns else ""
    return {
        "topic": known.topic,
        "source": known.id,
        "path": path_text(known.last_path or known.path),
        "identity": identity,
        "head_size": known.fingerprint.size,
        "head": known.fingerprint.digest.hex(),
        "shorter_heads": known.fingerprint.shorter.hex(),
        "forgotten_before": known.forgotten_before,
    }


def eventless_by_topic(eventless: Iterable[Eventless]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = defaultdict(list)
    for each in eventless:
        found[each.topic].append(each.run)
    return found


def merged(runs: Iterable[Run]) -> list[Run]:
    """Runs that follow one another, in their file as in the log, are one."""
    found: list[Run] = []
    for run in runs:
        if found and _touch(found[-1], run):
            found[-1] = joined(found[-1], run)
        else:
            found.append(run)
    return found


def run_json(run: Run, path_of: PathOf) -> Json:
    return {
        "source": run.source,
        "path": path_text(path_of(run.source)),
        "seq": run.seq,
        "events": run.events,
        "position": run.position,
        "end_position": run.end_position,
        "lines": -1 if run.lines == run.events else run.lines,
        "excepted": [
            {
                "fate": each.fate.value,
                "count": each.count,
                "bytes": each.bytes,
                "reason": path_text(each.reason),
            }
            for each in run.excepted
        ],
    }


def _passage(shipped: Sequence[Shipped], path_of: PathOf) -> Json:
    first = shipped[0]
    runs = merged(run for each in shipped for run in each.runs)
    measured = all(sum(each.delays) == each.offsets for each in shipped)
    delays = zip_longest(*(each.delays for each in shipped if measured), fillvalue=0)
    return {
        "topic": first.topic,
        "topic_id": first.topic_id,
        "partition": first.partition,
        "leader_epoch": first.leader_epoch,
        "offsets": [{"first": start, "count": count} for start, count in _stretches(shipped)],
        "windows": _windows(shipped),
        "runs": [run_json(run, path_of) for run in runs],
        "delays": [sum(counts) for counts in delays],
    }


def _stretches(shipped: Iterable[Shipped]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for each in shipped:
        if found and sum(found[-1]) == each.base_offset:
            first, count = found[-1]
            found[-1] = first, count + each.offsets
        else:
            found.append((each.base_offset, each.offsets))
    return found


def _windows(shipped: Iterable[Shipped]) -> list[Json]:
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for window in (window for each in shipped for window in each.windows):
        found = sums[window.start]
        found[0] += window.events
        found[1] += window.bytes
        found[2] += window.crc_sum
    return [
        {"start": start, "events": events, "bytes": size, "crc_sum": crc_sum}
        for start, (events, size, crc_sum) in sorted(sums.items())
    ]


def _touch(before: Run, after: Run) -> bool:
    follows = (
        before.source == after.source
        and before.seq + before.events == after.seq
        and before.end_position == after.position
    )
    return follows and not (is_loss(before) or is_loss(after))
