"""Finds the copy in which a source continues after it has lost its file.

Candidates are the input's files without a source, and files beside the lost one whose names begin
like its name. `identity` decides what counts as a copy, by rule 12.
"""

import os
from collections.abc import Callable, Collection, Iterator
from typing import Final

from agent.files.input_files import InputFiles
from agent.files.listing import Survey, sighting_from
from agent.files.shared_by_inputs import SharedByInputs
from agent.recognition.compressed import has_compressed_name
from agent.recognition.file_search import related_names
from agent.recognition.followed import Followed
from agent.recognition.identity import (
    FULL,
    IdentityVerdict,
    SeenFile,
    Sighting,
    begins,
    left_in_copy,
    shows_copied,
    taken_over,
)

_MOST_BESIDE: Final = 64


def copy_among(input_files: InputFiles, old: Followed, shared: SharedByInputs) -> Followed | None:
    """Returns the copy of `old` among the input's files; None if there is none."""
    for followed, seen_file in _unclear(input_files, old, shared):
        was_alike = followed.likeness.like.get(old) == followed.size
        if was_alike or _is_taken_over(input_files, old, seen_file):
            return followed
    return None


def copy_beside(
    input_files: InputFiles, old: Followed, shared: SharedByInputs
) -> tuple[Sighting, int] | None:
    """Opens the copy of `old` that has a name the input does not match; None if there is none."""

    def is_its(_at: Sighting, seen: SeenFile) -> bool:
        return _is_taken_over(input_files, old, seen)

    return _beside(input_files, old, shared, is_its)


def copy_left_among(
    input_files: InputFiles, old: Followed, shared: SharedByInputs
) -> Followed | None:
    """Returns the newest copy of `old` among the input's files, if `old` is gone and has no
    archive; None if no copy is certain."""
    if not _is_sought(input_files, old):
        return None
    mtimes: dict[Followed, int] = {}
    for followed, seen_file in _unclear(input_files, old, shared):
        if begins(old.fingerprint, seen_file.head, old.content.head):
            if not shows_copied(seen_file) or not _is_left(old, seen_file):
                return None
            mtimes[followed] = seen_file.mtime_ns
    return max(mtimes, key=mtimes.__getitem__, default=None)


def copy_left_beside(
    input_files: InputFiles, old: Followed, surveys: Collection[Survey], shared: SharedByInputs
) -> tuple[Sighting, int] | None:
    """Opens a copy of `old` that no input matches, if `old` is gone and has no archive; None if
    there is none."""
    if not _is_sought(input_files, old):
        return None

    def is_its(at: Sighting, seen: SeenFile) -> bool:
        is_meant = any(survey.means(at.path) for survey in surveys)
        is_known = is_meant or input_files.memory.has(at.identity)
        return not is_known and _is_left(old, seen)

    copy = _beside(input_files, old, shared, is_its)
    if copy is not None and any(
        begins(old.fingerprint, seen.head, old.content.head)
        for _, seen in _unclear(input_files, old, shared)
    ):
        os.close(copy[1])
        return None
    return copy


def _unclear(
    input_files: InputFiles, old: Followed, shared: SharedByInputs
) -> Iterator[tuple[Followed, SeenFile]]:
    """The input's files without a source, compared with the lost one."""
    for followed in list(shared.attention.unclear):
        if input_files.files.get(followed.identity) is not followed:
            continue
        try:
            fd = followed.open()
            seen_file = None if fd is None else old.seen(fd)
        except OSError as error:
            shared.cannot_read(followed.current_path, error)
            continue
        if seen_file is not None:
            yield followed, seen_file


def _is_sought(input_files: InputFiles, old: Followed) -> bool:
    """Whether a search makes sense: enough of the file is known, and no other source begins alike,
    whose copy could be mistaken for it. Checked before files are opened, since those without a
    source may be many."""
    if old.fingerprint.size < FULL:
        return False
    followed = [*input_files.files.values(), *input_files.unpacking]
    other_fingerprints = [
        fingerprint.fingerprint
        for fingerprint in followed
        if fingerprint is not old and fingerprint.source
    ]
    other_fingerprints += [
        source.fingerprint for source in input_files.memory.all() if source.id != old.source
    ]
    return all(fingerprint.digest != old.fingerprint.digest for fingerprint in other_fingerprints)


def _is_taken_over(input_files: InputFiles, old: Followed, seen: SeenFile) -> bool:
    file_there = input_files.files.get(old.identity)
    born_ns = None if file_there is None else file_there.born_ns
    return taken_over(old.remembered(), seen, born_ns) is IdentityVerdict.COPY


def _is_left(old: Followed, seen: SeenFile) -> bool:
    return left_in_copy(old.remembered(), seen) is IdentityVerdict.COPY


def _beside(
    input_files: InputFiles,
    old: Followed,
    shared: SharedByInputs,
    is_its: Callable[[Sighting, SeenFile], bool],
) -> tuple[Sighting, int] | None:
    if not old.fingerprint.size:
        return None
    for path in _names_beside(old):
        try:
            fd, status = shared.handles.open(path)
        except OSError:
            continue
        try:
            sighting = sighting_from(status, path)
            if sighting.identity not in input_files.files and is_its(sighting, old.seen(fd)):
                return sighting, fd
        except OSError as error:
            shared.cannot_read(path, error)
        os.close(fd)
    return None


def _names_beside(old: Followed) -> Iterator[str]:
    """Files beside the lost one that may be its copy, newest first."""
    candidates = [
        (status.st_mtime_ns, path)
        for path, status in related_names(old)
        if not has_compressed_name(path) and status.st_size >= old.progress.position
    ]
    candidates.sort(reverse=True)
    yield from (path for _, path in candidates[:_MOST_BESIDE])
