"""In which copy a source that has lost its file goes on.

It is sought among the input's own files that have no source yet, and beside its file, under names
that begin like its own. What counts as a copy is decided in `identity`, by rule 12; here those are
found that may be one.
"""

import os
from collections.abc import Callable, Collection, Iterator
from typing import Final

from agent.files.input_files import InputFiles
from agent.files.listing import Survey, sighting_from
from agent.files.shared_by_inputs import SharedByInputs
from agent.recognition.compressed import has_compressed_name
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
from agent.recognition.seeking import related_names

_MOST_BESIDE: Final = 64


def copy_among(input_files: InputFiles, old: Followed, shared: SharedByInputs) -> Followed | None:
    """One of the input's files."""
    for followed, seen in _unclear(input_files, old, shared):
        was_alike = followed.likeness.like.get(old) == followed.size
        if was_alike or _is_taken_over(input_files, old, seen):
            return followed
    return None


def copy_beside(
    input_files: InputFiles, old: Followed, shared: SharedByInputs
) -> tuple[Sighting, int] | None:
    """A file of none of the input's names, opened."""

    def is_its(_at: Sighting, seen: SeenFile) -> bool:
        return _is_taken_over(input_files, old, seen)

    return _beside(input_files, old, shared, is_its)


def copy_left_among(
    input_files: InputFiles, old: Followed, shared: SharedByInputs
) -> Followed | None:
    """One of the input's files, the newest, where the original is gone and there is no archive."""
    if not _is_sought(input_files, old):
        return None
    found: dict[Followed, int] = {}
    for followed, seen in _unclear(input_files, old, shared):
        if begins(old.fingerprint, seen.head, old.content.head):
            if not shows_copied(seen) or not _is_left(old, seen):
                return None
            found[followed] = seen.mtime_ns
    return max(found, key=lambda each: found[each], default=None)


def copy_left_beside(
    input_files: InputFiles, old: Followed, surveys: Collection[Survey], shared: SharedByInputs
) -> tuple[Sighting, int] | None:
    """A file that nobody looks for, opened, where the original is gone and there is no archive."""
    if not _is_sought(input_files, old):
        return None

    def is_its(at: Sighting, seen: SeenFile) -> bool:
        is_meant = any(each.means(at.path) for each in surveys)
        is_known = is_meant or input_files.memory.has(at.identity)
        return not is_known and _is_left(old, seen)

    found = _beside(input_files, old, shared, is_its)
    if found is not None and any(
        begins(old.fingerprint, seen.head, old.content.head)
        for _, seen in _unclear(input_files, old, shared)
    ):
        os.close(found[1])
        return None
    return found


def _unclear(
    input_files: InputFiles, old: Followed, shared: SharedByInputs
) -> Iterator[tuple[Followed, SeenFile]]:
    """Files of the input that have no source yet, and what they show beside that one."""
    for followed in list(shared.attention.unclear):
        if input_files.files.get(followed.identity) is not followed:
            continue
        try:
            fd = followed.open()
            seen = None if fd is None else old.seen(fd)
        except OSError as error:
            shared.cannot_read(followed.current_path, error)
            continue
        if seen is not None:
            yield followed, seen


def _is_sought(input_files: InputFiles, old: Followed) -> bool:
    """Whether enough is known of it, and no other source begins so: a copy may be one of its file.
    Asked before files are opened, as those that have no source yet may be very many."""
    if old.fingerprint.size < FULL:
        return False
    followed = [*input_files.files.values(), *input_files.unpacking]
    others = [each.fingerprint for each in followed if each is not old and each.source]
    others += [each.fingerprint for each in input_files.memory.all() if each.id != old.source]
    return all(each.digest != old.fingerprint.digest for each in others)


def _is_taken_over(input_files: InputFiles, old: Followed, seen: SeenFile) -> bool:
    there = input_files.files.get(old.identity)
    born = None if there is None else there.born_ns
    return taken_over(old.remembered(), seen, born) is IdentityVerdict.COPY


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
            at = sighting_from(status, path)
            if at.identity not in input_files.files and is_its(at, old.seen(fd)):
                return at, fd
        except OSError as error:
            shared.cannot_read(path, error)
        os.close(fd)
    return None


def _names_beside(old: Followed) -> Iterator[str]:
    """Newest first."""
    found = [
        (status.st_mtime_ns, path)
        for path, status in related_names(old)
        if not has_compressed_name(path) and status.st_size >= old.progress.position
    ]
    found.sort(reverse=True)
    yield from (path for _, path in found[:_MOST_BESIDE])
