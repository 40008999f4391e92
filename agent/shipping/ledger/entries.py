"""Makes ledger entries from statements and heartbeats, within a size limit. Pure.

Adjacent intervals are merged: a passage is the sum of its statements, so it does not matter how
statements are spread over entries, only that each is in exactly one.

An entry covers exactly the statements that it contains. A batch with too many runs gets one entry
with its offsets, after others with its runs but without offsets. Windows of another length, from
before a change of the configuration, get entries of their own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agent.accounting.accounts import is_loss, joined
from agent.accounting.alterations import AlteredText
from agent.accounting.parcels import Eventless
from agent.accounting.runs import KnownSource, Run
from agent.history.blind_times import Unwatched
from agent.journal.state import Finished, NotSeen, Shipped, Statement
from agent.shipping.ledger.alterations import altered_json
from ground.printable import path_text
from ledger.names import NOWHERE, VERSION
from ledger.passage_digests import digest_of_passage

Json = dict[str, Any]
PathOf = Callable[[str], str]

MOST_RUNS: Final = 2_000  # in an entry
_STATEMENT, _RUN, _WINDOW = 60, 120, 24  # their approximate sizes in bytes


class Draft(msgspec.Struct, frozen=True):
    """The lists of an entry, and the numbers of its statements."""

    lists: Json
    covers: tuple[int, ...]
    window_millis: int


def drafts(
    statements: Sequence[Statement],
    path_of: PathOf,
    topic_id: Callable[[str], str],
    *,
    window_millis: int,
    most_bytes: int,
) -> Iterator[Draft]:
    """Drafts of entries for all statements, each of about `most_bytes` at most."""
    for length, part in _parts(statements, window_millis, most_bytes):
        yield from _drafts_of(part, path_of, topic_id, length)


def entry(draft: Draft, header: Json, *, cluster: str) -> dict[str, Any]:
    """The complete entry; lists that the draft lacks are empty."""
    return {
        "header": header,
        "version": VERSION,
        "tier": "agent",
        "cluster": cluster,
        "window_millis": draft.window_millis,
        **draft.lists,
    }


def _parts(
    statements: Sequence[Statement], window_millis: int, most_bytes: int
) -> Iterator[tuple[int, list[Statement]]]:
    by_length: dict[int, list[Statement]] = {}
    for statement in statements:
        length = statement.window_millis if isinstance(statement, Shipped) else window_millis
        by_length.setdefault(length, []).append(statement)
    for length, same_length in by_length.items():
        part: list[Statement] = []
        size = 0
        for statement in same_length:
            weight = weight_of(statement)
            if part and size + weight > min(most_bytes, MOST_RUNS * _RUN):
                yield length, part
                part, size = [], 0
            part.append(statement)
            size += weight
        if part:
            yield length, part


def weight_of(statement: Statement) -> int:
    """The approximate size of a statement in bytes."""
    if isinstance(statement, Finished):
        return _STATEMENT + _RUN
    if isinstance(statement, NotSeen):
        return _STATEMENT + _RUN + len(statement.unwatched.reason)
    if isinstance(statement, Eventless):
        return _STATEMENT + _run_weight(statement.run)
    if isinstance(statement, AlteredText):
        return _STATEMENT + _RUN + len(statement.path) + len(statement.altered.name)
    windows = _WINDOW * len(statement.windows)
    return _STATEMENT + sum(map(_run_weight, statement.runs)) + windows + len(statement.delays)


def _run_weight(run: Run) -> int:
    return _RUN + sum(len(excepted.reason) for excepted in run.excepted)


def _drafts_of(
    part: Sequence[Statement], path_of: PathOf, topic_id: Callable[[str], str], window_millis: int
) -> list[Draft]:
    shipped_batches = [statement for statement in part if isinstance(statement, Shipped)]
    if len(shipped_batches) == 1 and len(shipped_batches[0].runs) > MOST_RUNS:
        return _large(shipped_batches[0], path_of)
    passages = passages_of(
        [statement for statement in shipped_batches if statement.base_offset >= 0], path_of
    )
    for statement in shipped_batches:
        if statement.base_offset < 0:
            passages.append(
                bare_passage(statement.topic, statement.topic_id, statement.runs, path_of)
            )
    eventless = [statement for statement in part if isinstance(statement, Eventless)]
    for topic, runs in _eventless_by_topic(eventless).items():
        passages.append(bare_passage(topic, topic_id(topic), runs, path_of))
    finished_entries = [
        _finished_json(statement) for statement in part if isinstance(statement, Finished)
    ]
    unwatched = _unwatched_json(
        [statement.unwatched for statement in part if isinstance(statement, NotSeen)]
    )
    lists: Json = {"passages": passages, "finished": finished_entries, "unwatched": unwatched}
    if altered_entries := altered_json(
        statement for statement in part if isinstance(statement, AlteredText)
    ):
        lists["altered"] = altered_entries
    return [Draft(lists, tuple(statement.number for statement in part), window_millis)]


def _large(shipped: Shipped, path_of: PathOf) -> list[Draft]:
    """Drafts for a batch with many runs. The last one covers it, since the others precede it."""
    parts = []
    for start in range(0, len(shipped.runs), MOST_RUNS):
        runs = shipped.runs[start : start + MOST_RUNS]
        passage = bare_passage(shipped.topic, shipped.topic_id, runs, path_of)
        parts.append(Draft({"passages": [passage]}, (), shipped.window_millis))
    if shipped.base_offset >= 0:
        (passage,) = passages_of([shipped], path_of)
        lists = {"passages": [passage | {"runs": []}]}
        parts.append(Draft(lists, (shipped.number,), shipped.window_millis))
    else:
        parts[-1] = Draft(parts[-1].lists, (shipped.number,), shipped.window_millis)
    return parts


def passages_of(shipped: Iterable[Shipped], path_of: PathOf) -> list[Json]:
    """A passage for each partition and leader epoch, with runs in the order of offsets."""
    batches_by_epoch: dict[tuple[str, str, int, int], list[Shipped]] = defaultdict(list)
    for batch in shipped:
        key = (batch.topic, batch.topic_id, batch.partition, batch.leader_epoch)
        batches_by_epoch[key].append(batch)
    return [
        _passage(sorted(batches, key=lambda batch: batch.base_offset), path_of)
        for batches in batches_by_epoch.values()
    ]


def bare_passage(topic: str, topic_id: str, runs: Iterable[Run], path_of: PathOf) -> Json:
    """A passage of runs without offsets."""
    return {
        "topic": topic,
        "topic_id": topic_id,
        "partition": NOWHERE,
        "offsets": [],
        "windows": [],
        "runs": [run_json(run, path_of) for run in merged(runs)],
    }


def _finished_json(finished: Finished) -> Json:
    return {
        "topic": finished.topic,
        "source": finished.source,
        "path": path_text(finished.path),
        "events": finished.events,
        "size": finished.size,
    }


def _unwatched_json(unwatched: Iterable[Unwatched]) -> list[Json]:
    """The statements as JSON; adjacent times of a folder with the same traces are merged."""
    united_statements: list[Unwatched] = []
    for statement in unwatched:
        previous = united_statements[-1] if united_statements else None
        if previous is not None and _goes_on(previous, statement):
            united_statements[-1] = replace(
                previous, to_millis=max(previous.to_millis, statement.to_millis)
            )
        else:
            united_statements.append(statement)
    return [
        {
            "topic": statement.topic,
            "path": path_text(statement.path),
            "source": statement.source,
            "position": statement.position,
            "from_time": statement.from_millis,
            "to_time": statement.to_millis,
            "traces": statement.traces.value,
            "reason": path_text(statement.reason),
        }
        for statement in united_statements
    ]


def _goes_on(before: Unwatched, after: Unwatched) -> bool:
    is_same = (before.topic, before.path, before.traces, before.source, "") == (
        *(after.topic, after.path, after.traces, after.source),
        after.source,
    )
    return is_same and before.from_millis <= after.from_millis <= before.to_millis


def file_json(known: KnownSource) -> Json:
    """The file of a source. Without creation time there is no identity, since device and inode may
    have been another file's."""
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


def _eventless_by_topic(eventless: Iterable[Eventless]) -> dict[str, list[Run]]:
    runs_by_topic: dict[str, list[Run]] = defaultdict(list)
    for eventless_run in eventless:
        runs_by_topic[eventless_run.topic].append(eventless_run.run)
    return runs_by_topic


def merged(runs: Iterable[Run]) -> list[Run]:
    """Joins runs that are consecutive both in their file and in the log."""
    result: list[Run] = []
    for run in runs:
        if result and _touch(result[-1], run):
            result[-1] = joined(result[-1], run)
        else:
            result.append(run)
    return result


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
                "fate": excepted.fate.value,
                "count": excepted.count,
                "bytes": excepted.bytes,
                "reason": path_text(excepted.reason),
            }
            for excepted in run.excepted
        ],
    }


def _passage(shipped: Sequence[Shipped], path_of: PathOf) -> Json:
    first_batch = shipped[0]
    runs = merged(run for batch in shipped for run in batch.runs)
    has_delays = all(sum(batch.delays) == batch.offsets for batch in shipped)
    delays = zip_longest(*(batch.delays for batch in shipped if has_delays), fillvalue=0)
    return {
        "topic": first_batch.topic,
        "topic_id": first_batch.topic_id,
        "partition": first_batch.partition,
        "leader_epoch": first_batch.leader_epoch,
        "offsets": [{"first": start, "count": count} for start, count in _stretches(shipped)],
        "windows": _windows(shipped),
        "runs": [run_json(run, path_of) for run in runs],
        "delays": [sum(counts) for counts in delays],
        "digest": _digest(shipped),
    }


def _digest(shipped: Sequence[Shipped]) -> bytes:
    """The digest of a passage; empty if that of one of its batches is unknown."""
    digests = [batch.digest for batch in shipped]
    return digest_of_passage(digests) if all(digests) else b""


def _stretches(shipped: Iterable[Shipped]) -> list[tuple[int, int]]:
    stretches: list[tuple[int, int]] = []
    for batch in shipped:
        if stretches and sum(stretches[-1]) == batch.base_offset:
            first, count = stretches[-1]
            stretches[-1] = first, count + batch.offsets
        else:
            stretches.append((batch.base_offset, batch.offsets))
    return stretches


def _windows(shipped: Iterable[Shipped]) -> list[Json]:
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for window in (window for batch in shipped for window in batch.windows):
        total = sums[window.start]
        total[0] += window.events
        total[1] += window.bytes
        total[2] += window.crc_sum
    return [
        {"start": start, "events": events, "bytes": size, "crc_sum": crc_sum}
        for start, (events, size, crc_sum) in sorted(sums.items())
    ]


def _touch(before: Run, after: Run) -> bool:
    is_next = (
        before.source == after.source
        and before.seq + before.events == after.seq
        and before.end_position == after.position
    )
    return is_next and not (is_loss(before) or is_loss(after))
