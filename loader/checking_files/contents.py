"""Whose content is looked at, and what follows from its checksum. Pure.

Rule 1: a file that was never looked at, or was modified since, is looked at by the next load.
Rule 2: those that nobody has touched are looked at in turn, a certain number of bytes by each load,
        as bytes also change where no file system notices. Who asks for a check has all looked at.
Rule 3: a file whose size is wrong needs no looking at, and one without a checksum cannot be.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from loader.checking_files.committed import CommittedFile
from loader.store.store import Entry

IN_TURN_MILLIS: Final = 3_600_000  # a file is not looked at again within this time


def to_look_at(
    known: Mapping[str, CommittedFile],
    there: Mapping[str, Entry],
    *,
    all_: bool,
    most_bytes: int,
    now: int,
) -> list[str]:
    """Of files that should be there, those whose content is to be looked at now."""
    fitting = [
        path
        for path, file in known.items()
        if file.checksum and path in there and there[path].size == file.bytes
    ]
    if all_:
        return sorted(fitting)
    touched = {path for path in fitting if known[path].modified != there[path].modified}
    others = {path: known[path] for path in fitting if path not in touched}
    return sorted({*touched, *_in_turn(others, most_bytes, now)})


def _in_turn(files: Mapping[str, CommittedFile], most_bytes: int, now: int) -> Iterator[str]:
    """Those that were not looked at for longest; one at least."""
    left = most_bytes
    for path, file in sorted(files.items(), key=lambda each: (each[1].verified, each[0])):
        if left <= 0 or 0 <= now - file.verified < IN_TURN_MILLIS:
            return
        left -= file.bytes
        yield path


def is_other(file: CommittedFile, found: str) -> bool:
    """Whether that is the checksum of another content. Those that were made in another way, or of
    a file that is gone meanwhile, say nothing."""
    method, _, _ = file.checksum.rpartition(":")
    return found.rpartition(":")[0] == method and found != file.checksum


def looked_at(file: CommittedFile, entry: Entry, found: str, now: int) -> CommittedFile:
    """What is known of it then."""
    if not found:
        return file
    if is_other(file, found):
        return file._replace(modified=0)
    return file._replace(modified=entry.modified, verified=now)
