"""Files that an earlier process had open, gone on with by their descriptors.

While a descriptor was kept its device and inode were nobody else's, so a file is known by them,
whatever has become of its name: renamed, compressed, deleted. It is held against fingerprint and
mark as any other; one that was truncated meanwhile begins anew.

A file that this agent would not open, by its rules of links, is closed and given back: the earlier
process may have had other rules. So is what is handed over and is no source of this journal, nor
was undecided: somebody deleted the data directory, or its source has ended.
"""

import logging
import os
import stat
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from agent.files.happenings import Appeared, Deleted
from agent.files.input_files import InputFiles
from agent.files.listing import sighting_from
from agent.files.partings import DELETED_REST
from agent.files.shared_by_inputs import SharedByInputs
from agent.kept.keeping import Keeping, KeptKind, read_name
from agent.kept.store import HandedOver
from agent.names import DELETED
from agent.recognition.followed import Followed
from agent.recognition.identity import Identity, IdentityVerdict, kept
from agent.recognition.memory import FoundFile
from agent.runs import KnownSource

_OWN: Final = frozenset({KeptKind.EVENTS, KeptKind.HISTORY})

log = logging.getLogger(__name__)


class _Left(msgspec.Struct, frozen=True):
    """A file that was handed over, still open."""

    name: str
    fd: int
    status: os.stat_result
    path: str  # as it was called when it was met, or last, if that is known
    is_new: bool

    @property
    def identity(self) -> Identity:
        return self.status.st_dev, self.status.st_ino


class Adopting:
    """The descriptors handed over, until each belongs to an input or is given back. `own` has those
    that are no files; their taker closes them. `known_paths`: files the earlier process knew."""

    def __init__(
        self,
        handed_over: Sequence[HandedOver],
        known: Collection[KnownSource],
        keeping: Keeping | None,
    ) -> None:
        self.own: dict[KeptKind, HandedOver] = {}
        self._keeping = keeping
        self._files: list[_Left] = []
        self._useless = 0
        for each in handed_over:
            self._sort(each)
        self.known_paths = {each.last_path or each.path for each in known}
        self.known_paths |= {each.real_path for each in known if each.real_path}
        self.known_paths |= {each.path for each in self._files if each.is_new}

    def adopt(
        self,
        every_input: Collection[InputFiles],
        unclaimed: Collection[KnownSource],
        shared: SharedByInputs,
    ) -> None:
        """By the inputs to which they belong. Before these are listed."""
        if not self._files and not self._useless:
            return
        files, self._files = self._files, []
        later = {(known.device, known.inode) for known in unclaimed if not known.finished}
        adopted = 0
        for left in files:
            # Two inputs may follow one file.
            takers = [each for each in every_input if _take(each, left, shared)]
            if takers:
                adopted += 1
            elif left.identity in later:
                self._files.append(left)  # its input may come yet
                continue
            else:
                self._refuse(left.name)
            os.close(left.fd)
        if adopted:
            log.info("open files were kept, and are gone on with files=%d", adopted)
        if self._useless:
            log.warning(
                "open files were kept that are no sources of this journal, closed files=%d",
                self._useless,
            )
            self._useless = 0

    def close(self) -> None:
        for left in self._files:
            os.close(left.fd)
        self._files.clear()

    def _sort(self, each: HandedOver) -> None:
        found = read_name(each.name, self._keeping.agent_id) if self._keeping else None
        is_own = found is not None and found.kind in _OWN
        if found is not None and is_own and found.kind not in self.own:
            self.own[found.kind] = each
            return
        try:
            status = os.fstat(each.fd)
            path = found.path if found and found.path else _last_name(each.fd)
        except OSError:
            return
        if found is None or is_own or not stat.S_ISREG(status.st_mode):
            self._refuse(each.name)
            os.close(each.fd)
            return
        left = _Left(each.name, each.fd, status, path, found.kind is KeptKind.NEW)
        self._files.append(left)
        if self._keeping is not None:
            self._keeping.has_already(left.identity, left.name, new=left.is_new)

    def _refuse(self, name: str) -> None:
        self._useless += 1
        if self._keeping is not None:
            self._keeping.refuse([name])


def _take(input_files: InputFiles, left: _Left, shared: SharedByInputs) -> bool:
    """Whether it is this input's; its descriptor is not used up."""
    try:
        return _taken(input_files, left, shared)
    except OSError as error:
        log.warning("a kept file cannot be read path=%s error=%s", left.path, error.strerror)
        return False


def _taken(input_files: InputFiles, left: _Left, shared: SharedByInputs) -> bool:
    identity, size = left.identity, left.status.st_size
    if identity in input_files.files:
        return False
    found = FoundFile.of(left.fd, size)
    known = _source_of(input_files, left, found)
    if known is None and not (left.is_new and input_files.survey.means(left.path)):
        return False
    if known is not None and known.finished and size <= known.progress.position:
        return False
    shared.handles.check_kept(left.fd, left.path if known is None else known.path)
    if known is None:
        followed = _seen_now(left.path, left, shared)
    elif kept(known, found.beside(known)) is IdentityVerdict.SAME:
        followed = _seen_now(known.last_path or known.path, left, shared)
        input_files.go_on(followed, known)
    else:  # truncated: what it was is found out as of any other
        input_files.memory.remove(known)
        followed = input_files.remembered(known)
        shared.say(Appeared(followed, known_before=True))
    followed.belong(input_files.input)
    shared.attention.rest(followed, shared.now - _passed(left.status.st_mtime_ns, shared))
    if not left.status.st_nlink:
        gone_at = shared.now - _passed(left.status.st_ctime_ns, shared)
        followed.lose_name(gone_at, left.status.st_mtime_ns)
        if followed.source:
            shared.say(Deleted(followed))
    input_files.hold(followed, os.dup(left.fd))
    return True


def _passed(time_ns: int, shared: SharedByInputs) -> float:
    """Seconds since then, as far as they matter: a deleted file that had been quiet for long enough
    is over at once, however often the agent was started since."""
    return min(max(0.0, shared.wall() - time_ns / 1e9), DELETED_REST)


def _seen_now(path: str, left: _Left, shared: SharedByInputs) -> Followed:
    followed = Followed(path, left.identity, left.status, shared.handles)
    shared.attention.meet(followed, shared.now)
    return followed


def _source_of(input_files: InputFiles, left: _Left, found: FoundFile) -> KnownSource | None:
    """The file was open all the time: its source is that of its device and inode."""
    memory, there = input_files.memory, input_files.files.__contains__
    unfinished = memory.unfinished_at(left.identity)
    for path in dict.fromkeys(each.last_path or each.path for each in unfinished):
        if known := memory.find(sighting_from(left.status, path), found, there):
            return known
    for known in reversed(unfinished):
        if kept(known, found.beside(known)) is not IdentityVerdict.LOST:
            return known
    return memory.find(sighting_from(left.status, ""), found, there)


def _last_name(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}").removesuffix(DELETED)  # noqa: PTH115  no Path
