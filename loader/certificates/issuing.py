"""Adds signed certificates to the manifest of a run. Pure.

A certificate is a marker of the run, and its number and digest are in the table's state. So a run
commits its certificates with its hours, a crash in between is rolled forward with the same bytes,
and a number is never used twice.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from ground.intervals import Intervals, merged, minus
from ground.signatures.envelopes import Envelope
from ground.signatures.keys import SigningKey
from ledger.certificate_requests import time_text
from ledger.hour_certificates import (
    Digest,
    Newest,
    NewestHour,
    Reference,
    Subject,
    digest_of,
    envelope_of,
)
from loader.commit.layout import CERTIFICATE, hour_path, newest_certificate_path, no_marker
from loader.commit.old_hours import REMEMBERED_MILLIS, is_empty
from loader.values.manifests import Issued, Manifest, Marker
from loader.values.tables import (
    FIRST_TIME,
    HOUR_MILLIS,
    UNKNOWN_DIGEST,
    Hour,
    hour_folder,
    hour_of,
)
from loader.values.tables import Digest as DigestBytes

FIRST_NUMBER: Final = 1


def next_number(manifest: Manifest) -> int:
    newest = manifest.newest_certificate
    return FIRST_NUMBER if newest is None else newest.number + 1


def with_certificates(
    manifest: Manifest, signed: Sequence[tuple[Hour, Envelope]], key: SigningKey
) -> Manifest:
    """The manifest with these certificates, in the order of their numbers, and with the loader's
    signature on each."""
    if not signed:
        return manifest
    hours, markers = dict(manifest.hours), list[Marker]()
    newest = manifest.newest_certificate
    previous = UNKNOWN_DIGEST if newest is None else newest.digest
    for number, (hour, envelope) in enumerate(signed, next_number(manifest)):
        digest = DigestBytes(bytes.fromhex(digest_of(envelope.payload)))
        issued, previous = Issued(number, digest, previous), digest
        hours[hour] = msgspec.structs.replace(
            hours[hour],
            certificates=(*hours[hour].certificates, issued),
            certified=manifest.run,
        )
        path = f"{hour_path(manifest.table, hour)}/{CERTIFICATE}"
        markers.append(Marker(path=path, content=envelope.and_signed(key).encoded.decode()))
    newest_hour = signed[-1][0]
    manifest = msgspec.structs.replace(
        manifest,
        hours=hours,
        markers=(*markers, *manifest.markers),  # before `_SUCCESS`
        newest_certificate=issued,
    )
    return msgspec.structs.replace(
        manifest, markers=(*manifest.markers, _newest(manifest, newest_hour, issued, key))
    )


def without_certificates(manifest: Manifest, hours: Collection[Hour]) -> Manifest:
    """The manifest of a run that removes the certificates of these hours, whose files have gone.
    Their numbers stay known, so the next one supersedes them."""
    markers = [
        no_marker(manifest.table, hour, CERTIFICATE)
        for hour in sorted(hours)
        if manifest.hours[hour].certificates
    ]
    return msgspec.structs.replace(manifest, markers=(*markers, *manifest.markers))


def _newest(manifest: Manifest, hour: Hour, issued: Issued, key: SigningKey) -> Marker:
    sha256 = issued.digest.hex()
    statement = Newest(
        subject=(Subject(name=f"{hour_folder(hour)}/{CERTIFICATE}", digest=Digest(sha256=sha256)),),
        predicate=NewestHour(
            table=manifest.table,
            newest=Reference(number=issued.number, sha256=sha256),
            empty_hours=tuple(
                (time_text(first), time_text(end)) for first, end in empty_hours(manifest)
            ),
        ),
    )
    envelope = envelope_of(statement).and_signed(key)
    return Marker(path=newest_certificate_path(manifest.table), content=envelope.encoded.decode())


def empty_hours(manifest: Manifest) -> Intervals:
    """The complete hours without rows, of the last year: the manifest has forgotten which of the
    older ones had rows."""
    first_hour = hour_of(manifest.committed - REMEMBERED_MILLIS) + HOUR_MILLIS
    hours_with_rows = merged(
        (hour, hour + HOUR_MILLIS) for hour, state in manifest.hours.items() if not is_empty(state)
    )
    return minus(minus(manifest.complete, hours_with_rows), ((FIRST_TIME, first_hour),))
