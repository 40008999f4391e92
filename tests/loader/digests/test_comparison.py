"""Batches that were read, against what agents have signed of them."""

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.passage_digests import digest_of_passage
from ledger.signed_passages import SignedPassage
from loader.digests.comparison import Comparison, Log
from loader.values.batch_digests import UNKNOWN_CONTENT, ReadBatch, packed, unpacked
from loader.values.tables import HOUR_MILLIS

LOG = Log("clicks", "", 0)
HOUR = 497_000 * HOUR_MILLIS


def batch(first: int, end: int, content: bytes = b"") -> ReadBatch:
    digest = sha256(content or b"%d-%d" % (first, end)).digest()
    return ReadBatch(first, end, HOUR + first, HOUR + end, digest)


def passage(*batches: ReadBatch) -> SignedPassage:
    stretches: list[tuple[int, int]] = []
    for first, end, *_ in batches:
        if stretches and stretches[-1][1] == first:
            stretches[-1] = stretches[-1][0], end
        else:
            stretches.append((first, end))
    digest = digest_of_passage([part.digest for part in batches])
    return SignedPassage("j", "web-1", *LOG, tuple(stretches), digest, (HOUR,), HOUR)


def compared(
    batches: list[ReadBatch], passages: list[SignedPassage], next_offset: int = 1_000
) -> Comparison:
    comparison = Comparison()
    comparison.compare(LOG, batches, passages, next_offset)
    return comparison


ONE, TWO, THREE, FOUR = (batch(at, at + 10) for at in range(0, 40, 10))


def test_what_agents_have_signed_is_compared_and_the_rest_waits() -> None:
    true = passage(ONE, THREE)
    result = compared([ONE, TWO, THREE, FOUR], [true])
    assert (result.differences, result.settled) == ([], [true])
    assert result.waiting == {LOG: [TWO, FOUR]}


def test_a_passage_waits_until_all_of_it_has_been_read() -> None:
    result = compared([ONE], [passage(ONE, TWO)], next_offset=10)
    assert (result.differences, result.settled, result.waiting) == ([], [], {LOG: [ONE]})


@pytest.mark.parametrize(
    "read",
    [
        [ONE, batch(10, 20, b"altered")],
        [ONE, batch(10, 15), batch(15, 20)],
        [batch(0, 20)],
        [ONE, batch(10, 21)],
        [batch(-1, 10), TWO],
        [batch(0, 10, b"10-20"), batch(10, 20, b"0-10")],
    ],
)
def test_a_difference_names_offsets_and_agent(read: list[ReadBatch]) -> None:
    """Another content, more or fewer batches, others than those at the ends, another order."""
    result = compared(read, [passage(ONE, TWO)])
    (difference,) = result.differences
    assert difference.offsets == (0, 20)
    assert (HOUR, HOUR + HOUR_MILLIS) in difference.times
    assert str(difference) == (
        "clicks-0: not what the agent sent: the SHA-256 of offsets 0 to 19 differs from what agent"
        " web-1 has signed"
    )
    assert (len(result.settled), result.waiting) == (1, {})


def test_each_stretch_of_a_passage_that_differs_is_named() -> None:
    result = compared([ONE, TWO, batch(20, 30, b"altered")], [passage(ONE, THREE), passage(TWO)])
    assert [part.offsets for part in result.differences] == [(0, 10), (20, 30)]


def test_what_another_agent_has_signed_does_not_make_up_for_a_difference() -> None:
    """One of them lies, and nobody can tell which."""
    altered = batch(0, 10, b"altered")
    assert len(compared([altered], [passage(altered), passage(ONE)]).differences) == 1


@pytest.mark.parametrize("read", [[ONE], [], [ONE, TWO._replace(digest=UNKNOWN_CONTENT)]])
def test_nothing_is_said_about_batches_that_are_not_there_any_more(read: list[ReadBatch]) -> None:
    result = compared(read, [passage(ONE, TWO)])
    assert (result.differences, len(result.settled)) == ([], 1)


@given(st.data())
def test_one_altered_batch_is_found_wherever_it_is(data: st.DataObject) -> None:
    """All batches belong to some passage, as agents take turns."""
    bounds = sorted(data.draw(st.sets(st.integers(0, 500), min_size=2, max_size=30)))
    batches = [batch(first, end) for first, end in pairwise(bounds)]
    agents = data.draw(st.lists(st.integers(0, 3), min_size=len(batches), max_size=len(batches)))
    passages = [
        passage(*(part for part, owner in zip(batches, agents, strict=True) if owner == agent))
        for agent in sorted(set(agents))
    ]
    assert compared(batches, passages).differences == []
    place = data.draw(st.integers(0, len(batches) - 1))
    altered = [*batches]
    altered[place] = batch(*batches[place][:2], b"altered")
    first, end = batches[place][:2]
    differences = compared(altered, passages).differences
    assert any(part.offsets[0] <= first and end <= part.offsets[1] for part in differences)


@given(
    st.lists(
        st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 4, st.binary(min_size=32, max_size=32))
    )
)
def test_batches_are_packed_as_they_are(batches: list[tuple[int, int, int, int, bytes]]) -> None:
    read = [ReadBatch(*part) for part in batches]
    assert list(unpacked(b"".join(map(packed, read)))) == read


def test_offsets_are_compared_only_with_all_batches_of_their_passage() -> None:
    """Where an offset that this load has read has no batch, compaction has removed it."""
    both = passage(ONE, TWO)
    assert compared([ONE, TWO], [both]).compared == {LOG: [(0, 20)]}
    other = ReadBatch(10, 20, HOUR, HOUR, b"\1" * 32)
    assert compared([ONE, other], [both]).compared == {}
    comparison = Comparison()
    comparison.compare(LOG, [TWO], [both], 1_000, read_from=10)
    assert (comparison.compared, comparison.settled) == ({}, [both])
    assert compared([TWO], [both]).compared == {LOG: [(0, 20)]}
