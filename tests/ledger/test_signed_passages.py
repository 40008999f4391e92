"""Which passages count as signed: those that their journals prove by themselves."""

import msgspec
import pytest

from ledger.signed_passages import PassageReader, SignedPassage
from tests.ledger.said import ENCODERS, entry
from tests.ledger.signed_entries import HOUR, TIME, SigningAgent, in_portions, signed_passage
from wire.record_batches.records import Record

DIGESTS = [bytes([number]) * 16 for number in range(8)]
TOPICS = ["clicks"]
NOW = TIME + 5 * HOUR


def signed(
    records: list[Record], size: int = 100, reader: PassageReader | None = None
) -> list[SignedPassage]:
    """What is read in portions of this size, as by loads that save what they know in between."""
    reader = reader or PassageReader()
    passages: list[SignedPassage] = []
    for rows in in_portions(records, size):
        passages += reader.take(rows.body, rows.proofs, TOPICS, NOW)
        reader = msgspec.json.decode(msgspec.json.encode(reader), type=PassageReader)
    return passages


def digests_of(passages: list[SignedPassage]) -> list[bytes]:
    return [passage.digest for passage in passages]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_an_entry_counts_once_a_signature_covers_it(size: int) -> None:
    """The last entry is still pending."""
    agent = SigningAgent()
    stated = [
        signed_passage(agent.source, (10 * at, 10 * at + 10), digest=digest, start=TIME + HOUR * at)
        for at, digest in enumerate(DIGESTS)
    ]
    records = [
        agent.says(passage, beats=at % 3 == 0 and at > 0) for at, passage in enumerate(stated[:7])
    ]
    records.append(agent.says(stated[7], beats=False))
    passages = signed(records, size)
    assert digests_of(passages) == DIGESTS[:7]
    assert passages[2] == SignedPassage(
        *(agent.name, "web-1", "clicks", "", 0),
        ((20, 30),),
        DIGESTS[2],
        (TIME + 2 * HOUR,),
        NOW,
    )


def test_what_is_not_signed_by_the_journals_own_key_does_not_count() -> None:
    """Without a key; with another key; changed after it was signed; of another topic; without a
    digest; and with stretches in no order."""
    agent, thief = SigningAgent(), SigningAgent()
    unsigned = entry("old-agent", 0, (TIME, TOPICS), passages=[signed_passage("s", (0, 1))])
    unsigned["passages"][0]["digest"] = DIGESTS[0]
    first = agent.says(signed_passage(agent.source, (0, 5), digest=DIGESTS[1]))
    thief.name = agent.name
    stolen = thief.says(signed_passage(agent.source, (5, 9), digest=DIGESTS[2]))
    true = agent.says(signed_passage(agent.source, (5, 9), digest=DIGESTS[3]))
    altered = true._replace(value=(true.value or b"").replace(DIGESTS[3], DIGESTS[4]))
    others = agent.says(
        signed_passage(agent.source, (9, 12), digest=DIGESTS[5], topic="views"),
        signed_passage(agent.source, (9, 12)),
        signed_passage(agent.source, (15, 16), (12, 13), digest=DIGESTS[6]),
    )
    records = [Record(0, 0, None, ENCODERS[7].encode(unsigned)), first, stolen, altered, others]
    assert digests_of(signed(records)) == [DIGESTS[1]]
    assert digests_of(signed([first, stolen, altered, true])) == [DIGESTS[1], DIGESTS[3]]


def test_a_source_of_another_signing_journal_is_not_claimed() -> None:
    """Sources of earlier releases belong to nobody."""
    agent, thief = SigningAgent(), SigningAgent()
    records = [
        agent.says(signed_passage(agent.source, (0, 5), digest=DIGESTS[0])),
        thief.says(signed_passage(agent.source, (5, 9), digest=DIGESTS[1])),
        thief.says(signed_passage("an-older-source", (5, 9), digest=DIGESTS[2])),
    ]
    assert digests_of(signed(records)) == [DIGESTS[0], DIGESTS[2]]


@pytest.mark.parametrize("size", [1, 100])
def test_a_forged_entry_does_not_hide_the_true_one(size: int) -> None:
    """It comes after the true one, with its number."""
    agent = SigningAgent()
    first = agent.says(signed_passage(agent.source, (0, 5), digest=DIGESTS[0]))
    true = agent.says(signed_passage(agent.source, (5, 9), digest=DIGESTS[1]), beats=False)
    forged = true._replace(value=(true.value or b"").replace(DIGESTS[1], DIGESTS[2]))
    last = agent.says(signed_passage(agent.source, (9, 12), digest=DIGESTS[3]))
    passages = signed([first, true, forged, last], size)
    assert sorted(digests_of(passages)) == [DIGESTS[0], DIGESTS[1], DIGESTS[3]]


def test_what_was_lost_before_its_proof_does_not_count() -> None:
    agent = SigningAgent()
    first = agent.says()
    pending = agent.says(signed_passage(agent.source, (0, 5), digest=DIGESTS[0]), beats=False)
    agent.says(signed_passage(agent.source, (5, 9), digest=DIGESTS[1]), beats=False)
    last = agent.says(signed_passage(agent.source, (9, 12), digest=DIGESTS[2]))
    assert digests_of(signed([first, pending, last])) == [DIGESTS[2]]
    assert digests_of(signed([first, pending, last], size=1)) == [DIGESTS[2]]
