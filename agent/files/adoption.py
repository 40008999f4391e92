"""Adopts the files that an earlier process had open, by their descriptors.

While a descriptor was kept, its device and inode could not be reused, so they identify the file
even if it was renamed, compressed or deleted. Fingerprint and mark are compared as for any other
file; one that was truncated meanwhile starts at its beginning.

A file that this agent would not open under its link rules is closed and given back: the earlier
process may have had other rules. What it holds is reported as unknown, or as lost if it is a
source. Also closed is a file that is neither a source of this journal nor was
undecided: the data directory was deleted, or the source has ended.
"""

import logging
import os
import stat
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from agent.accounting.runs import KnownSource
from agent.files.happenings import Appeared, Deleted
from agent.files.input_files import InputFiles
from agent.files.listing import sighting_from
from agent.files.shared_by_inputs import SharedByInputs
from agent.files.source_ends import DELETED_REST
from agent.open_files.descriptor_store import HandedOver
from agent.open_files.kept_files import Keeping, KeptKind, read_name
from agent.open_files.paths import DELETED
from agent.recognition.followed import Followed
from agent.recognition.identity import Identity, IdentityVerdict, kept
from agent.recognition.memory import FoundFile

_OWN: Final = frozenset({KeptKind.EVENTS, KeptKind.HISTORY})

log = logging.getLogger(__name__)


class _Left(msgspec.Struct, frozen=True):
    """An open file that was handed over."""

    name: str
    fd: int
    status: os.stat_result
    path: str  # when it was first seen, or its last name, if known
    is_new: bool

    @property
    def identity(self) -> Identity:
        return self.status.st_dev, self.status.st_ino


class Adoption:
    """The descriptors handed over by an earlier process, until each belongs to an input or is
    returned to the store. `own` has those that are not log files; their receiver closes them.
    `known_paths`: the files that the earlier process knew."""

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
        for descriptor in handed_over:
            self._sort(descriptor)
        self.known_paths = {source.last_path or source.path for source in known}
        self.known_paths |= {source.real_path for source in known if source.real_path}
        self.known_paths |= {file.path for file in self._files if file.is_new}

    def adopt(
        self,
        every_input: Collection[InputFiles],
        unclaimed: Collection[KnownSource],
        shared: SharedByInputs,
    ) -> None:
        """Assigns the files to their inputs, before the inputs' folders are listed."""
        if not self._files and not self._useless:
            return
        files, self._files = self._files, []
        unclaimed_identities = {
            (source.device, source.inode) for source in unclaimed if not source.finished
        }
        adopted_count = 0
        for left_file in files:
            # Inputs with different topics may follow the same file.
            takers = [
                input_files for input_files in every_input if _take(input_files, left_file, shared)
            ]
            if takers:
                adopted_count += 1
            elif left_file.identity in unclaimed_identities:
                self._files.append(left_file)  # its input may be added later
                continue
            else:
                self._refuse(left_file.name)
            os.close(left_file.fd)
        if adopted_count:
            log.info("adopted open files of the previous process files=%d", adopted_count)
        if self._useless:
            log.warning(
                "closed open files of the previous process that are not in this journal files=%d",
                self._useless,
            )
            self._useless = 0

    def close(self) -> None:
        for left_file in self._files:
            os.close(left_file.fd)
        self._files.clear()

    def _sort(self, handed_over: HandedOver) -> None:
        name = read_name(handed_over.name, self._keeping.agent_id) if self._keeping else None
        is_own = name is not None and name.kind in _OWN
        if name is not None and is_own and name.kind not in self.own:
            self.own[name.kind] = handed_over
            return
        try:
            status = os.fstat(handed_over.fd)
            path = name.path if name and name.path else _last_name(handed_over.fd)
        except OSError:
            return
        if name is None or is_own or not stat.S_ISREG(status.st_mode):
            self._refuse(handed_over.name)
            os.close(handed_over.fd)
            return
        left_file = _Left(handed_over.name, handed_over.fd, status, path, name.kind is KeptKind.NEW)
        self._files.append(left_file)
        if self._keeping is not None:
            self._keeping.note_kept(left_file.identity, left_file.name, new=left_file.is_new)

    def _refuse(self, name: str) -> None:
        self._useless += 1
        if self._keeping is not None:
            self._keeping.refuse([name])


def _take(input_files: InputFiles, left: _Left, shared: SharedByInputs) -> bool:
    """Whether the input takes the file. The caller still closes the descriptor."""
    try:
        return _taken(input_files, left, shared)
    except OSError as error:
        log.warning("cannot read an adopted file path=%s error=%s", left.path, error.strerror)
        return False


def _taken(input_files: InputFiles, left: _Left, shared: SharedByInputs) -> bool:
    identity, size = left.identity, left.status.st_size
    if any(identity in each.files for each in (input_files, *input_files.others)):
        return False
    content = FoundFile.of(left.fd, size)
    source = _source_of(input_files, left, content)
    if source is None and not (left.is_new and input_files.survey.means(left.path)):
        return False
    if source is not None and source.finished and size <= source.progress.position:
        return False
    try:
        shared.handles.check_kept(left.fd, left.path if source is None else source.path)
    except OSError:
        if source is None:
            input_files.report_lost(_seen_now(left.path, left, shared), "refused (follow_links)")
        raise
    if source is None:
        followed = _seen_now(left.path, left, shared)
    elif kept(source, content.beside(source)) is IdentityVerdict.SAME:
        followed = _seen_now(source.last_path or source.path, left, shared)
        input_files.memory.remove(source)
        input_files.go_on(followed, source)
    else:  # truncated: recognition decides as for any other file
        input_files.memory.remove(source)
        followed = input_files.remembered(source)
        shared.report(Appeared(followed, known_before=True))
    followed.belong(input_files.input)
    shared.attention.rest(followed, shared.now - _passed(left.status.st_mtime_ns, shared))
    if not left.status.st_nlink:
        deleted_at = shared.now - _passed(left.status.st_ctime_ns, shared)
        followed.lose_name(deleted_at, left.status.st_mtime_ns)
        if followed.source:
            shared.report(Deleted(followed))
    input_files.hold(followed, os.dup(left.fd))
    return True


def _passed(time_ns: int, shared: SharedByInputs) -> float:
    """Seconds since then, capped: enough that a deleted file that was quiet for long ends at once,
    however often the agent was restarted."""
    return min(max(0.0, shared.wall() - time_ns / 1e9), DELETED_REST)


def _seen_now(path: str, left: _Left, shared: SharedByInputs) -> Followed:
    followed = Followed(path, left.identity, left.status, shared.handles)
    shared.attention.note_first_look(followed, shared.now)
    return followed


def _source_of(input_files: InputFiles, left: _Left, content: FoundFile) -> KnownSource | None:
    """The source of a file that was open all the time, by its device and inode."""
    memory, is_followed = input_files.memory, input_files.files.__contains__
    sources = memory.unfinished_at(left.identity)
    for path in dict.fromkeys(source.last_path or source.path for source in sources):
        if known_source := memory.find(sighting_from(left.status, path), content, is_followed):
            return known_source
    for known_source in reversed(sources):
        if kept(known_source, content.beside(known_source)) is not IdentityVerdict.LOST:
            return known_source
    return memory.find(sighting_from(left.status, ""), content, is_followed)


def _last_name(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}").removesuffix(DELETED)  # noqa: PTH115  no Path
