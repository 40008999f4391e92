"""Assigns a source to a file with content: a new source, the one that the file continues, or none
yet.

The file may be a copy of a present source, or replace a deleted one. `identity` decides; this
module collects what that needs, and acts on it. If the file must wait, and its original is
truncated meanwhile, `source_ends` continues that source in it.
"""

import os

from msgspec.structs import replace

from agent.accounting.runs import Progress
from agent.configuration.file_inputs import end_of_last_line
from agent.files.happenings import Appeared
from agent.files.input_files import InputFiles
from agent.files.shared_by_inputs import SharedByInputs
from agent.files.source_ends import go_on_in
from agent.recognition.compressed import is_compressed
from agent.recognition.file_properties import is_open_for_writing, read_tail, same_content
from agent.recognition.followed import Followed
from agent.recognition.identity import (
    PATIENCE,
    Beginning,
    Compared,
    IdentityVerdict,
    goes_on,
    replaced,
    undecided,
)
from agent.recognition.originals import likeliest


def begin(input_files: InputFiles, followed: Followed, shared: SharedByInputs) -> None:
    """Identifies a file, or waits until it has grown or enough time has passed to tell."""
    is_waiting = shared.now - followed.idle_since < PATIENCE
    if is_waiting and followed.likeness.judged_size == followed.size:
        return
    try:
        head = followed.take_fingerprint()
        fd = followed.fd
        if not head or fd is None:
            return
        if is_compressed(head):
            path, identity = followed.current_path, followed.identity
            input_files.report_compressed(path, identity, followed.mtime_ns)
            input_files.compressed[followed.identity] = followed.size, followed.mtime_ns
            input_files.drop(followed)
            return
        first_size = input_files.there_at_first.pop(followed.identity, None)
        if first_size is not None and input_files.input.starts_at_end(first_size.mtime_ns / 1e9):
            size = min(first_size.size, followed.size)
            _become_source(input_files, followed, shared, end_of_last_line(fd, size) if size else 0)
            return
        verdict = _judge(input_files, followed, fd, head, shared)
        position = _read_in_archive(input_files, followed, fd, head, shared)
        if position > followed.size:
            verdict = IdentityVerdict.WAIT
    except OSError as error:
        shared.handles.trouble(followed, error)
        return
    if isinstance(verdict, Followed):
        go_on_in(input_files, verdict, followed, shared)
    elif verdict is IdentityVerdict.WAIT:
        followed.likeness.judged_size = followed.size
    else:
        _become_source(input_files, followed, shared, position)


def _become_source(
    input_files: InputFiles, followed: Followed, shared: SharedByInputs, position: int
) -> None:
    shared.attention.unclear.pop(followed, None)
    followed.likeness.like.clear()
    followed.become(shared.new_source(), input_files.input, Progress(position))
    try:
        followed.settle()
    except OSError as error:
        shared.handles.trouble(followed, error)
    followed.content.tell()
    input_files.originals.note(followed)
    shared.report(Appeared(followed, known_before=False))
    shared.attention.note(followed)


def _read_in_archive(
    input_files: InputFiles, followed: Followed, fd: int, head: bytes, shared: SharedByInputs
) -> int:
    """Returns how much of an unpacked file was read from its archive: more than it has if it is
    still written, or if the archive was not read to its end yet."""
    positions, beginning = [0], Beginning(head)
    for known in input_files.memory.archives():
        position, mark = known.progress.position, known.progress.mark
        if not beginning.is_of(known.fingerprint):
            continue
        if not known.finished:
            if input_files.archives.is_pending:
                positions.append(followed.size + 1)
        else:
            is_there = position <= followed.size
            if (
                goes_on(b"", mark, read_tail(fd, position))
                if is_there
                else _may_be_written(followed, fd, shared)
            ):
                positions.append(position)
    return max(positions)


def _may_be_written(followed: Followed, fd: int, shared: SharedByInputs) -> bool:
    """Whether a file may still grow soon: it has grown just now, or a short time ago, and a process
    may have it open for writing, such as one that unpacks an archive on a busy disk."""
    idle_seconds = shared.now - followed.idle_since
    if idle_seconds < PATIENCE:
        return True
    return idle_seconds < shared.rest and is_open_for_writing(fd) is not False


def _judge(
    input_files: InputFiles, followed: Followed, fd: int, head: bytes, shared: SharedByInputs
) -> IdentityVerdict | Followed:
    """The verdict on a file; or the source that it replaces."""
    originals = likeliest(input_files.originals.of(head, followed.current_path), followed, fd)
    grown_originals = (
        original
        for original in followed.likeness.like
        if input_files.files.get(original.identity) is original
    )
    originals += [original for original in grown_originals if original not in originals]
    if any(original.is_archive for original in originals):
        return IdentityVerdict.WAIT  # it may be unpacked from there
    for original in originals:
        if original.nameless and _is_replaced_by(original, followed, fd):
            return original
    named_originals = [original for original in originals if not original.nameless]
    comparisons = [_compared(followed, original, fd, shared) for original in named_originals]
    return undecided(followed.size, comparisons, unchanged_for=shared.now - followed.idle_since)


def _is_replaced_by(original: Followed, followed: Followed, fd: int) -> bool:
    if original.fd is None:
        return False
    seen_file = replace(original.seen(fd), mtime_ns=followed.mtime_ns)
    lost_name_ns = os.fstat(original.fd).st_ctime_ns
    return replaced(original.remembered(), seen_file, lost_name_ns) is IdentityVerdict.COPY


def _compared(followed: Followed, original: Followed, fd: int, shared: SharedByInputs) -> Compared:
    """Compares a file with a source whose own file still exists, also after the comparison."""
    if original.suspect or original.trouble is not None or original.missing_since is not None:
        return Compared(is_away=not original.suspect)
    shared.handles.use(followed)
    other_fd = original.open()
    if other_fd is None:
        return Compared()
    like = followed.likeness.like
    if like.get(original) != followed.size:
        like.pop(original, None)
        if same_content(fd, other_fd, followed.size):
            like[original] = followed.size
    size = os.fstat(other_fd).st_size
    if size < original.size:
        original.doubt()
        return Compared()
    if not original.is_intact():
        return Compared()
    return Compared(size, is_certain=True, has_all=original in like)
