"""Path and query parameters, interpreted as by Confluent's registry."""

from collections.abc import Mapping

from registry.errors import ErrorAnswer, invalid_subject, invalid_version, no_such_path

_DEFAULT_CONTEXT = ":.:"
_EVERY_CONTEXT = ":*:"
_NOT_SUBJECTS = frozenset({"__GLOBAL", "__EMPTY"})
_HIGHEST = 2**31 - 1


def flag(query: Mapping[str, str], name: str) -> bool:
    """Parses a flag: true only for `true`, in any case."""
    return query.get(name, "").lower() == "true"


def number(query: Mapping[str, str], name: str, default: int) -> int:
    """Parses a whole number. Any other value is answered with 404."""
    text = query.get(name, "")
    return integer(text) if text else default


def integer(text: str) -> int:
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise no_such_path()
    value = int(text)
    if not -(2**31) <= value <= _HIGHEST:
        raise no_such_path()
    return value


def version_number(text: str) -> int | None:
    """Parses a version number; None stands for the latest version."""
    version_text = text.strip()
    if version_text.lower() == "latest":
        return None
    try:
        value = integer(version_text)
    except ErrorAnswer:
        raise invalid_version(text) from None
    if value == -1:
        return None
    if value <= 0:
        raise invalid_version(str(value))
    return value


def subject_name(text: str) -> str:
    """Returns the subject without the default context's prefix."""
    return text.removeprefix(_DEFAULT_CONTEXT)


def new_subject_name(text: str) -> str:
    """Returns the name of a subject to be written. Raises ErrorAnswer if subjects may not have this
    name."""
    name = subject_name(text)
    if (
        name in _NOT_SUBJECTS
        or any(_is_control(character) for character in name)
        or _has_context(name)
    ):
        raise invalid_subject(text)
    return name


def subject_prefix(query: Mapping[str, str]) -> str:
    prefix = query.get("subjectPrefix", "")
    return prefix.removeprefix(_EVERY_CONTEXT).removeprefix(_DEFAULT_CONTEXT)


def _is_control(letter: str) -> bool:
    return letter < " " or "\x7f" <= letter <= "\x9f"


def _has_context(name: str) -> bool:
    """Whether the name is `:.context:subject`. Contexts are not supported."""
    return name.startswith((":.", _EVERY_CONTEXT))
