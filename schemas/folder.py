"""A folder of schemas, as it lies in a git repository: one file `SUBJECT.avsc` for each subject.

Rule 1: the subject is the file's name without `.avsc`. Sub-folders are for people and say nothing;
hidden files and folders are passed over.

Rule 2: nothing outside the folder is read. A link to a file may lead elsewhere inside the folder; a
link to a folder is not followed.

Rule 3: a type that a file names and does not define is another file's, if one is that type as a
whole; otherwise it is a subject's of the registry that is called as the type.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import msgspec

from ground.printable import one_line
from schemas.definitions.type_names import TypeNames, type_names
from schemas.errors import InvalidSchema

__all__ = [
    "ENDING",
    "MOST_BYTES",
    "Needed",
    "SchemaFile",
    "needs_of",
    "read_folder",
    "read_schema",
    "subject_of",
]

ENDING: Final = ".avsc"
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_FILES: Final = 20_000


class Needed(msgspec.Struct, frozen=True):
    """A type that another subject defines; `inside` says whether that is a file of the folder."""

    name: str
    subject: str
    inside: bool


class SchemaFile(msgspec.Struct, frozen=True):
    """One file; `path` is as it is shown to people."""

    path: str
    subject: str
    text: str
    needs: tuple[Needed, ...] = ()


def subject_of(path: Path) -> str:
    """What a file's name says."""
    subject = path.name.removesuffix(ENDING)
    if subject == path.name or not subject:
        raise InvalidSchema(f"its name is not SUBJECT{ENDING}", one_line(str(path)))
    if not subject.isprintable() or subject != subject.strip():
        raise InvalidSchema("its name cannot be a subject's", one_line(str(path)))
    return subject


def read_schema(path: Path) -> str:
    """The text of a file. OSError if it cannot be read, InvalidSchema if it is no text."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidSchema("it is no file", one_line(str(path)))
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InvalidSchema(f"it has more than {MOST_BYTES:,} bytes", one_line(str(path)))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidSchema(f"line {line}: not UTF-8", one_line(str(path))) from None


def read_folder(folder: Path) -> list[SchemaFile]:
    """All of its schemas, each after those that it needs. OSError or InvalidSchema says why not."""
    found: dict[str, tuple[Path, str, TypeNames]] = {}
    for path in _paths(folder):
        subject = subject_of(path)
        if subject in found:
            both = f"it is subject {subject}, as {one_line(str(found[subject][0]))} is"
            raise InvalidSchema(both, one_line(str(path)))
        text = read_schema(path)
        found[subject] = (path, text, type_names(text))
    tops: dict[str, str] = {}
    for subject, (_, _, names) in found.items():
        # Of several that define the same type none is meant; who needs it is told, in _needs.
        if names.top:
            tops[names.top] = "" if names.top in tops else subject
    for subject, (_, _, names) in found.items():
        # A file that is no JSON does not say its type: then its name may.
        if not names.top:
            tops.setdefault(subject, subject)
    files = {
        subject: SchemaFile(one_line(str(path)), subject, text, _needs(path, subject, names, tops))
        for subject, (path, text, names) in found.items()
    }
    return [files[subject] for subject in _ordered(files)]


def needs_of(text: str) -> tuple[Needed, ...]:
    """What a schema by itself needs of the registry."""
    return tuple(Needed(names[0], names[0], inside=False) for names in type_names(text).missing)


def _without_waiting(path: str, flags: int) -> int:
    """Opens what may be a pipe that nobody writes."""
    return os.open(path, flags | os.O_NONBLOCK)


def _paths(folder: Path) -> Iterator[Path]:
    """The schemas' paths, in the same order everywhere."""
    root = folder.resolve(strict=True)
    count = 0
    for at, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            if not name.endswith(ENDING) or name.startswith("."):
                continue
            path = Path(at, name)
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise InvalidSchema(
                    "it is a link that leads out of the folder", one_line(str(path))
                )
            count += 1
            if count > MOST_FILES:
                raise InvalidSchema(f"more than {MOST_FILES:,} schemas", one_line(str(folder)))
            yield path


def _raise(error: OSError) -> None:
    raise error


def _needs(
    path: Path, subject: str, names: TypeNames, tops: Mapping[str, str]
) -> tuple[Needed, ...]:
    needed = []
    for candidates in names.missing:
        name = next((each for each in candidates if each in tops), candidates[0])
        definer = tops.get(name)
        if definer == "":
            raise InvalidSchema(f"it names {name}, which several files define", one_line(str(path)))
        if definer != subject:
            needed.append(Needed(name, definer or name, inside=definer is not None))
    return tuple(needed)


def _ordered(files: Mapping[str, SchemaFile]) -> Sequence[str]:
    depends = {
        subject: [each.subject for each in file.needs if each.inside]
        for subject, file in files.items()
    }
    try:
        return list(TopologicalSorter(depends).static_order())
    except CycleError as error:
        circle = " → ".join(files[subject].path for subject in reversed(error.args[1]))
        raise InvalidSchema(f"they need each other: {circle}") from None
