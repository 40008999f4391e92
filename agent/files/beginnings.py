"""What becomes of a file that has content and no source: one of its own, one it continues, or none.

A copy of a source that is there waits until it is clear what it is a copy for (`originals`). If the
source was truncated, `partings` has it go on in the copy. A file that is written anew by way of
another name (as rsync does) has what was read of the one it replaces, which is deleted: it is the
same source.
"""

import os

from agent.files.compressed import is_compressed
from agent.files.fingerprints import FULL, same_content
from agent.files.followed import Followed
from agent.files.happenings import Appeared
from agent.files.inputs import end_of_last_line
from agent.files.originals import Judgement, judge
from agent.files.partings import go_on_in
from agent.files.roster import Roster
from agent.files.surroundings import Surroundings
from agent.runs import KnownSource, Progress


def begin(roster: Roster, followed: Followed, around: Surroundings) -> None:
    """May leave it as it is, until more is known."""
    try:
        head = followed.take_fingerprint()
        fd = followed.fd
        if not head or fd is None:
            return
        if is_compressed(head):
            roster.is_compressed(followed.current_path)
            roster.compressed[followed.identity] = followed.size, followed.mtime_ns
            roster.drop(followed)
            return
        first = roster.there_at_first.pop(followed.identity, None)
        if first is not None and roster.input.starts_at_end(first.mtime_ns / 1e9):
            size = min(first.size, followed.size)
            _become_source(roster, followed, around, end_of_last_line(fd, size) if size else 0)
            return
        verdict = _judge(roster, followed, fd, head, around)
    except OSError as error:
        around.handles.trouble(followed, error)
        return
    if isinstance(verdict, Followed):
        go_on_in(roster, verdict, followed, around)
    elif verdict is not Judgement.WAIT:
        position = followed.size if verdict is Judgement.COPY else 0
        _become_source(roster, followed, around, position)


def _become_source(roster: Roster, followed: Followed, around: Surroundings, position: int) -> None:
    around.attention.unclear.pop(followed, None)
    followed.become(around.new_source(), roster.input, Progress(position))
    followed.reported = followed.fingerprint.size
    roster.originals.note(followed)
    around.say(Appeared(followed, known_before=False))
    around.attention.note(followed)


def _judge(
    roster: Roster, followed: Followed, fd: int, head: bytes, around: Surroundings
) -> Judgement | Followed:
    verdict = Judgement.OWN
    for original in roster.originals.of(head):
        if original is followed or (isinstance(original, Followed) and not original.source):
            continue
        if isinstance(original, KnownSource):
            same = original.finished and original.fingerprint.size == FULL
            each = Judgement.OWN
            if same and original.progress.position == followed.size:
                each = Judgement.COPY
        elif original.nameless:
            sure = original.tail or not original.progress.position
            if sure and original.fingerprint.size == FULL and original.continues_in(fd):
                return original
            each = Judgement.OWN
        else:
            each = _compare(followed, original, fd, around)
        if each is Judgement.WAIT:
            return each
        if each is Judgement.COPY:
            verdict = each
    return verdict


def _compare(followed: Followed, original: Followed, fd: int, around: Surroundings) -> Judgement:
    """With a source whose file is there."""
    if original.suspect or original.trouble is not None or original.missing_since is not None:
        return Judgement.WAIT if original.suspect else Judgement.OWN
    around.handles.use(followed)
    other = original.open()
    if other is None:
        return Judgement.WAIT
    size = os.fstat(other).st_size
    if size < original.size:
        original.doubt()
        return Judgement.WAIT
    if not original.is_intact():
        return Judgement.WAIT
    if followed.original_size < 0:
        followed.original_size = size
    return judge(
        followed.size,
        size,
        followed.original_size,
        same=same_content(fd, other, min(size, followed.size)),
        unchanged_for=around.now - followed.idle_since,
    )
