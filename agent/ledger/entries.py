"""Statements and heartbeats as entries of the ledger, none of them too large. Pure.

An entry has at most so many runs. A single batch with more is said with its offsets in one entry,
and with its runs, without offsets, in others; all of them travel in one batch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.journal.state import Finished, Shipped, Statement
from agent.ledger.passages import (
    Json,
    PathOf,
    bare_passage,
    eventless_by_topic,
    finished_json,
    passages_of,
)
from agent.parcels import Eventless

VERSION: Final = 1
MOST_RUNS: Final = 2_000  # in an entry
MOST_ENTRIES: Final = 4  # at once


@dataclass(frozen=True, slots=True)
class Draft:
    """The lists of one entry, and the statements that it makes."""

    lists: Json
    covers: tuple[int, ...]


def drafts(
    statements: Sequence[Statement], path_of: PathOf, topic_id: Callable[[str], str]
) -> list[Draft]:
    """Of the first statements, as many as may be said at once."""
    found: list[Draft] = []
    for part in _parts(statements):
        if len(found) >= MOST_ENTRIES:
            break
        found += _drafts_of(part, path_of, topic_id)
    return found


def entry(lists: Json, header: Json, *, cluster: str, window_millis: int) -> dict[str, Any]:
    """A whole entry; what `lists` does not have is empty."""
    return {
        "header": header,
        "version": VERSION,
        "tier": "agent",
        "cluster": cluster,
        "window_millis": window_millis,
        **lists,
    }


def _parts(statements: Sequence[Statement]) -> Iterator[list[Statement]]:
    part: list[Statement] = []
    weight = 0
    for each in statements:
        runs = len(each.runs) + 1 if isinstance(each, Shipped) else 1
        if part and weight + runs > MOST_RUNS:
            yield part
            part, weight = [], 0
        part.append(each)
        weight += runs
    if part:
        yield part


def _drafts_of(
    part: Sequence[Statement], path_of: PathOf, topic_id: Callable[[str], str]
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
    lists: Json = {"passages": passages, "finished": finished}
    return [Draft(lists, tuple(each.number for each in part))]


def _large(shipped: Shipped, path_of: PathOf) -> list[Draft]:
    """The last one covers it: those before are in the log by then."""
    found = []
    for at in range(0, len(shipped.runs), MOST_RUNS):
        runs = shipped.runs[at : at + MOST_RUNS]
        passage = bare_passage(shipped.topic, shipped.topic_id, runs, path_of)
        found.append(Draft({"passages": [passage]}, ()))
    if shipped.base_offset >= 0:
        (passage,) = passages_of([shipped], path_of)
        found.append(Draft({"passages": [passage | {"runs": []}]}, (shipped.number,)))
    else:
        found[-1] = Draft(found[-1].lists, (shipped.number,))
    return found
