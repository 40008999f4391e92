"""What a loader accepts as the answer to its request for certificates, and what it does not."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from ground.signatures.envelopes import Signature
from ground.signatures.keys import SigningKey
from ledger.certificate_requests import (
    Answer,
    Answers,
    BadAnswer,
    Draft,
    Judgement,
    Request,
    accepted,
    certificate_of,
    same_rows_before,
    time_text,
)
from ledger.hour_certificates import (
    Certificate,
    Digest,
    Exceptions,
    Subject,
    Superseded,
    digest_of,
    envelope_of,
)

AUDIT, STRANGER = SigningKey.new(), SigningKey.new()
HOUR = 3_600_000
JUDGEMENT = Judgement(
    judged_at="2026-11-30T12:00:00Z",
    counts={"agent": 7, "hdfs": 7},
    exceptions=Exceptions(filtered=2),
    origins=("dc1",),
    version="2",
)


def _draft(hour: int, *supersedes: Superseded) -> Draft:
    subject = Subject(name=f"hour={hour}/part.parquet", digest=Digest(sha256="00" * 32))
    return Draft(
        topic="views",
        topic_id="id",
        hour=hour * HOUR,
        rows=7,
        subject=(subject,),
        supersedes=supersedes,
    )


REQUEST = Request(
    cluster="dc2",
    table="views",
    destination="hdfs://logs",
    version="1",
    number=4,
    previous="ab" * 32,
    hours=(_draft(1), _draft(2), _draft(3, Superseded(number=2, sha256="cd" * 32))),
)


def _answered(request: Request = REQUEST, refused: int = 1, key: SigningKey = AUDIT) -> Answers:
    """As an audit does it. It refuses the hour at this place."""
    number, previous = request.number, request.previous
    answers = []
    for place, draft in enumerate(request.hours):
        if place == refused:
            answers.append(Answer(refused="not yet", soon=True))
            continue
        certificate = certificate_of(request, draft, JUDGEMENT, number, previous)
        envelope = envelope_of(certificate).and_signed(key)
        answers.append(Answer(payload=envelope.payload, signature=envelope.signatures[0]))
        number, previous = number + 1, digest_of(envelope.payload)
    return Answers(key=key.public.raw, hours=tuple(answers))


def test_refused_hours_take_no_number() -> None:
    certified = list(accepted(REQUEST, _answered(), AUDIT.public))
    assert [draft.hour for draft, _ in certified] == [HOUR, 3 * HOUR]
    first, second = (Certificate.decode(envelope.payload) for _, envelope in certified)
    assert (first.predicate.number, first.predicate.previous) == (4, "ab" * 32)
    assert second.predicate.number == 5
    assert second.predicate.previous == digest_of(certified[0][1].payload)
    assert second.predicate.supersedes == (Superseded(number=2, sha256="cd" * 32),)
    assert second.predicate.exceptions.filtered == 2
    assert second.predicate.versions == {"audit": "2", "loader": "1"}
    assert second.predicate.hour == time_text(3 * HOUR) == "1970-01-01T03:00:00Z"


def _with_payload(change: Callable[[bytes], bytes]) -> Answers:
    """The payload is changed and signed again by the audit itself."""
    answers = _answered()
    first = answers.hours[0]
    payload = change(first.payload)
    assert payload != first.payload
    envelope = replace(envelope_of(Certificate.decode(_answered().hours[0].payload)))
    signed = replace(envelope, payload=payload).and_signed(AUDIT)
    changed = replace(first, payload=payload, signature=signed.signatures[0])
    return replace(answers, hours=(changed, *answers.hours[1:]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"rows":7', b'"rows":8'),
        (b'"number":4', b'"number":5'),
        (b"00" * 32, b"01" * 32),
        (b'"previous":"abab', b'"previous":"abac'),
        (b'"table":"views"', b'"table":"other"'),
        (b'"loader":"1"', b'"loader":"3"'),
        (b'"verdict":"complete"', b'"verdict":"perhaps!"'),
        (b'"rows":7', b'"rows":9,"rows":7'),
        (b'"rows":7', b'"rows": 7'),
    ],
)
def test_the_loaders_part_is_not_changed_even_by_the_audit(old: bytes, new: bytes) -> None:
    answers = _with_payload(lambda payload: payload.replace(old, new))
    with pytest.raises(BadAnswer, match="changes the loader's part of hour 1970-01-01T01"):
        list(accepted(REQUEST, answers, AUDIT.public))


def test_answers_that_do_not_fit() -> None:
    answers = _answered()
    with pytest.raises(BadAnswer, match="about 2 hours instead of 3"):
        list(accepted(REQUEST, replace(answers, hours=answers.hours[1:])))
    with pytest.raises(BadAnswer, match="another key"):
        list(accepted(REQUEST, _answered(key=STRANGER), AUDIT.public))
    assert len(list(accepted(REQUEST, _answered(key=STRANGER)))) == 2
    with pytest.raises(BadAnswer, match="another key"):
        list(accepted(REQUEST, replace(answers, key=b"")))
    with pytest.raises(BadAnswer, match="wrong signature"):
        list(accepted(REQUEST, replace(_answered(key=STRANGER), key=AUDIT.public.raw)))
    nonsense = Answer(payload=b"{}", signature=Signature("", ""))
    with pytest.raises(BadAnswer, match="has no certificate"):
        list(accepted(REQUEST, replace(answers, hours=(nonsense, *answers.hours[1:]))))


def test_the_certificate_before_counts_only_for_the_same_rows() -> None:
    certificate = certificate_of(REQUEST, _draft(1), JUDGEMENT, 3, None)
    before = envelope_of(certificate).and_signed(AUDIT).encoded
    draft = replace(_draft(1), before=before)
    assert same_rows_before(REQUEST, draft, AUDIT.public) == certificate
    assert same_rows_before(REQUEST, draft, STRANGER.public) is None
    assert same_rows_before(REQUEST, _draft(1), AUDIT.public) is None
    for other in (
        replace(draft, rows=8),
        replace(draft, hour=2 * HOUR),
        replace(draft, topic="clicks"),
        replace(draft, topic_id="other"),
        replace(draft, before=b"{}"),
        replace(draft, before=before.replace(b"payload", b"pay")),
    ):
        assert same_rows_before(REQUEST, other, AUDIT.public) is None
    assert same_rows_before(replace(REQUEST, table="x"), draft, AUDIT.public) is None
