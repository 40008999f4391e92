"""Checks whether the mode of a subject allows writes or imports. Pure."""

from registry.errors import ErrorAnswer, not_permitted
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import Mode

_READ_ONLY = {Mode.READONLY, Mode.READONLY_OVERRIDE}


def read_only(subject: str | None) -> ErrorAnswer:
    name = "null" if subject is None else subject
    return not_permitted(f"Subject {name} is in read-only mode")


def check_writable(contents: RegistryContents, subject: str | None) -> None:
    """Checks that the subject may be changed; for None, the global settings. Raises ErrorAnswer."""
    if contents.mode_in_scope(subject) in _READ_ONLY:
        raise read_only(subject)


def check_registrable(contents: RegistryContents, subject: str, *, importing: bool) -> None:
    """Checks that the mode allows registering a schema: import mode if the request has an id,
    read-write mode otherwise. Raises ErrorAnswer."""
    check_writable(contents, subject)
    mode = contents.mode_in_scope(subject)
    if importing and mode is not Mode.IMPORT:
        raise not_permitted(f"Subject {subject} is not in import mode")
    if not importing and mode is not Mode.READWRITE:
        raise not_permitted(f"Subject {subject} is not in read-write mode")
