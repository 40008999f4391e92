"""Reads a folder of schemas, as kept in a git repository: one file `SUBJECT.avsc` per subject.

Rule 1: the subject is the file's name without `.avsc`. Sub-folders have no meaning; hidden files
and folders are skipped.

Rule 2: nothing outside the folder is read. A link to a file may lead elsewhere inside the folder; a
link to a folder is not followed.

Rule 3: a type that a file names but does not define comes from the file that defines it as a whole,
if there is one; otherwise from the registry's subject of that name.
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
    """A type that a schema needs from another subject. `inside`: a file of the folder defines
    it."""

    name: str
    subject: str
    inside: bool


class SchemaFile(msgspec.Struct, frozen=True):
    """A schema file; `path` is shown to people."""

    path: str
    subject: str
    text: str
    needs: tuple[Needed, ...] = ()


def subject_of(path: Path) -> str:
    """Returns the subject in a file's name."""
    subject = path.name.removesuffix(ENDING)
    if subject == path.name or not subject:
        raise InvalidSchema(f"the file name is not SUBJECT{ENDING}", one_line(str(path)))
    if not subject.isprintable() or subject != subject.strip():
        raise InvalidSchema("the file name is not a legal subject", one_line(str(path)))
    return subject


def read_schema(path: Path) -> str:
    """Returns the text of a file. Raises OSError, or InvalidSchema if the file is not text."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidSchema("not a regular file", one_line(str(path)))
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InvalidSchema(f"the file is larger than {MOST_BYTES:,} bytes", one_line(str(path)))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidSchema(f"line {line}: not UTF-8", one_line(str(path))) from None


def read_folder(folder: Path) -> list[SchemaFile]:
    """Returns all schemas, each after its dependencies. Raises OSError or InvalidSchema."""
    subjects: dict[str, tuple[Path, str, TypeNames]] = {}
    for path in _paths(folder):
        subject = subject_of(path)
        if subject in subjects:
            reason = f"it is subject {subject}, as {one_line(str(subjects[subject][0]))} is"
            raise InvalidSchema(reason, one_line(str(path)))
        text = read_schema(path)
        subjects[subject] = (path, text, type_names(text))
    subjects_by_type: dict[str, str] = {}
    for subject, (_, _, names) in subjects.items():
        # If several files define a type, none is used; _needs reports an error.
        if names.top:
            subjects_by_type[names.top] = "" if names.top in subjects_by_type else subject
    for subject, (_, _, names) in subjects.items():
        # The type of a file that is not JSON is unknown: use its name.
        if not names.top:
            subjects_by_type.setdefault(subject, subject)
    files = {
        subject: SchemaFile(
            one_line(str(path)), subject, text, _needs(path, subject, names, subjects_by_type)
        )
        for subject, (path, text, names) in subjects.items()
    }
    return [files[subject] for subject in _ordered(files)]


def needs_of(text: str) -> tuple[Needed, ...]:
    """Returns the types that a single schema needs from the registry."""
    return tuple(Needed(names[0], names[0], inside=False) for names in type_names(text).missing)


def _without_waiting(path: str, flags: int) -> int:
    """Open without blocking, since it may be a pipe without a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _paths(folder: Path) -> Iterator[Path]:
    """The schemas' paths, in a fixed order."""
    root = folder.resolve(strict=True)
    count = 0
    for directory, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.endswith(ENDING) or name.startswith("."):
                continue
            path = Path(directory, name)
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise InvalidSchema("the link leads out of the folder", one_line(str(path)))
            count += 1
            if count > MOST_FILES:
                raise InvalidSchema(
                    f"the folder has more than {MOST_FILES:,} schemas", one_line(str(folder))
                )
            yield path


def _raise(error: OSError) -> None:
    raise error


def _needs(
    path: Path, subject: str, names: TypeNames, tops: Mapping[str, str]
) -> tuple[Needed, ...]:
    needed_types = []
    for candidates in names.missing:
        name = next((name for name in candidates if name in tops), candidates[0])
        defining_subject = tops.get(name)
        if defining_subject == "":
            raise InvalidSchema(
                f"the schema names {name}, which several files define", one_line(str(path))
            )
        if defining_subject != subject:
            needed_types.append(
                Needed(name, defining_subject or name, inside=defining_subject is not None)
            )
    return tuple(needed_types)


def _ordered(files: Mapping[str, SchemaFile]) -> Sequence[str]:
    dependencies = {
        subject: [needed_type.subject for needed_type in file.needs if needed_type.inside]
        for subject, file in files.items()
    }
    try:
        return list(TopologicalSorter(dependencies).static_order())
    except CycleError as error:
        circle = " → ".join(files[subject].path for subject in reversed(error.args[1]))
        raise InvalidSchema(f"these schemas need each other: {circle}") from None
