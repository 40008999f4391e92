"""What becomes of a file that has content and no source: one of its own, one it continues, or none.

A copy of a source that is there waits a moment (`originals`). If the source is truncated meanwhile,
`partings` has it go on in the copy; else the copy is a file of its own. A file that is written anew
by way of another name (as rsync does) has what was read of the one it replaces, which is deleted:
it is the same source.
"""

import os

from agent.files.compressed import is_compressed
from agent.files.fingerprints import FULL, same_content
from agent.files.followed import Followed
from agent.files.happenings import Appeared
from agent.files.inputs import end_of_last_line
from agent.files.originals import PATIENCE, Judgement, judge, likeliest
from agent.files.partings import go_on_in
from agent.files.roster import Roster
from agent.files.surroundings import Surroundings
from agent.runs import Progress


def begin(roster: Roster, followed: Followed, around: Surroundings) -> None:
    """May leave it as it is, until more is known: when it grows, or has waited long enough."""
    waits = around.now - followed.idle_since < PATIENCE
    if waits and followed.judged_size == followed.size:
        return
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
    elif verdict is Judgement.WAIT:
        followed.judged_size = followed.size
    else:
        _become_source(roster, followed, around, 0)


def _become_source(roster: Roster, followed: Followed, around: Surroundings, position: int) -> None:
    around.attention.unclear.pop(followed, None)
    followed.like.clear()
    followed.become(around.new_source(), roster.input, Progress(position))
    try:
        followed.settle()
    except OSError as error:
        around.handles.trouble(followed, error)
    followed.reported = followed.fingerprint.size
    roster.originals.note(followed)
    around.say(Appeared(followed, known_before=False))
    around.attention.note(followed)


def _judge(
    roster: Roster, followed: Followed, fd: int, head: bytes, around: Surroundings
) -> Judgement | Followed:
    originals = likeliest(roster.originals.of(head, followed.current_path), followed, fd)
    grown = (each for each in followed.like if roster.files.get(each.identity) is each)
    originals += [each for each in grown if each not in originals]
    for original in originals:
        if original.nameless and _is_replaced_by(original, followed, fd):
            return original
    there = [each for each in originals if not each.nameless]
    judgements = [_compare(followed, each, fd, around) for each in there]
    return Judgement.WAIT if Judgement.WAIT in judgements else Judgement.OWN


def _is_replaced_by(original: Followed, followed: Followed, fd: int) -> bool:
    """Whether one that is deleted was copied before: a file that was written only after it was
    deleted is another one, even if it has the same content."""
    sure = original.tail or not original.progress.position
    if original.fd is None or original.fingerprint.size < FULL or not sure:
        return False
    return (
        followed.mtime_ns < os.fstat(original.fd).st_ctime_ns  # when it lost its name
        and original.continues_in(fd)
    )


def _compare(followed: Followed, original: Followed, fd: int, around: Surroundings) -> Judgement:
    """With a source whose file is there: still is, after they were compared."""
    if original.suspect or original.trouble is not None or original.missing_since is not None:
        return Judgement.WAIT if original.suspect else Judgement.OWN
    around.handles.use(followed)
    other = original.open()
    if other is None:
        return Judgement.WAIT
    if followed.like.get(original) != followed.size:
        followed.like.pop(original, None)
        if same_content(fd, other, followed.size):
            followed.like[original] = followed.size
    size = os.fstat(other).st_size
    if size < original.size:
        original.doubt()
        return Judgement.WAIT
    if not original.is_intact():
        return Judgement.WAIT
    same = original in followed.like
    unchanged_for = around.now - followed.idle_since
    return judge(followed.size, size, same=same, unchanged_for=unchanged_for)
