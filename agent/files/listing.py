"""Lists the folders that an input's patterns lead to.

A `Survey` remembers these folders, so that after an event only the affected one is listed. If a
folder cannot be listed (no permission, a mount that is gone), its files do not count as missing.
Only regular files are returned, also through symbolic links; no file is opened.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import msgspec

from agent.files.patterns import Exclusion, Remainders, Steps, roots, steps
from agent.history.blind_times import Stamp, is_sure
from agent.open_files.paths import below, folder_of
from agent.recognition.identity import Identity, Sighting


def places(sightings: Iterable[Sighting]) -> dict[Identity, list[Sighting]]:
    by_identity: dict[Identity, list[Sighting]] = {}
    for sighting in sightings:
        by_identity.setdefault(sighting[1:3], []).append(sighting)
    return by_identity


def sighting_of(file: os.DirEntry[str] | Path, *, is_link: bool) -> Sighting | None:
    """Returns a regular file's path and status; None for anything else. Raises OSError."""
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        return None
    return sighting_from(status, os.fspath(file), is_link=is_link)


def sighting_from(status: os.stat_result, path: str, *, is_link: bool = False) -> Sighting:
    device, inode = status.st_dev, status.st_ino
    times = status.st_mtime_ns, status.st_ctime_ns
    return Sighting(path, device, inode, status.st_size, times[0], is_link, times[1])


def stamp_of(folder: str) -> Stamp | None:
    """The stamp of a folder, or of the nearest existing one above it; None if unknown. Read it
    before listing, so that a name that appears meanwhile counts as a change."""
    now_ns = time.time_ns()  # the clock of file systems
    while True:
        try:
            status = Path(folder).stat()
        except (FileNotFoundError, NotADirectoryError):
            if len(folder) <= 1:
                return None
            folder = folder_of(folder)
            continue
        except OSError:
            return None
        times = status.st_mtime_ns, status.st_ctime_ns
        return Stamp(status.st_dev, status.st_ino, *times, is_sure(*times, now_ns))


class Listing(msgspec.Struct):
    """The content of some folders, or of all (`complete`)."""

    sightings: list[Sighting] = []
    folders: set[str] = set()  # listed, or known not to exist
    failures: dict[str, OSError] = {}  # folders and files
    stamps: dict[str, Stamp] = {}  # of folders whose names matter
    complete: bool = False
    began: float = msgspec.field(default_factory=time.monotonic)

    def covers(self, path: str) -> bool:
        """Whether a file of that path would have been listed."""
        if path in self.failures:
            return False
        folder = folder_of(path)
        if self.complete:
            while folder not in self.failures:
                if len(folder) <= 1:
                    return True
                folder = folder_of(folder)
            return False
        return folder in self.folders and folder not in self.failures


class Survey:
    """The folders of one input. `before` is called before a folder is listed, and returns its
    watch: if the watch differs from the last time, it is a different folder."""

    def __init__(
        self, paths: Collection[str], exclude: Collection[str], before: Callable[[str], object]
    ) -> None:
        self._roots = roots(tuple(paths))
        self._excluded = Exclusion(tuple(exclude))
        self._before = before
        self.folders: dict[str, Remainders] = dict(self._roots)
        self._watched_as: dict[str, object] = {}
        self._above: set[str] = set()

    @property
    def watched(self) -> set[str]:
        return self._above | self.folders.keys()

    def means(self, path: str) -> bool:
        """Whether the input matches a file of this path."""
        folder, _, name = path.rpartition("/")
        step = steps(self._remainders_of(folder))
        is_meant = name in step.literal_files or (step.files and step.files.match(name))
        return bool(is_meant) and not self._excluded(name, path)

    def asks(self, folder: str) -> bool:
        """Whether the input searches a folder of this path, if it exists."""
        return steps(self._remainders_of(folder)).matters

    def _remainders_of(self, folder: str) -> Remainders:
        """The remainders of patterns below a folder."""
        path, remainders = "/", self._roots.get("/", frozenset())
        for part in [part for part in folder.split("/") if part]:
            remainders = steps(remainders).below(part, is_link=False) if remainders else remainders
            path = below(path, part)
            if self._excluded(part, path):
                return frozenset()
            remainders |= self._roots.get(path, frozenset())
        return remainders

    def leads_to(self, folder: str, name: str) -> bool:
        """Whether a folder of that name, or one below it, is searched."""
        remainders = self.folders.get(folder)
        if remainders and steps(remainders).below(name, is_link=False):
            return True
        path = below(folder, name)
        return any(root == path or root.startswith(below(path, "")) for root in self._roots)

    def may_mean(self, path: str) -> bool:
        """Whether the input matches a file of this path, or searches a folder of this path."""
        folder, _, name = path.rpartition("/")
        return self.means(path) or self.leads_to(folder or "/", name)

    def finds(self, path: str) -> bool:
        """Like `may_mean`, for an existing file or folder."""
        if Path(path).is_dir():
            return self.may_mean(path)
        return self.means(path) and os.path.lexists(path)

    def all(self) -> Listing:
        listing = Listing(complete=True)
        self.folders = {}
        self._watched_as.clear()
        self._above = set()
        for root, remainders in self._roots.items():
            self._await(root)
            self._walk(root, remainders, listing)
        return listing

    def _await(self, root: str) -> None:
        """Watches the nearest existing folder, for the event that creates a missing root."""
        watched_folder = ""
        while (folder_above := _nearest(root)) not in {watched_folder, root}:
            self._above.add(folder_above)
            self._before(folder_above)
            watched_folder = folder_above

    def some(self, folders: Collection[str]) -> Listing:
        """Lists the folders, and new or replaced ones below them."""
        listing = Listing()
        for folder in sorted(folders):
            if folder in self._roots:
                self._await(folder)
            if folder in self.folders and folder not in listing.folders:
                self._walk(folder, self.folders[folder], listing)
        return listing

    def concerned(self, folders: Collection[str]) -> set[str]:
        """The input's folders that events in `folders` affect."""
        affected_folders = {folder for folder in folders if folder in self.folders}
        for root in self._roots:
            parents = {
                root[: index or 1] for index, character in enumerate(root) if character == "/"
            }
            if not parents.isdisjoint(folders):
                affected_folders.add(root)
        return affected_folders

    def _walk(self, folder: str, remainders: Remainders, listing: Listing) -> None:
        queue = [(folder, remainders)]
        while queue:
            folder, remainders = queue.pop()
            known_remainders = self.folders.get(folder, frozenset())
            if folder in listing.folders and remainders <= known_remainders:
                continue
            self.folders[folder] = remainders = remainders | known_remainders
            watch = self._before(folder)
            is_same = self._watched_as.get(folder, watch) == watch
            self._watched_as[folder] = watch
            folders_below = self._list(folder, remainders, listing)
            if not listing.complete:
                self._drop_all_but(folder, folders_below, listing)
            if not listing.complete and is_same:
                folders_below = {
                    path: remainders_below
                    for path, remainders_below in folders_below.items()
                    if path not in self.folders
                }
            queue.extend(folders_below.items())

    def _list(self, folder: str, remainders: Remainders, listing: Listing) -> dict[str, Remainders]:
        """Adds the files to the listing; returns the folders below to search."""
        step = steps(remainders)
        listing.folders.add(folder)
        if step.matters:
            stamp = stamp_of(folder)
            if stamp is not None:
                listing.stamps[folder] = stamp
        try:
            folders = self._list_names(folder, step, listing) if step.needs_listing else {}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            listing.failures[folder] = error
            return {}
        for name in step.literal_files:
            path = below(folder, name)
            if not self._excluded(name, path):
                self._sight(Path(path), listing, is_link=_is_link(path))
        for name, rest in step.literal_folders:
            path = below(folder, name)
            if not self._excluded(name, path):
                folders[path] = folders.get(path, frozenset()) | {rest}
        return folders

    def _list_names(self, folder: str, step: Steps, listing: Listing) -> dict[str, Remainders]:
        matches = step.files.match if step.files else None
        folders: dict[str, Remainders] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                is_file = matches is not None and matches(name) is not None
                if not is_file and not step.has_folders:
                    continue
                if self._excluded(name, entry.path) or name in step.literal_files:
                    continue
                is_link = entry.is_symlink()
                is_folder = step.has_folders and _is_folder(entry)
                remainders = step.below(name, is_link=is_link) if is_folder else None
                if remainders:
                    folders[entry.path] = remainders
                elif is_file and (is_link or entry.is_file(follow_symlinks=False)):
                    self._sight(entry, listing, is_link=is_link)
        return folders

    def _sight(self, file: os.DirEntry[str] | Path, listing: Listing, *, is_link: bool) -> None:
        try:
            sighting = sighting_of(file, is_link=is_link)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            listing.failures[os.fspath(file)] = error
            return
        if sighting is not None:
            listing.sightings.append(sighting)

    def _drop_all_but(self, folder: str, below: Collection[str], listing: Listing) -> None:
        """Marks folders that have vanished from `folder` as listed, and empty."""
        if folder in listing.failures:
            return
        start = folder.rstrip("/") + "/"
        for path in [path for path in self.folders if path.startswith(start)]:
            top_folder = start + path[len(start) :].partition("/")[0]
            if top_folder not in below:
                if path not in self._roots:
                    del self.folders[path]
                self._watched_as.pop(path, None)
                listing.folders.add(path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except PermissionError:
        return True  # a link to where the agent may not look: listing it reports that
    except OSError:
        return False


def _is_link(path: str) -> bool:
    try:
        return Path(path).is_symlink()
    except OSError:
        return False


def _nearest(folder: str) -> str:
    """The folder itself, or the nearest existing one above it."""
    while len(folder) > 1:
        try:
            if Path(folder).is_dir():
                break
        except OSError:
            break  # it may exist, but is not accessible
        folder = folder_of(folder)
    return folder
