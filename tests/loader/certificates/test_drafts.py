"""Which hours need a certificate, and what the loader says of them."""

from typing import Any

import pytest
from msgspec.structs import replace

from ledger.hour_certificates import Digest as HexDigest
from ledger.hour_certificates import OffsetRange, Subject, Superseded
from loader.certificates.drafts import TRIED_MILLIS, draft_of, due_hours, is_due
from loader.certificates.issuing import empty_hours, next_number, without_certificates
from loader.commit.complete_hours import hours_after
from loader.commit.old_hours import DAY_MILLIS, trimmed_hours
from loader.values.manifests import HourState, Issued, Manifest, PartitionState, TopicState
from loader.values.tables import HOUR_MILLIS, UNKNOWN_DIGEST, Digest, Hour
from tests.loader.commit.made_up import manifest as made_up_manifest

BEGIN = Hour(1_795_132_800_000)  # 2026-11-20, midnight
FOLDER = "views/dt=2026-11-20/hour=00"
ONE, TWO = Digest(b"1" * 32), Digest(b"2" * 32)
ISSUED = (Issued(1, Digest(b"a" * 32)), Issued(4, Digest(b"b" * 32), Digest(b"c" * 32)))
STATE = HourState(
    rows=7,
    files=(f"{FOLDER}/b", f"{FOLDER}/a"),
    digests=(TWO, ONE),
    changed=5,
    complete=6,
    at=BEGIN + HOUR_MILLIS,
)
TOPIC = TopicState(
    topic="views",
    cluster="dc1",
    topic_id="0f3c2c5e-8f0e-4f0e-9d0c-2b7f3a1f0c11",
    partitions=(
        PartitionState(partition=0, next_offset=20, leader_epoch=3),
        PartitionState(partition=1, next_offset=0),
        PartitionState(partition=2, next_offset=5, absent=True),
    ),
)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"complete": -1}, False),
        ({"certified": 6}, False),
        ({"certified": 6, "changed": 7}, True),
        ({"certified": 6, "rewritten": 7}, True),
        ({"certified": 7, "rewritten": 7}, False),
        ({"digests": ()}, False),
        ({"digests": (ONE, UNKNOWN_DIGEST)}, False),
        ({"unlisted": 1}, False),
        ({"rows": 0, "files": (), "digests": ()}, False),
    ],
)
def test_an_hour_is_due(change: dict[str, Any], expected: bool) -> None:
    assert is_due(replace(STATE, **change)) == expected


def _manifest(state: HourState) -> Manifest:
    return replace(made_up_manifest(5), table="views", hours={BEGIN: state})


def test_an_hour_is_given_up_after_a_time() -> None:
    manifest = _manifest(STATE)
    over = BEGIN + HOUR_MILLIS
    assert due_hours(manifest, over + TRIED_MILLIS) == [BEGIN]
    assert due_hours(manifest, over + TRIED_MILLIS + 1) == []
    later = _manifest(replace(STATE, at=over + DAY_MILLIS))
    assert due_hours(later, over + TRIED_MILLIS + 1) == [BEGIN]


def test_a_draft_has_all_files_and_what_it_supersedes() -> None:
    draft = draft_of(_manifest(replace(STATE, certificates=ISSUED)), BEGIN, TOPIC, rebuilt=9)
    assert draft.subject == tuple(
        Subject(name=f"dt=2026-11-20/hour=00/{name}", digest=HexDigest(sha256=digest.hex()))
        for name, digest in (("a", ONE), ("b", TWO))
    )
    assert draft.topic_id == "DzwsXo8OTw6dDCt_Oh8MEQ"
    assert draft.offsets == (OffsetRange(partition=0, first=0, end=20, leader_epoch=3),)
    assert [old.number for old in draft.supersedes] == [1, 4]
    assert draft.supersedes == (
        Superseded(number=1, sha256=(b"a" * 32).hex()),
        Superseded(number=4, sha256=(b"b" * 32).hex(), previous=(b"c" * 32).hex()),
    )
    assert (draft.rows, draft.rebuilt, draft.before) == (7, 9, b"")


def test_numbers_continue() -> None:
    manifest = _manifest(STATE)
    assert next_number(manifest) == 1
    assert next_number(replace(manifest, newest_certificate=ISSUED[-1])) == 5


def test_an_hour_without_a_certificate_loses_none() -> None:
    assert without_certificates(_manifest(STATE), [BEGIN]).markers == ()
    manifest = without_certificates(_manifest(replace(STATE, certificates=ISSUED)), [BEGIN])
    (marker,) = manifest.markers
    assert (marker.path, marker.written) == (f"{FOLDER}/_CERTIFICATE.json", b"")


def test_empty_hours_are_those_without_rows_of_a_year() -> None:
    """Of older ones it is not known any more."""
    now = BEGIN + 400 * DAY_MILLIS
    full = Hour(BEGIN + 390 * DAY_MILLIS)
    manifest = replace(
        _manifest(STATE),
        hours={full: STATE, Hour(now): replace(STATE, complete=-1)},
        complete=((BEGIN, now),),
        committed=now,
    )
    first = BEGIN + 35 * DAY_MILLIS + HOUR_MILLIS
    assert empty_hours(manifest) == ((first, full), (full + HOUR_MILLIS, now))


def test_old_states_have_no_digests() -> None:
    """The folder's certificate has them, as it has the names of files."""
    old = replace(STATE, certificates=ISSUED, certified=6)
    (state,) = trimmed_hours({BEGIN: old}, BEGIN + 40 * DAY_MILLIS).values()
    assert (state.files, state.digests, state.certificates) == ((), (), ())
    assert (state.unlisted, state.certified) == (2, 6)
    assert hours_after(None, "views", {BEGIN: old}, run=7, now=BEGIN + DAY_MILLIS).hours == {
        BEGIN: old
    }
