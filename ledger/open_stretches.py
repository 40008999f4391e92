"""Open stretches of a journal: numbers between two proofs, not all of whose entries have been read.

A proof has the chain's head before its entry. If entries before it are missing, that head cannot be
computed: what was read of them waits, as digests (`Loose`), until the others come. Once all are
there, the chain either leads from the one proof to the other, and they are proven; or it does not,
and some of them are not the agent's.

        proven                 stretch                 proven
    … ──────────┤ first  …  (missing, or loose)  … ├────────── …
             `head`                        `previous` of the next proof

Several entries may have one number, if somebody else wrote some of them: the chain tells which of
them is the agent's. A number of them and of stretches is limited, so that an attacker cannot make
the reader compute or keep much.

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ledger.proofs import head_after

MOST_STRETCHES: Final = 64  # that are open, of a journal

_MOST_PATHS: Final = 16

Loose = Mapping[int, tuple[bytes, ...]]
"""The digests of entries without a signature, by number; the folded one is first."""


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """An open stretch. `head` is the chain's head before it, `previous` what the next proof says
    that it was after it."""

    first: int
    end: int
    head: bytes
    previous: bytes
    since: int  # milliseconds: what its entries are about
    until: int

    def is_whole(self, loose: Loose) -> bool:
        """Whether all entries have been read."""
        numbers = range(self.first, self.end)
        return len(numbers) <= len(loose) and all(seq in loose for seq in numbers)

    def path(self, loose: Loose) -> list[bytes] | None:
        """Returns the digests of the entries by which the chain leads through a whole stretch, if
        any."""
        paths: dict[bytes, list[bytes]] = {self.head: []}
        for seq in range(self.first, self.end):
            longer_paths = {
                head_after(head, digest): [*path, digest]
                for head, path in paths.items()
                for digest in loose[seq]
            }
            paths = dict(list(longer_paths.items())[:_MOST_PATHS])
        return paths.get(self.previous)


class Divided(NamedTuple):
    """Stretches that remain open, and others."""

    open: tuple[Stretch, ...]
    others: tuple[Stretch, ...]


def heads_known(
    stretches: Sequence[Stretch], end: int, head: bytes, loose: Loose
) -> Mapping[int, bytes]:
    """Returns the chain's heads before the numbers that follow a proven entry, and further ones as
    long as there is one loose entry of a number. `end` and `head` are those after the newest proven
    entry."""
    heads: dict[int, bytes] = {}
    for first, first_head in (
        (end, head),
        *((stretch.first, stretch.head) for stretch in stretches),
    ):
        seq, next_head = first, first_head
        heads[seq] = next_head
        while len(rivals := loose.get(seq, ())) == 1:
            seq, next_head = seq + 1, head_after(next_head, rivals[0])
            heads[seq] = next_head
    return heads


def without_proven(stretches: Sequence[Stretch], proven: Stretch) -> tuple[Stretch, ...]:
    """Takes numbers that have been proven out of the stretch that they are in. Of `proven`, `head`
    is the head after them and `previous` the one before; what remains before them is about times
    until its `until`, and what remains after them about times since its `since`."""
    remaining: list[Stretch] = []
    for stretch in stretches:
        if not stretch.first <= proven.first < stretch.end:
            remaining.append(stretch)
            continue
        if stretch.first < proven.first:
            remaining.append(
                replace(stretch, end=proven.first, previous=proven.previous, until=proven.until)
            )
        if proven.end < stretch.end:
            remaining.append(
                replace(stretch, first=proven.end, head=proven.head, since=proven.since)
            )
    return tuple(remaining)


def divided_by_wholeness(stretches: Sequence[Stretch], loose: Loose) -> Divided:
    """Returns the open stretches, and those all of whose entries have been read."""
    is_whole = [stretch.is_whole(loose) for stretch in stretches]
    pairs = list(zip(stretches, is_whole, strict=True))
    return Divided(
        tuple(stretch for stretch, whole in pairs if not whole),
        tuple(stretch for stretch, whole in pairs if whole),
    )


def divided_by_limit(stretches: Sequence[Stretch]) -> Divided:
    """Returns the stretches within the limit, and the oldest beyond it."""
    if len(stretches) <= MOST_STRETCHES:
        return Divided(tuple(stretches), ())
    by_number = sorted(stretches, key=lambda stretch: stretch.first)
    return Divided(tuple(by_number[-MOST_STRETCHES:]), tuple(by_number[:-MOST_STRETCHES]))
