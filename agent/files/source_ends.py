"""Handles sources that have lost their files, and ends sources.

A source whose file was truncated or replaced continues in the copy that was made before, if there
is one: among the input's files, or beside the file under a name that begins like its name.
Otherwise its unread bytes are lost, and reported.

What was written to a file between copying and its end is unknown: if the copy is younger than the
last look at the file, that time is reported as unknown, before the source continues in the copy, so
that a crash between the two cannot hide it.

The end of a file is known if its last byte was seen: while the file was open, or if the kernel
reported its removal before any further write. Otherwise there may have been more, and `EndUnseen`
reports from which byte on, and since when.

A deleted file is held open while it has bytes to read, or a process may still write to it, but no
longer than `hold_deleted`; if a process still may, its end was not seen. A renamed file is over
once it has been quiet for a while; if it grows after that, it continues as a new source.
"""

import contextlib
import os
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from agent.accounting.runs import KnownSource, SourceId
from agent.files.copies import copy_among, copy_beside, copy_left_among, copy_left_beside
from agent.files.happenings import (
    Appeared,
    Ended,
    EndUnseen,
    Forgettable,
    Lost,
    NotWatched,
    Remembered,
    Renamed,
    Truncated,
    Unpacked,
)
from agent.files.input_files import InputFiles
from agent.files.listing import sighting_from
from agent.files.shared_by_inputs import SharedByInputs
from agent.files.unpacking import Unpacking, archives_of
from agent.files.unwatched import changed, of_folder
from agent.history.blind_times import Traces, Unwatched, may_be_emptied, may_hide_since_copied
from agent.recognition.file_properties import born_ns, is_open_for_writing, read_head
from agent.recognition.file_search import shows_another_copy
from agent.recognition.followed import Followed
from agent.recognition.identity import Identity, Sighting, may_be_made

DELETED_REST: Final = 15.0
"""A deleted file that was read to its end, and that no process has open for writing, is closed
after so long without growth. A file beyond `hold_deleted.bytes` is not closed before."""

_MILLIS: Final = 1_000_000  # nanoseconds


def settle_orphans(input_files: InputFiles, shared: SharedByInputs) -> None:
    orphans, input_files.orphans = input_files.orphans, []
    for followed, successor in orphans:
        shared.handles.clear_trouble(followed)
        copy = copy_among(input_files, followed, shared)
        outside_copy = None if copy else copy_beside(input_files, followed, shared)
        if successor is not None:
            kept_size = copy.size if copy else outside_copy[0].size if outside_copy else 0
            lost_bytes = max(0, followed.size - max(kept_size, followed.progress.position))
            shared.report(Truncated(followed, lost_bytes, successor))
            shared.report(Appeared(successor, known_before=False))
            if copy is not None:
                copied_file = copy.identity, max(copy.mtime_ns, copy.born_ns)
                _report_emptied_again(input_files, followed, successor, copied_file, shared)
            elif outside_copy is not None:
                sighting, fd = outside_copy
                copied_file = sighting.identity, max(sighting.mtime_ns, born_ns(fd))
                _report_emptied_again(input_files, followed, successor, copied_file, shared)
        archives = [] if copy or outside_copy else archives_of(followed)
        traces = _traces_of(input_files, followed, successor)
        if successor is not None and traces is Traces.TRUNCATED:
            traces = _note_overwritten(followed, successor)
        if not (copy or outside_copy or archives) and traces is Traces.VANISHED:
            copy = copy_left_among(input_files, followed, shared)
            if copy is not None:
                _report_unknown_since_copied(followed, copy.current_path, copy.size, shared)
        if copy is not None:
            go_on_in(input_files, followed, copy, shared)
        elif outside_copy is not None:
            _go_on_at(input_files, followed, *outside_copy, shared)
        else:
            followed.end.traces = traces
            input_files.drop(followed)
            input_files.unpacking[followed] = Unpacking(followed, archives, shared.spool)


def _report_emptied_again(
    input_files: InputFiles,
    old: Followed,
    following: Followed,
    copy: tuple[Identity, int],
    shared: SharedByInputs,
) -> None:
    """Reports that a truncated file may have been emptied again, as for a new file, if it was
    written to or copied once more after its content was copied, and before the next look."""
    identity, copied_ns = copy
    away_ns = (shared.attention.millis - old.look.looked_millis) * _MILLIS
    has_history = input_files.has_history_since(old.look.looked_millis)
    traces = may_hide_since_copied(following.mtime_ns - copied_ns, away_ns, is_told=has_history)
    if traces is not Traces.CHANGED and _was_copied_again(
        input_files, old, following, identity, shared
    ):
        traces = Traces.CHANGED
    if traces is Traces.UNCHANGED:
        return
    folder, _, name = following.current_path.rpartition("/")
    since_millis, now_millis = copied_ns // _MILLIS, shared.attention.millis
    reason = f"truncated while unwatched; {may_be_emptied([name])}"
    unwatched = of_folder(following.topic, folder, since_millis, now_millis, reason, traces=traces)
    shared.report(*map(NotWatched, unwatched))


def _was_copied_again(
    input_files: InputFiles,
    old: Followed,
    following: Followed,
    copy: Identity,
    shared: SharedByInputs,
) -> bool:
    if following.fd is None:
        return False
    try:
        head = read_head(following.fd)
    except OSError as error:
        shared.handles.trouble(following, error)
        return False
    path, since_ns = old.current_path, old.look.looked_millis * _MILLIS
    return shows_another_copy(path, head, since_ns, input_files.survey.means, copy)


def is_undecided(input_files: InputFiles) -> bool:
    """Whether the input has files that are not identified yet."""
    is_seeking = any(not unpacking.archive for unpacking in input_files.unpacking.values())
    is_listed = not (input_files.orphans or input_files.again or input_files.wants_all)
    return not is_listed or is_seeking or input_files.archives.is_pending


def unpack(
    input_files: InputFiles,
    every_input: Collection[InputFiles],
    shared: SharedByInputs,
    until: float,
) -> None:
    """Searches archives for sources without a file, and reads them from there, until the thread's
    CPU time reaches `until`. A source in no archive may be in a copy."""
    for followed, unpacking in list(input_files.unpacking.items()):
        if followed.end.unpacked is not None:
            if input_files.files.get(followed.identity) is not followed:  # it was dropped
                unpacking.close()
                del input_files.unpacking[followed]
            elif not unpacking.is_over:
                unpacking.go_on(shared, until)
            continue
        has_archive = unpacking.seek(shared, until)
        if has_archive:
            _go_on_unpacked(input_files, followed, unpacking, shared)
            unpacking.go_on(shared, until)
        elif has_archive is False:
            unpacking.close()
            del input_files.unpacking[followed]
            traces = followed.end.traces
            is_there = traces in {Traces.TRUNCATED, Traces.OVERWRITTEN}
            if not is_there and _goes_on_in_copy(input_files, followed, every_input, shared):
                continue
            reason = "truncated, deleted or replaced" if traces is None or not is_there else traces
            why = followed.end.why
            end(input_files, followed, shared, reason, unseen=traces, why=why)


def _go_on_unpacked(
    input_files: InputFiles, old: Followed, unpacking: Unpacking, shared: SharedByInputs
) -> None:
    fd = unpacking.take()
    old.end.unpacked = old.known(shared.wall())
    status = os.fstat(fd)
    old.end.destroyed_up_to = max(old.size, old.end.destroyed_up_to)
    old.unpack((status.st_dev, status.st_ino), shared.now)
    shared.attention.note_moved(old, status.st_size, status.st_mtime_ns)
    shared.attention.rest(old, shared.now)
    input_files.hold(old, fd)
    shared.report(Unpacked(old, unpacking.archive))


def _goes_on_in_copy(
    input_files: InputFiles,
    old: Followed,
    every_input: Collection[InputFiles],
    shared: SharedByInputs,
) -> bool:
    """Continues a source whose file is gone in a copy that no input matches, if there is one."""
    if old.sealed and not old.unread:
        return False
    surveys = [files_of_input.survey for files_of_input in every_input]
    copy = copy_left_beside(input_files, old, surveys, shared)
    if copy is None:
        return False
    old.end.traces = None
    _report_unknown_since_copied(old, copy[0].path, copy[0].size, shared)
    _go_on_at(input_files, old, *copy, shared)
    return True


def _report_unknown_since_copied(
    old: Followed, copy: str, size: int, shared: SharedByInputs
) -> None:
    """Reports the time since the copy as unknown, for the folder, since only a source that is over
    may have such a time itself."""
    if old.sealed:
        return
    folder, _, name = old.current_path.rpartition("/")
    reason = (
        f"{name} vanished while unwatched; {copy.rpartition('/')[2]} has it up to byte {size}, "
        "and what was written after it was copied is unknown"
    )
    since_millis = old.look.looked_millis or shared.attention.last_millis
    unwatched = changed(old.topic, folder, since_millis, int(shared.wall() * 1000), reason)
    shared.report(*map(NotWatched, unwatched))


def go_on_in(
    input_files: InputFiles, old: Followed, copy: Followed, shared: SharedByInputs
) -> None:
    """Continues the source of `old` in the file `copy`, which has no source."""
    fd = copy.fd
    if fd is None:
        raise AssertionError(f"{copy!r} is not open")
    input_files.give_up(copy)
    try:
        # The copy may have grown since it was seen.
        sighting = sighting_from(os.fstat(fd), copy.current_path)
    except OSError:
        sighting = Sighting(copy.current_path, *copy.identity, copy.size, copy.mtime_ns, False)
    _go_on_at(input_files, old, sighting, fd, shared)


def _go_on_at(
    input_files: InputFiles, old: Followed, at: Sighting, fd: int, shared: SharedByInputs
) -> None:
    input_files.drop(old)
    former_path = old.current_path
    try:
        head = read_head(fd)
    except OSError as error:
        shared.handles.trouble(old, error)
    else:
        previous_size = max(old.size, old.end.destroyed_up_to)
        has_less = previous_size > max(at.size, old.progress.position)
        old.end.destroyed_up_to = previous_size if has_less else 0
        old.move(at.identity, at.path, head, at.size)
        shared.attention.note_moved(old, at.size, at.mtime_ns)
    shared.attention.rest(old, shared.now)
    input_files.hold(old, fd)
    shared.report(Renamed(old, former_path))


def end(
    input_files: InputFiles,
    followed: Followed,
    shared: SharedByInputs,
    reason: str,
    *,
    on_disk: bool = False,
    unseen: Traces | None = None,
    why: str = "",
) -> None:
    """Ends a source. `unseen`: what happened to its file, if it may have had unseen bytes."""
    known_size = max(followed.size, followed.end.destroyed_up_to, followed.progress.position)
    since_millis, is_sealed = followed.look.looked_millis, followed.sealed
    if followed.unread and shared.is_doubtful(followed):
        unseen = unseen or Traces.VANISHED
        why = "the journal was damaged or torn: they may have been shipped"
        known_size, since_millis = (
            followed.progress.position,
            min(since_millis, input_files.caught_up_millis or since_millis),
        )
        followed.end.destroyed_up_to, is_sealed = 0, False
    elif followed.unread:
        position = followed.progress.position
        up_to = max(followed.size, followed.end.destroyed_up_to)
        followed.end.destroyed_up_to = 0
        shared.report(Lost(followed, position, up_to - position, reason))
    else:
        _lose_what_was_not_copied(followed, shared)
    followed.finish()
    if unseen is None or is_sealed:
        shared.report(Ended(followed))
    else:
        unwatched = _unwatched(followed, known_size, unseen, shared, since=since_millis, why=why)
        shared.report(EndUnseen(followed, unwatched))
    input_files.drop(followed)
    source = followed.known(shared.wall())
    if not followed.is_archive and (followed.nameless or followed.identity in input_files.files):
        if source.topic in shared.archive_topics and source.progress.position:
            _remember_content(input_files, source, shared)
        shared.report(Forgettable(followed.source))  # device and inode are or will soon be reused
    elif on_disk:
        size, mtime_ns = followed.size, followed.mtime_ns
        sighting = Sighting(followed.current_path, *followed.identity, size, mtime_ns, False)
        input_files.memory.add(source, sighting)
        if not input_files.survey.means(followed.current_path):
            input_files.outside[followed.current_path] = None
    else:
        input_files.memory.add(source)


def _remember_content(input_files: InputFiles, source: KnownSource, shared: SharedByInputs) -> None:
    """Remembers what a finished source has read, by which its archive is recognised, after its file
    is gone."""
    note = replace(source, id=shared.new_source(), device=0, inode=0, finished=True)
    input_files.memory.add(note)
    shared.report(Remembered(note))


def _traces_of(input_files: InputFiles, old: Followed, following: Followed | None) -> Traces:
    file_there = following or input_files.files.get(old.identity)
    is_there = file_there is not None and (
        file_there is following or may_be_made(old.remembered(), file_there.born_ns)
    )
    return Traces.TRUNCATED if is_there else Traces.VANISHED


def _note_overwritten(old: Followed, following: Followed) -> Traces:
    """The traces of a file that is read again from its beginning. If it has at least the bytes that
    were seen, it was overwritten in place, and may still have lines that were shipped."""
    if following.size < max(old.size, old.progress.position):
        return Traces.TRUNCATED
    events, noun = old.progress.seq, "event" if old.progress.seq == 1 else "events"
    old.end.why = (
        f"it had {old.size} bytes, then {following.size}, but not those that were read; read again "
        f"from byte 0 as source {following.source}: up to {events} {noun} may be there twice"
    )
    return Traces.OVERWRITTEN


def _unwatched(
    followed: Followed,
    position: int,
    traces: Traces,
    shared: SharedByInputs,
    *,
    since: int,
    why: str,
) -> Unwatched:
    """The statement that bytes after `position`, written since then, are unknown."""
    now_millis = int(shared.wall() * 1000)
    since = min(since, now_millis)
    up_to_millis = max(followed.look.looked_millis, now_millis) + 1
    return Unwatched(
        *(followed.topic, followed.current_path, followed.source, position),
        *(since, up_to_millis, traces, why),
    )


def end_due_sources(input_files: InputFiles, shared: SharedByInputs) -> None:
    """Ends the sources that are due to end."""
    for followed in list(input_files.leaving):
        if not followed.leaving:
            del input_files.leaving[followed]
            continue
        unpacking = input_files.unpacking.get(followed)
        if unpacking is not None and not unpacking.is_over:
            continue
        if followed.end.destroyed_up_to and not followed.unread:
            _lose_what_was_not_copied(followed, shared)
        if not _is_over(followed, shared):
            continue
        if not followed.source:
            input_files.drop(followed)
        else:
            is_on_disk = not followed.nameless and followed.missing_since is None
            is_seen = is_on_disk or followed.fd is not None
            is_seen = is_seen and not (unpacking and unpacking.error)
            is_seen = is_seen and not may_be_written(followed)
            traces = None if is_seen else followed.end.traces or Traces.VANISHED
            reason = f"{unpacking.archive}: {unpacking.error}" if unpacking else ""
            if unpacking and unpacking.error and followed.is_archive and followed.end.unpacked:
                archive = followed.end.unpacked
                input_files.why_not_read[archive.device, archive.inode] = unpacking.error
            end(
                input_files,
                followed,
                shared,
                "deleted",
                on_disk=is_on_disk,
                unseen=traces,
                why=reason,
            )


def left_unread(
    input_files: InputFiles, followed: Followed, shared: SharedByInputs
) -> Unwatched | None:
    """The statement about unread bytes of a file that no longer matches any input; None without
    such bytes. They were written after the input had caught up, and after the file was first
    seen."""
    unread_bytes = followed.unread if followed.source else followed.size
    is_known = not (followed.suspect or followed.trouble or followed.is_away)
    if is_known and not unread_bytes and followed not in input_files.unpacking:
        return None
    now_millis = int(shared.wall() * 1000)
    began_millis = min(
        followed.look.met_millis or now_millis, followed.born_ns // 1_000_000 or now_millis
    )
    since_millis = min(max(input_files.caught_up_millis, began_millis), now_millis)
    folder, _, name = followed.current_path.rpartition("/")
    reason = f"no input matches it any more: {unread_bytes} bytes of {name}"
    return Unwatched(
        *(input_files.input.topic, folder or "/", SourceId(""), -1),
        *(since_millis, now_millis + 1, Traces.CHANGED, reason),
    )


def _lose_what_was_not_copied(followed: Followed, shared: SharedByInputs) -> None:
    """Reports bytes that the copy lacks as lost, after the copy was read."""
    position = followed.progress.position
    up_to, followed.end.destroyed_up_to = followed.end.destroyed_up_to, 0
    if up_to > position:
        reason = "truncated or deleted after it was copied"
        shared.report(Lost(followed, position, up_to - position, reason))


def release_deleted(every_input: list[InputFiles], shared: SharedByInputs) -> None:
    """Enforces `hold_deleted.bytes`: closes the files that were deleted first."""
    deleted_files = [
        (followed.deleted_at, followed, input_files)
        for input_files in every_input
        for followed in input_files.leaving
        if followed.deleted_at is not None and followed.source and followed.end.unpacked is None
    ]
    total = sum(followed.size for _, followed, _ in deleted_files)
    if total <= shared.hold.bytes:
        return
    deleted_files.sort(key=lambda each: each[0])
    for deleted_at, followed, input_files in deleted_files:
        if total <= shared.hold.bytes or shared.now - deleted_at < DELETED_REST:
            return
        total -= followed.size
        traces = Traces.VANISHED if may_be_written(followed) else None
        end(input_files, followed, shared, "deleted: hold_deleted.bytes is exceeded", unseen=traces)


def _is_over(followed: Followed, shared: SharedByInputs) -> bool:
    shared.attention.refresh(followed, shared.now)
    if followed.suspect or followed.trouble is not None:
        return False
    since = followed.missing_since if followed.deleted_at is None else followed.deleted_at
    if followed.end.unpacked is not None:
        return not followed.unread
    if followed.unread and followed.source:
        return since is not None and shared.now - since >= shared.hold.seconds
    rest_seconds = min(shared.rest, DELETED_REST) if followed.nameless else shared.rest
    if shared.now - max(followed.idle_since, since or 0.0) < rest_seconds:
        return False
    is_held = followed.nameless and shared.now - (since or 0.0) < shared.hold.seconds
    return not (is_held and may_be_written(followed))


def may_be_written(followed: Followed) -> bool:
    """Whether a process may still write to an open deleted file. If the kernel cannot tell (another
    user's file, a file system without leases): whether the file was written to after it was found
    deleted."""
    fd = followed.fd
    if fd is None or not followed.nameless or followed.end.unpacked is not None:
        return False
    is_written: bool | None = None
    with contextlib.suppress(OSError):
        if os.fstat(fd).st_nlink:
            return False
        is_written = is_open_for_writing(fd)
    return followed.mtime_ns > followed.deleted_mtime_ns if is_written is None else is_written
