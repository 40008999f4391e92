"""Files of logins, one per line: a name, a colon, and a hash of the secret.

Empty lines and lines that begin with # are ignored.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"[^\s:/\\,\"'<>&\x00-\x1f\x7f]{1,128}")
_MOST_BYTES: Final = 4 * 1024 * 1024


def check_name(name: str) -> None:
    """Checks a user's name. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError("a user name must not contain spaces, quotes, slashes, commas or colons")


def lines_of(path: Path, unusable: type[Exception]) -> Iterator[tuple[int, str, str]]:
    """Yields each line's number, name and rest; names are not validated. Raises `unusable`."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        text = content.decode()
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise unusable(f"{path} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise unusable(f"{path} is not UTF-8") from None
    if len(content) > _MOST_BYTES:
        raise unusable(f"{path} has more than {_MOST_BYTES} bytes")
    for line_number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.partition(":")
            yield line_number, name, rest
