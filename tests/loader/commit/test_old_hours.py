"""What is forgotten of old hours, and found again."""

import json
from hashlib import sha256

import msgspec
import pytest

from ledger.certificate_requests import Draft, Judgement, Request, certificate_of
from ledger.hour_certificates import Certificate, Subject, Superseded, envelope_of
from ledger.hour_certificates import Digest as HexDigest
from loader.commit.layout import hour_path, success_marker
from loader.commit.next_state import load_manifest
from loader.commit.old_hours import (
    LISTED_MILLIS,
    REMEMBERED_MILLIS,
    listed,
    recalled,
    state_from_marker,
    trimmed_hours,
)
from loader.store.store import Store
from loader.values.manifests import HourState, Manifest
from loader.values.tables import HOUR_MILLIS, Hour
from tests.loader.commit.made_up import HOUR, NOW, left_by, manifest, piece, plan_of, report, terms

DAY = 24 * HOUR_MILLIS
LONG_AGO = Hour(HOUR - REMEMBERED_MILLIS - DAY)
FOLDER = hour_path("t", LONG_AGO)


def test_names_of_files_go_first_and_complete_hours_later() -> None:
    def of(age: int, complete: int = 2) -> HourState:
        at = max(NOW - age, 0)
        return HourState(rows=9, files=("a", "b"), unlisted=3, complete=complete, at=at)

    hours = {
        Hour(0): of(LISTED_MILLIS),
        Hour(1): of(LISTED_MILLIS + 1),
        Hour(2): of(LISTED_MILLIS + 1, complete=-1),
        Hour(3): of(REMEMBERED_MILLIS),
        Hour(4): of(REMEMBERED_MILLIS + 1),
        Hour(5): of(REMEMBERED_MILLIS + 1, complete=-1),
    }
    after = trimmed_hours(hours, NOW)
    assert set(after) == {0, 1, 2, 3, 5}
    assert after[Hour(0)] == hours[Hour(0)]
    for hour in (1, 2, 3, 5):
        shorter = msgspec.structs.replace(hours[Hour(hour)], files=(), unlisted=5)
        assert after[Hour(hour)] == shorter
    assert trimmed_hours(after, NOW) == after


def test_an_hour_is_not_older_than_its_end() -> None:
    """Nor is one that was closed without ever having had rows."""
    state = HourState(rows=0, files=(), complete=3)
    assert trimmed_hours({HOUR: state}, NOW) == {HOUR: state}
    assert trimmed_hours({LONG_AGO: state}, NOW) == {}


def test_two_years_of_hours_are_little() -> None:
    """A complete manifest has all of this."""
    files = tuple(
        f"{hour_path('t', HOUR)}/part-dc1-{n}-1000000-2000000-77.parquet" for n in range(20)
    )
    first = HOUR - 2 * 365 * DAY
    hours = {
        Hour(hour): HourState(rows=9**9, files=files, bytes=9**9, changed=7, complete=8, at=hour)
        for hour in range(first, HOUR, HOUR_MILLIS)
    }
    before, after = (len(msgspec.json.encode(each)) for each in (hours, trimmed_hours(hours, NOW)))
    assert before > 20_000_000
    assert after < 3_000_000


def test_the_marker_of_a_complete_hour_says_what_was_known_of_it() -> None:
    state = HourState(
        rows=9, files=(), unlisted=4, bytes=77, changed=5, complete=3, late_rows=2, schema_number=6
    )
    marker = success_marker("t", HOUR, state, 5)
    assert state_from_marker(marker.content.encode()) == state
    assert state_from_marker(b"") is None  # Spark's own


def after_load(store: Store, before: Manifest) -> Manifest:
    slices = [piece(0, 10, 20)]
    return load_manifest(
        recalled(store, before, [LONG_AGO], NOW),
        plan_of(*slices),
        left_by(report(slices[0], {LONG_AGO: 10})),
        "t",
        terms(duplicate_share=1.0),
    )


@pytest.mark.parametrize("name", ["_SUCCESS", "_DAMAGED"])
def test_rows_of_an_hour_that_was_forgotten_are_late(store: Store, name: str) -> None:
    state = HourState(
        rows=5, files=("t/x", "t/y"), bytes=50, changed=1, complete=2, schema_number=1
    )
    marker = success_marker("t", LONG_AGO, state, 2)
    store.replace(marker.path.replace("_SUCCESS", name), marker.content.encode())
    made = after_load(store, manifest(8, hours={}))
    assert made.passages[0].late == {LONG_AGO: 10}
    late, success = made.markers
    assert json.loads(late.content)["rows"] == 10
    said = json.loads(success.content)
    assert (said["rows"], said["files"], said["late_rows"]) == (15, 3, 10)
    assert (said["run"], said["complete_since_run"]) == (9, 2)
    assert made.hours[LONG_AGO].at == NOW


def test_rows_of_an_hour_that_never_was_are_not(store: Store) -> None:
    made = after_load(store, manifest(8, hours={}))
    assert made.markers == ()
    assert made.hours[LONG_AGO].complete == -1
    assert made.passages[0].late == {}


def test_rows_of_a_complete_hour_without_rows_are_late(store: Store) -> None:
    """It has no state; and no marker, unless a former build wrote one."""
    complete = ((LONG_AGO, LONG_AGO + 3 * HOUR_MILLIS),)
    made = after_load(store, msgspec.structs.replace(manifest(8, hours={}), complete=complete))
    assert made.passages[0].late == {LONG_AGO: 10}
    late, success = map(json.loads, (marker.content for marker in made.markers[:2]))
    assert (late["rows"], success["rows"], success["complete_since_run"]) == (10, 10, 8)


def test_only_what_may_be_forgotten_is_looked_up(store: Store) -> None:
    """A hour that is open, or new, has no marker to be believed."""
    state = HourState(rows=5, files=("t/x",), complete=2)
    for hour in (HOUR, LONG_AGO):
        marker = success_marker("t", hour, state, 2)
        store.replace(marker.path, marker.content.encode())
    mine = manifest(8, hours={LONG_AGO: HourState(rows=1, files=("t/z",))})
    assert recalled(store, mine, [HOUR, LONG_AGO], NOW) == mine


def test_the_files_of_an_old_hour_are_those_in_its_folder(store: Store) -> None:
    for name in ("part-a", "part-b", "_SUCCESS", ".part-a.crc"):
        store.replace(f"{FOLDER}/{name}", b"x")
    old = HourState(rows=9, files=("t/new",), unlisted=1, complete=2)
    kept = HourState(rows=9, files=("t/x",), complete=2)
    before = manifest(8, hours={LONG_AGO: old, HOUR: kept})
    after = listed(store, before, [LONG_AGO, HOUR, Hour(0)])
    assert after.hours == {
        LONG_AGO: msgspec.structs.replace(
            old, files=(f"{FOLDER}/part-a", f"{FOLDER}/part-b"), unlisted=0
        ),
        HOUR: kept,
    }


def test_the_certificate_has_the_digests_of_an_old_hour(store: Store) -> None:
    """And which certificates the hour had. One that cannot be read has nothing."""
    digest = sha256(b"rows").digest()
    request = Request(
        cluster="dc1", table="t", destination="", version="1", number=9, previous="0" * 64, hours=()
    )
    folder = FOLDER.removeprefix("t/")
    draft = Draft(
        topic="t",
        topic_id="",
        hour=LONG_AGO,
        rows=3,
        subject=(Subject(name=f"{folder}/a", digest=HexDigest(sha256=digest.hex())),),
        supersedes=(Superseded(number=4, sha256="ab" * 32, previous="ac" * 32),),
    )
    judgement = Judgement(judged_at="", counts={}, version="1")
    envelope = envelope_of(certificate_of(request, draft, judgement, 9, "0" * 64))
    for name in ("a", "late"):
        store.replace(f"{FOLDER}/{name}", b"rows")
    old = HourState(rows=3, files=(), unlisted=2, complete=2, certified=2)
    latest = msgspec.structs.replace(manifest(7, hours={LONG_AGO: old}), table="t")
    for content, digests, numbers in (
        (envelope.encoded, (digest, b""), [4, 9]),
        (b"nonsense", (), []),
        (envelope_of(Certificate.decode(envelope.payload)).encoded[:-9], (), []),
    ):
        store.replace(f"{FOLDER}/_CERTIFICATE.json", content)
        state = listed(store, latest, [LONG_AGO]).hours[LONG_AGO]
        assert (state.files, state.unlisted) == ((f"{FOLDER}/a", f"{FOLDER}/late"), 0)
        assert state.digests == digests
        assert [issued.number for issued in state.certificates] == numbers
        previous = [issued.previous.hex() for issued in state.certificates]
        assert previous == ["ac" * 32, "0" * 64][: len(numbers)]
