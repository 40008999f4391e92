"""The loader's part of certificates: which hours need one, and what it says of them. Pure.

Rule 1: an hour needs a certificate if it is complete, has rows, and its files have changed since
        its last one. An hour without rows has none.
Rule 2: the digests of all of its files must be known; those that releases before certificates have
        landed are not.
Rule 3: an hour that the audit does not certify within seven days is given up, since an audit
        forgets hours.
"""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from ledger.certificate_requests import Draft
from ledger.hour_certificates import Digest, OffsetRange, Subject, Superseded
from ledger.names import topic_id_text
from loader.commit.old_hours import is_empty
from loader.values.manifests import HourState, Manifest, TopicState
from loader.values.tables import HOUR_MILLIS, Hour

TRIED_MILLIS: Final = 7 * 24 * HOUR_MILLIS


def due_hours(manifest: Manifest, now: int) -> list[Hour]:
    """The hours that need a certificate, in order."""
    return [
        hour
        for hour, state in sorted(manifest.hours.items())
        if is_due(state) and now - max(state.at, hour + HOUR_MILLIS) <= TRIED_MILLIS
    ]


def is_due(state: HourState) -> bool:
    is_changed = state.certified < max(state.complete, state.changed, state.rewritten)
    return state.complete >= 0 and is_changed and not is_empty(state) and _is_known(state)


def _is_known(state: HourState) -> bool:
    """Whether the digests of all files are known."""
    return not state.unlisted and len(state.digests) > 0 and all(state.digests)


def draft_of(
    manifest: Manifest, hour: Hour, topic: TopicState, *, rebuilt: int = 0, before: bytes = b""
) -> Draft:
    """The draft of an hour whose digests are known. `rebuilt` is when it was rebuilt with fewer
    rows, in milliseconds."""
    state, folder = manifest.hours[hour], f"{manifest.table}/"
    return Draft(
        topic=topic.topic,
        topic_id=topic_id_text(UUID(topic.topic_id) if topic.topic_id else None),
        hour=hour,
        rows=state.rows,
        subject=tuple(
            Subject(name=path.removeprefix(folder), digest=Digest(sha256=digest.hex()))
            for path, digest in sorted(state.digest_by_file.items())
        ),
        offsets=tuple(_offsets(topic)),
        supersedes=tuple(
            Superseded(
                number=issued.number,
                sha256=issued.digest.hex(),
                previous=issued.previous.hex() or None,
            )
            for issued in state.certificates
        ),
        rebuilt=rebuilt,
        before=before,
    )


def _offsets(topic: TopicState) -> Iterable[OffsetRange]:
    """The offsets up to which the table has read, from the beginning of each log."""
    for partition in topic.partitions:
        if partition.next_offset > 0 and not partition.absent:
            yield OffsetRange(
                partition=partition.partition,
                first=0,
                end=partition.next_offset,
                leader_epoch=partition.leader_epoch,
            )
