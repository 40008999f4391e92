"""Checks that a table has all of its certificates: numbers, digests, the newest one.

Each certificate has the digest of the one before it, and of those that it supersedes and the ones
before them. So the digest of each number is known twice, and no certificate can be removed,
replaced or put back without a fault, but for the newest ones. Those are covered by the signed
statement `_penstock/{table}/newest_certificate.json`; and if that is put back as well, only by what
an earlier run has remembered.

Certificates that are not believed only fill their numbers and those that they supersede, as they
have a fault of their own.

Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ledger.hour_certificates import Reference, Superseded
from penstock.verify.faults import Fault, Kind

FIRST_NUMBER: Final = 1


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What the chain needs of a certificate that is in place."""

    number: int
    sha256: str
    previous: str | None
    supersedes: tuple[Superseded, ...]
    path: str  # of the certificate, below the root of the tables
    is_trusted: bool


class NewestLink(msgspec.Struct, frozen=True, kw_only=True):
    """What the statement about the newest certificate says."""

    number: int
    sha256: str
    path: str  # of the statement
    certificate: str  # the path of the certificate


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The result: faults, and the newest certificate."""

    faults: tuple[Fault, ...]
    newest: Reference | None  # None without certificates
    missing: int  # certificates that are neither in place nor superseded


def check_chain(
    links: Sequence[Link],
    newest: NewestLink | None,
    remembered: Reference | None,
    *,
    table: str,
    allow_missing: bool = False,
) -> Chain:
    """Checks the certificates of one table. `allow_missing`: that some are missing is no fault."""
    by_number: dict[int, list[Link]] = {}
    for link in links:
        by_number.setdefault(link.number, []).append(link)
    trusted = sorted((link for link in links if link.is_trusted), key=lambda link: link.number)
    own = {link.number: link.sha256 for link in reversed(trusted)}
    named = [old for link in trusted for old in link.supersedes]
    superseded = {old.number: old.sha256 for old in named}
    before = {old.number - 1: old.previous for old in named if old.previous is not None}
    before |= {link.number - 1: link.previous for link in trusted if link.previous is not None}
    digests = before | superseded | own
    faults = [*_repeated(by_number), *_broken(trusted, digests)]
    greatest = trusted[-1].number if trusted else 0
    if newest is not None:
        faults += _newest_faults(newest, digests, greatest, by_number)
        digests.setdefault(newest.number, newest.sha256)
        greatest = max(greatest, newest.number)
    filled = {old.number for link in links for old in link.supersedes}
    gaps = list(_gaps(by_number.keys() | filled, greatest))
    if not allow_missing:
        faults += [_gap_fault(gap, by_number, newest, table) for gap in gaps]
    if remembered is not None:
        faults += _rollback(remembered, digests, greatest, table)
    return Chain(
        faults=tuple(faults),
        newest=Reference(number=greatest, sha256=digests[greatest]) if greatest else None,
        missing=sum(end - first for first, end in gaps),
    )


def _repeated(by_number: Mapping[int, Sequence[Link]]) -> Iterator[Fault]:
    for number, links in by_number.items():
        if len({link.sha256 for link in links}) > 1:
            words = f"has the number {number}, as {links[0].path} has"
            yield Fault(kind=Kind.REPEATED_NUMBER, path=links[1].path, words=words)


def _broken(trusted: Sequence[Link], digests: Mapping[int, str]) -> Iterator[Fault]:
    places = {link.number: link.path for link in trusted}
    for link in trusted:
        before = link.number - 1
        if (link.previous is None) != (link.number == FIRST_NUMBER):
            names = "names no" if before else "names a"
            words = f"is number {link.number}, and {names} certificate before it"
            yield Fault(kind=Kind.BROKEN_CHAIN, path=link.path, words=words)
        elif digests.get(before) != link.previous:
            place = places.get(before, "that was superseded")
            words = f"does not continue the certificate number {before}, {place}"
            yield Fault(kind=Kind.BROKEN_CHAIN, path=link.path, words=words)
        for old in link.supersedes:
            if digests.get(old.number - 1) != old.previous:
                place = places.get(old.number - 1, "as others know it")
                words = f"supersedes number {old.number}, which does not continue {place}"
                yield Fault(kind=Kind.BROKEN_CHAIN, path=link.path, words=words)
            if old.number >= link.number:
                words = f"is number {link.number}, and supersedes number {old.number}"
                yield Fault(kind=Kind.BROKEN_CHAIN, path=link.path, words=words)
            elif digests[old.number] != old.sha256:
                place = places.get(old.number, "as others know it")
                words = f"supersedes another certificate number {old.number} than {place}"
                yield Fault(kind=Kind.BROKEN_CHAIN, path=link.path, words=words)


def _newest_faults(
    newest: NewestLink,
    digests: Mapping[int, str],
    greatest: int,
    by_number: Mapping[int, Sequence[Link]],
) -> Iterator[Fault]:
    if digests.get(newest.number, newest.sha256) != newest.sha256:
        place = by_number[newest.number][0].path if newest.number in by_number else "others"
        words = f"names another certificate number {newest.number} than {place}"
        yield Fault(kind=Kind.BROKEN_CHAIN, path=newest.path, words=words)
    if newest.number < greatest:
        words = f"names number {newest.number}, and there is number {greatest}"
        yield Fault(kind=Kind.OLD_NEWEST, path=newest.path, words=words)


def _gaps(numbers: Iterable[int], greatest: int) -> Iterator[tuple[int, int]]:
    """The ranges of numbers that are missing up to the greatest one, with exclusive ends."""
    expected = FIRST_NUMBER
    for number in sorted(numbers):
        if number > greatest:
            break
        if number > expected:
            yield expected, number
        expected = max(expected, number + 1)
    if expected <= greatest:
        yield expected, greatest + 1


def _gap_fault(
    gap: tuple[int, int],
    by_number: Mapping[int, Sequence[Link]],
    newest: NewestLink | None,
    table: str,
) -> Fault:
    first, end = gap
    numbers = f"number {first}" if end == first + 1 else f"numbers {first} to {end - 1}"
    if newest is not None and newest.number == end - 1:
        words = f"is missing: {numbers} of the certificates of {table}, up to the newest"
        return Fault(kind=Kind.MISSING_NUMBER, path=newest.certificate, words=words)
    neighbours = [
        f"number {number} is {by_number[number][0].path}"
        for number in (first - 1, end)
        if number in by_number
    ]
    words = f"has no certificate of {numbers} ({'; '.join(neighbours)})"
    return Fault(kind=Kind.MISSING_NUMBER, path=table, words=words)


def _rollback(
    remembered: Reference, digests: Mapping[int, str], greatest: int, table: str
) -> Iterator[Fault]:
    digest = digests.get(remembered.number)
    if greatest < remembered.number:
        has = f"only {greatest}" if greatest else "none"
        words = f"an earlier run has seen certificates up to number {remembered.number}, now {has}"
        yield Fault(kind=Kind.ROLLED_BACK, path=table, words=words)
    elif digest is not None and digest != remembered.sha256:
        words = f"certificate number {remembered.number} is another than an earlier run has seen"
        yield Fault(kind=Kind.ROLLED_BACK, path=table, words=words)
