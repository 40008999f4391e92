"""The chain of a table's certificates, without files."""

from collections.abc import Sequence
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.hour_certificates import Reference, Superseded
from penstock.verify.chain import Chain, Link, NewestLink, check_chain
from penstock.verify.faults import Kind

TABLE: Final = "clicks"


class History(msgspec.Struct, frozen=True):
    """All certificates that a table has had, and those that are in place."""

    all: tuple[Link, ...]
    in_place: tuple[Link, ...]

    @property
    def newest(self) -> NewestLink:
        last = self.all[-1]
        return NewestLink(
            number=last.number, sha256=last.sha256, path="newest", certificate=last.path
        )


def history(hours: Sequence[int]) -> History:
    """The certificates of these hours, one after the other; an hour may be there again."""
    links: list[Link] = []
    for number, hour in enumerate(hours, 1):
        older = [link for link in links if link.path == str(hour)]
        links.append(
            Link(
                number=number,
                sha256=f"digest {number}",
                previous=links[-1].sha256 if links else None,
                supersedes=tuple(
                    Superseded(number=link.number, sha256=link.sha256, previous=link.previous)
                    for link in older
                ),
                path=str(hour),
                is_trusted=True,
            )
        )
    newest = {link.path: link for link in links}
    return History(tuple(links), tuple(newest.values()))


HISTORIES: Final = st.lists(st.integers(0, 6), min_size=1, max_size=20).map(history)


def checked(
    links: Sequence[Link], newest: NewestLink | None, remembered: Reference | None = None
) -> Chain:
    return check_chain(links, newest, remembered, table=TABLE)


def kinds(chain: Chain) -> set[Kind]:
    return {fault.kind for fault in chain.faults}


@given(made=HISTORIES, data=st.data())
def test_a_whole_chain_has_no_fault_in_any_order(made: History, data: st.DataObject) -> None:
    links = data.draw(st.permutations(made.in_place))
    remembered = data.draw(st.sampled_from(made.all))
    reference = Reference(number=remembered.number, sha256=remembered.sha256)
    chain = checked(links, made.newest, reference)
    assert (chain.faults, chain.missing) == ((), 0)
    assert chain.newest is not None
    assert chain.newest.number == len(made.all)


@given(made=HISTORIES, data=st.data())
def test_each_certificate_that_was_removed_is_missed(made: History, data: st.DataObject) -> None:
    removed = data.draw(st.sets(st.sampled_from(made.in_place), min_size=1))
    links = [link for link in made.in_place if link not in removed]
    chain = checked(links, made.newest)
    assert kinds(chain) == {Kind.MISSING_NUMBER}
    assert chain.missing >= len(removed)  # those that only they superseded are missed, too


@given(made=HISTORIES, data=st.data())
def test_a_certificate_that_was_replaced_is_noticed(made: History, data: st.DataObject) -> None:
    """By one with two valid signatures. The digest of a certificate is in the one after it, or if
    that was superseded, in the one that lists it."""
    link = data.draw(st.sampled_from(made.in_place))
    other = msgspec.structs.replace(link, sha256="another")
    links = [other if link is other_link else other_link for other_link in made.in_place]
    assert kinds(checked(links, made.newest)) == {Kind.BROKEN_CHAIN}


@given(made=HISTORIES.filter(lambda made: len(made.in_place) < len(made.all)), data=st.data())
def test_an_older_certificate_that_was_put_back_is_noticed(
    made: History, data: st.DataObject
) -> None:
    old = data.draw(st.sampled_from([link for link in made.all if link not in made.in_place]))
    links = [old if link.path == old.path else link for link in made.in_place]
    assert kinds(checked(links, made.newest)) >= {Kind.MISSING_NUMBER}


@given(made=HISTORIES, shorter=HISTORIES)
def test_only_the_remembered_number_shows_a_rollback(made: History, shorter: History) -> None:
    remembered = Reference(number=made.newest.number, sha256=made.newest.sha256)
    chain = checked(shorter.in_place, shorter.newest, remembered)
    is_rollback = len(shorter.all) < len(made.all)
    assert kinds(chain) == ({Kind.ROLLED_BACK} if is_rollback else set())


def test_what_is_not_believed_fills_its_number_and_no_more() -> None:
    first, second = history([0, 1]).all
    doubted = msgspec.structs.replace(first, is_trusted=False)
    assert kinds(checked([doubted, second], None)) == set()
    far = msgspec.structs.replace(first, is_trusted=False, number=10**18)
    chain = checked([first, second, far], None)
    assert (chain.faults, chain.missing) == ((), 0)
    assert chain.newest == Reference(number=2, sha256=second.sha256)


@pytest.mark.parametrize(
    "changes",
    [
        {"previous": None},
        {"previous": "another"},
        {"supersedes": (Superseded(number=2, sha256="digest 2", previous="digest 1"),)},
        {"supersedes": (Superseded(number=1, sha256="another"),)},
        {"supersedes": (Superseded(number=1, sha256="digest 1", previous="another"),)},
    ],
)
def test_contradictions_in_a_chain(changes: dict[str, object]) -> None:
    first, second = history([0, 1]).all
    changed = msgspec.structs.replace(second, **changes)
    assert Kind.BROKEN_CHAIN in kinds(checked([first, changed], None))


def test_the_first_continues_nothing() -> None:
    (first,) = history([0]).all
    assert kinds(checked([msgspec.structs.replace(first, previous="another")], None)) == {
        Kind.BROKEN_CHAIN
    }
    assert checked([], None) == Chain(faults=(), newest=None, missing=0)
