"""Limits the old hours in a manifest, and recalls states that it lacks when they are needed.

A manifest lists all hours, so what it keeps of each must shrink with age. First the names of its
files go, since its folder has them as well. Then, if it is complete, the hour itself goes: its
`_SUCCESS`, or `_DAMAGED` in its place, has what is needed if rows should still arrive. A complete
hour without rows has no state at all (complete_hours.py).
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ground.intervals import has
from ground.known_types import known_type
from ground.signatures.envelopes import BadEnvelope, Envelope
from ledger.hour_certificates import BadCertificate, Certificate, digest_of
from loader.commit.layout import CERTIFICATE, DAMAGED, SUCCESS, hour_path
from loader.store.store import Store
from loader.values.manifests import HourState, Issued, Manifest
from loader.values.tables import HOUR_MILLIS, UNKNOWN_DIGEST, Digest, Hour

DAY_MILLIS: Final = 24 * HOUR_MILLIS
LISTED_MILLIS: Final = 30 * DAY_MILLIS  # since its last change
REMEMBERED_MILLIS: Final = 365 * DAY_MILLIS


def trimmed_hours(hours: Mapping[Hour, HourState], now: int) -> dict[Hour, HourState]:
    """The hours that a manifest keeps."""
    return {
        hour: _without_list(state) if _age(hour, state, now) > LISTED_MILLIS else state
        for hour, state in hours.items()
        if state.complete < 0 or _age(hour, state, now) <= REMEMBERED_MILLIS
    }


def is_empty(state: HourState) -> bool:
    """Whether the hour has no rows, and no files were deleted from it."""
    return not (state.rows or state.files or state.unlisted or state.whole)


def may_be_forgotten(hour: Hour, now: int) -> bool:
    """Whether the hour is old enough to have been dropped from the manifest."""
    return now - hour > REMEMBERED_MILLIS


class _Success(msgspec.Struct, frozen=True):
    """The content of a complete hour's marker (loader/commit/layout.py)."""

    run: int
    complete_since_run: int
    rows: int
    late_rows: int
    files: int
    bytes: int
    schema_number: int = 0


def state_from_marker(success: bytes) -> HourState | None:
    """The state of a complete hour from its marker. None if another program wrote the marker."""
    try:
        marker = msgspec.json.decode(success, type=known_type(_Success))
    except msgspec.MsgspecError:
        return None
    return HourState(
        rows=marker.rows,
        files=(),
        unlisted=marker.files,
        bytes=marker.bytes,
        changed=marker.run,
        complete=marker.complete_since_run,
        late_rows=marker.late_rows,
        schema_number=marker.schema_number,
    )


def _age(hour: Hour, state: HourState, now: int) -> int:
    return now - max(state.at, hour + HOUR_MILLIS)


def _without_list(state: HourState) -> HourState:
    if not state.files:
        return state
    return msgspec.structs.replace(
        state,
        files=(),
        digests=(),
        certificates=(),
        unlisted=state.unlisted + len(state.files),
    )


def recalled(store: Store, manifest: Manifest, hours: Iterable[Hour], now: int) -> Manifest:
    """Returns the manifest with the states of these hours that it lacks: of complete hours without
    rows, and of those that were complete long ago, from their markers."""
    states: dict[Hour, HourState] = {}
    for hour in hours:
        if hour in manifest.hours:
            continue
        state = _from_folder(store, manifest.table, hour) if may_be_forgotten(hour, now) else None
        if state is None and has(manifest.complete, hour):
            state = HourState(rows=0, files=(), complete=manifest.run)
        if state is not None:
            states[hour] = state
    return msgspec.structs.replace(manifest, hours={**manifest.hours, **states})


def _from_folder(store: Store, table: str, hour: Hour) -> HourState | None:
    folder = hour_path(table, hour)
    marker_content = store.read(f"{folder}/{SUCCESS}") or store.read(f"{folder}/{DAMAGED}")
    return None if marker_content is None else state_from_marker(marker_content)


def listed(store: Store, manifest: Manifest, hours: Iterable[Hour]) -> Manifest:
    """Returns the manifest with the paths of all files of these hours, and what their certificates
    have that it lacks."""
    states = {
        hour: _listed(store, manifest.table, hour, state)
        for hour in hours
        if (state := manifest.hours.get(hour)) is not None and state.unlisted
    }
    return msgspec.structs.replace(manifest, hours={**manifest.hours, **states})


def _listed(store: Store, table: str, hour: Hour, state: HourState) -> HourState:
    folder = hour_path(table, hour)
    entries = store.list(folder)
    issued, digests = state.certificates, state.digest_by_file
    if any(entry.name == CERTIFICATE for entry in entries):
        issued, certified_digests = _certified(table, store.read(f"{folder}/{CERTIFICATE}") or b"")
        digests = certified_digests | digests
    return msgspec.structs.replace(
        state.with_files(
            {
                entry.path: digests.get(entry.path, UNKNOWN_DIGEST)
                for entry in entries
                if not entry.is_folder and not entry.name.startswith(("_", "."))
            }
        ),
        unlisted=0,
        certificates=issued,
    )


def _certified(table: str, content: bytes) -> tuple[tuple[Issued, ...], dict[str, Digest]]:
    """The certificates of an hour, and the digests of its files, from its newest certificate. What
    somebody has written into it is noticed by whoever verifies the chain."""
    try:
        payload = Envelope.decode(content).payload
        certificate = Certificate.decode(payload)
        predicate = certificate.predicate
        issued = [
            *((old.number, old.sha256, old.previous) for old in predicate.supersedes),
            (predicate.number, digest_of(payload), predicate.previous),
        ]
        return (
            tuple(
                Issued(number, _digest(sha256), _digest(previous))
                for number, sha256, previous in issued
            ),
            {f"{table}/{file.name}": _digest(file.digest.sha256) for file in certificate.subject},
        )
    except (BadEnvelope, BadCertificate, ValueError):
        return (), {}


def _digest(sha256: str | None) -> Digest:
    return UNKNOWN_DIGEST if sha256 is None else Digest(bytes.fromhex(sha256))
