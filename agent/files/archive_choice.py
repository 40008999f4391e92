"""Decides whether an archive that the journal does not have is read."""

from typing import Final

from agent.configuration.file_inputs import FileInput
from agent.files.unreadable import born_at
from agent.recognition.compressed import has_archive_name
from agent.recognition.identity import Sighting

NOT_UNPACKED: Final = "its format is not read"
MAY_HAVE_BEEN_READ: Final = "the input may have read its lines before"

_MILLIS_NS: Final = 1_000_000


def why_skipped(
    of: FileInput, archive: Sighting, since_millis: int, archives_since_millis: int, wall: float
) -> str:
    """Why an archive that the journal does not have is not read; empty if it is read."""
    if not has_archive_name(archive.path):
        return NOT_UNPACKED
    since_ns, mtime_ns = since_millis * _MILLIS_NS, archive.mtime_ns
    if mtime_ns < since_ns and of.starts_at_end(mtime_ns / 1e9):
        return f"it is older than the input, and start is {of.start}"
    if of.is_too_old(mtime_ns / 1e9, wall):
        return "it is older than ignore_older"
    made_ns = born_at(archive.path) or mtime_ns
    if since_ns <= made_ns < archives_since_millis * _MILLIS_NS:
        return MAY_HAVE_BEEN_READ
    return ""
