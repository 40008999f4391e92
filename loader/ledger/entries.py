"""A run's entries of the ledger, none of them too large. Pure.

How many they are is fixed in the manifest before it is committed, as the next run's are numbered
from there. So how a manifest is divided must not change as long as there may be one that is
committed, and not in the ledger yet.
"""

import uuid
from collections.abc import Iterator
from typing import Final

import msgspec

from ledger.names import VERSION
from loader.config import LoaderConfig
from loader.ledger.passages import Json, Statement, begun, rebuilt, statements
from loader.manifests import LedgerJournal, Manifest

APP: Final = "penstock-loader"
MOST_BYTES: Final = 256 * 1024  # of an entry, about
_SECOND: Final = 1000


def in_ledger(manifest: Manifest, previous: Manifest | None, config: LoaderConfig) -> Manifest:
    """With all that its entries follow from. They are numbered on from those of the run before.

    The journal says which commit log this is, so it stays the same as long as that does: whatever
    the root is called by now, and while nothing is told.
    """
    before = previous.ledger if previous is not None else None
    if not config.ledger:
        return msgspec.structs.replace(manifest, ledger=before)
    journal = LedgerJournal(
        source=before.source if before is not None else f"loader-{uuid.uuid4().hex}",
        cluster=config.cluster,
        destination=destination_of(previous, config),
        window_millis=config.window * _SECOND,
    )
    told = msgspec.structs.replace(manifest, ledger=journal)
    return msgspec.structs.replace(told, ledger_entries=entry_count(told))


def destination_of(latest: Manifest | None, config: LoaderConfig) -> str:
    """The root as the ledger has it, where a table was loaded before; or as it is called now."""
    known = latest.ledger if latest is not None else None
    return config.root if known is None else known.destination


def entry_count(manifest: Manifest) -> int:
    return sum(1 for _ in _divided(manifest))


def entries_of(manifest: Manifest) -> list[Json]:
    """What there is to say, in the order of its numbers."""
    journal = manifest.ledger
    if journal is None or not manifest.ledger_entries:
        return []
    replaced = rebuilt(manifest)
    return [
        {
            "header": {
                "time": manifest.committed,
                "host": manifest.loader.partition("/")[0],
                "app": APP,
                "source": journal.source,
                "seq": manifest.ledger_seq + at,
                "position": 0,
            },
            "version": VERSION,
            "tier": "hdfs",
            "cluster": journal.cluster,
            "destination": journal.destination,
            "run": manifest.run,
            "window_millis": window_millis,
            "passages": [each.passage for each in part],
            # What passages speak of is told by their own entry.
            "rebuilt": replaced,
        }
        for at, (window_millis, part) in enumerate(_divided(manifest))
    ]


def _divided(manifest: Manifest) -> Iterator[tuple[int, list[Statement]]]:
    """What goes together into an entry, and how long its windows are."""
    journal = manifest.ledger
    if journal is None:
        return
    part: list[Statement] = []
    length, weight, said = journal.window_millis, 0, False
    for each in _statements(manifest, journal.window_millis):
        if part and (each.window_millis != length or weight + each.weight > MOST_BYTES):
            yield length, part
            part, weight, said = [], 0, True
        part.append(each)
        length, weight = each.window_millis, weight + each.weight
    part += begun(manifest, journal.window_millis)
    if part or (manifest.rebuilt and not said):
        yield length, part


def _statements(manifest: Manifest, window_millis: int) -> Iterator[Statement]:
    for passage in manifest.passages:
        if passage.next_offset > passage.first:
            yield from statements(passage, window_millis)
