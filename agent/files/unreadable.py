"""Tracks the files of an input that the agent may not read, and folders that it may not list.

While there are any, their content is unknown, and the topic's heartbeats wait. A file that is gone
without having been read is reported as unknown since the look before it appeared; a folder that can
be listed again, if names came or went meanwhile.
"""

import os
from typing import NamedTuple

import msgspec

from agent.accounting.runs import SourceId
from agent.files.listing import Listing, Survey
from agent.history.blind_times import Stamp, Traces, Unwatched
from agent.open_files.paths import folder_of
from agent.recognition.compressed import has_compressed_name
from agent.recognition.file_properties import born_ns
from agent.recognition.identity import Identity, Places, were_made_apart


class NeverRead(NamedTuple):
    """Content of a folder that was written or created since `since_millis`, and never read."""

    folder: str
    since_millis: int
    reason: str

    def unwatched(self, topic: str, now_millis: int) -> Unwatched:
        since_millis = min(self.since_millis, now_millis)
        return Unwatched(
            *(topic, self.folder, SourceId(""), -1),
            *(since_millis, now_millis + 1, Traces.CHANGED, self.reason),
        )


class Left(NamedTuple):
    """A file that an input no longer matches, with the statement about its unread content."""

    path: str
    unwatched: Unwatched
    source: SourceId = SourceId("")


class _File(msgspec.Struct, frozen=True):
    path: str
    since_millis: int
    born_ns: int

    def never_read(self) -> NeverRead:
        folder, _, name = self.path.rpartition("/")
        return NeverRead(folder or "/", self.since_millis, f"removed before it was read: {name}")


class _Folder(msgspec.Struct, frozen=True):
    """A folder that cannot be listed, or whose files cannot be seen; and its stamp when that was
    noticed."""

    since_millis: int
    stamp: Stamp | None


class UnreadableFiles:
    """The unreadable files and folders of one input."""

    def __init__(self) -> None:
        self._files: dict[Identity, _File] = {}
        self._folders: dict[str, _Folder] = {}

    def __bool__(self) -> bool:
        return bool(self._files or self._folders)

    def has(self, identity: Identity) -> bool:
        return identity in self._files

    def seen_up_to(self, millis: int) -> int:
        """The time, at most `millis`, up to which all content is known."""
        files = (file.since_millis for file in self._files.values())
        folders = (folder.since_millis for folder in self._folders.values())
        return min((millis, *files, *folders))

    def add_file(self, identity: Identity, path: str, since_millis: int) -> list[NeverRead]:
        """Adds a file that cannot be read. Returns the file that it has replaced, if any."""
        born_ns, previous_file = born_at(path), self._files.get(identity)
        if previous_file is not None and not were_made_apart(previous_file.born_ns, born_ns):
            return []
        self._files[identity] = _File(path, since_millis, born_ns)
        return [] if previous_file is None else [previous_file.never_read()]

    def remove_file(self, identity: Identity, born: int = 0) -> list[NeverRead]:
        """Removes a file that can be read now. Returns the unread file that it has replaced, if
        any. `born` is its creation time; 0 if unknown."""
        previous_file = self._files.pop(identity, None)
        if previous_file is None or not were_made_apart(previous_file.born_ns, born):
            return []
        return [previous_file.never_read()]

    def gone(
        self, survey: Survey, listing: Listing, by_identity: Places
    ) -> list[tuple[Identity, NeverRead]]:
        """Removes and returns the files that no longer have a name that the input reads."""
        if not listing.complete:
            return []
        present_paths = {
            identity
            for identity in self._files
            if any(
                not has_compressed_name(unreadable_file.path)
                for unreadable_file in by_identity.get(identity, ())
            )
        }
        removed_files = {
            identity: file
            for identity, file in self._files.items()
            if identity not in present_paths and listing.covers(file.path)
        }
        for identity in removed_files:
            del self._files[identity]
        return [
            (identity, file.never_read())
            for identity, file in removed_files.items()
            if survey.means(file.path)
        ]

    def shown(self, survey: Survey, listing: Listing, since_millis: int) -> list[NeverRead]:
        """Returns the folders that can be listed again or are gone, if names came or went
        meanwhile. Adds the folders that can no longer be listed."""
        failures, stamps = listing.failures, listing.stamps
        barred_folders = {path if path in stamps else folder_of(path) for path in failures}
        for path in barred_folders - self._folders.keys():
            self._folders[path] = _Folder(since_millis, stamps.get(path))
        shown_folders = [
            path
            for path in self._folders
            if path not in barred_folders and (listing.complete or path in listing.folders)
        ]
        folders_before = {path: self._folders.pop(path) for path in shown_folders}
        reason = "names came or went while the folder could not be listed"
        return [
            NeverRead(path, folder.since_millis, reason)
            for path, folder in folders_before.items()
            if not _stands(path, folder.stamp, stamps.get(path)) and _is_meant(path, survey)
        ]

    def leave(self, topic: str, now_millis: int, survey: Survey | None = None) -> list[Left]:
        """Removes and returns the files that the input no longer matches."""
        left_files = [
            (identity, file)
            for identity, file in self._files.items()
            if survey is None or not survey.means(file.path)
        ]
        for identity, _ in left_files:
            del self._files[identity]
        return [
            Left(file.path, file.never_read().unwatched(topic, now_millis))
            for _, file in left_files
        ]


def _is_meant(folder: str, survey: Survey) -> bool:
    """Whether the input searches the folder, or did before it was removed."""
    return folder in survey.folders or not os.path.lexists(folder)


def _stands(path: str, before: Stamp | None, now: Stamp | None) -> bool:
    """Whether no name came or went in a folder. Its ctime differs, since its mode has changed."""
    if before is None or now is None or before[:3] != now[:3]:
        return False
    return before.is_sure or born_at(path) == now.mtime_ns


def born_at(path: str) -> int:
    """The creation time of a file or folder, readable or not; 0 if unknown."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return born_ns(fd)
    finally:
        os.close(fd)
