"""Statements and heartbeats as entries of the ledger, none of them too large. Pure.

An entry says no more than fits; what it covers is what it says. A single batch with too many runs
is said with its offsets in one entry, and with its runs, without offsets, in others before it.
Windows of another length, as they were before a change of the configuration, have entries of their
own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.journal.state import Finished, NotSeen, Shipped, Statement
from agent.ledger.passages import (
    Json,
    PathOf,
    bare_passage,
    eventless_by_topic,
    finished_json,
    passages_of,
    unwatched_json,
)
from agent.parcels import Eventless
from agent.runs import Run
from ledger.names import VERSION

MOST_RUNS: Final = 2_000  # in an entry
_STATEMENT, _RUN, _WINDOW = 60, 120, 24  # bytes that they take, about


@dataclass(frozen=True, slots=True)
class Draft:
    """The lists of one entry, and the statements that it makes."""

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
    """All that there is to say, in entries of about so many bytes at most."""
    for length, part in _parts(statements, window_millis, most_bytes):
        yield from _drafts_of(part, path_of, topic_id, length)


def entry(draft: Draft, header: Json, *, cluster: str) -> dict[str, Any]:
    """A whole entry; what the draft does not have is empty."""
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
    for each in statements:
        length = each.window_millis if isinstance(each, Shipped) else window_millis
        by_length.setdefault(length, []).append(each)
    for length, mine in by_length.items():
        part: list[Statement] = []
        size = 0
        for each in mine:
            weight = weight_of(each)
            if part and size + weight > min(most_bytes, MOST_RUNS * _RUN):
                yield length, part
                part, size = [], 0
            part.append(each)
            size += weight
        if part:
            yield length, part


def weight_of(statement: Statement) -> int:
    """How many bytes it takes, about."""
    if isinstance(statement, Finished):
        return _STATEMENT + _RUN
    if isinstance(statement, NotSeen):
        return _STATEMENT + _RUN + len(statement.unwatched.reason)
    if isinstance(statement, Eventless):
        return _STATEMENT + _run_weight(statement.run)
    windows = _WINDOW * len(statement.windows)
    return _STATEMENT + sum(map(_run_weight, statement.runs)) + windows + len(statement.delays)


def _run_weight(run: Run) -> int:
    return _RUN + sum(len(each.reason) for each in run.excepted)


def _drafts_of(
    part: Sequence[Statement], path_of: PathOf, topic_id: Callable[[str], str], window_millis: int
) -> list[Draft]:
    shipped = [each for each in part if isinstance(each, Shipped)]
    if len(shipped) == 1 and len(shipped[0].runs) > MOST_RUNS:
        return _large(shipped[0], path_of)
    passages = passages_of([each for each in shipped if each.base_offset >= 0], path_of)
    for each in shipped:
        if each.base_offset < 0:
            passages.append(bare_passage(each.topic, each.topic_id, each.runs, path_of))
    eventless = [each for each in part if isinstance(each, Eventless)]
    for topic, runs in eventless_by_topic(eventless).items():
        passages.append(bare_passage(topic, topic_id(topic), runs, path_of))
    finished = [finished_json(each) for each in part if isinstance(each, Finished)]
    unwatched = unwatched_json([each.unwatched for each in part if isinstance(each, NotSeen)])
    lists: Json = {"passages": passages, "finished": finished, "unwatched": unwatched}
    return [Draft(lists, tuple(each.number for each in part), window_millis)]


def _large(shipped: Shipped, path_of: PathOf) -> list[Draft]:
    """The last one covers it: those before are in the log by then."""
    found = []
    for at in range(0, len(shipped.runs), MOST_RUNS):
        runs = shipped.runs[at : at + MOST_RUNS]
        passage = bare_passage(shipped.topic, shipped.topic_id, runs, path_of)
        found.append(Draft({"passages": [passage]}, (), shipped.window_millis))
    if shipped.base_offset >= 0:
        (passage,) = passages_of([shipped], path_of)
        lists = {"passages": [passage | {"runs": []}]}
        found.append(Draft(lists, (shipped.number,), shipped.window_millis))
    else:
        found[-1] = Draft(found[-1].lists, (shipped.number,), shipped.window_millis)
    return found
