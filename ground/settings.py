"""Types of configuration values beyond number and text (with units or a meaning), and checks that
name the wrong key.

For msgspec these are plain numbers and texts. The word is for people who look a key up (`penstock
keys`, docs/).
"""

import math
from typing import Annotated, Final

import msgspec
from msgspec import Meta

WORD: Final = "word"  # the key of a type's word in `Meta.extra`

Seconds = Annotated[float, Meta(extra={WORD: "seconds"})]
WholeSeconds = Annotated[int, Meta(extra={WORD: "whole seconds"})]
Bytes = Annotated[int, Meta(extra={WORD: "bytes"})]
Port = Annotated[int, Meta(extra={WORD: "port"})]
HostAndPort = Annotated[str, Meta(extra={WORD: "host:port"})]
Url = Annotated[str, Meta(extra={WORD: "URL"})]
FilePath = Annotated[str, Meta(extra={WORD: "file"})]
FolderPath = Annotated[str, Meta(extra={WORD: "folder"})]
Pattern = Annotated[str, Meta(extra={WORD: "regular expression"})]


def check_positive(struct: msgspec.Struct, *names: str) -> None:
    """Checks that numbers are positive. Raises ValueError."""
    for name in names:
        value = getattr(struct, name)
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"`{name}` must be positive")


def check_not_negative(struct: msgspec.Struct, *names: str) -> None:
    """Checks that numbers are not negative. Raises ValueError."""
    for name in names:
        value = getattr(struct, name)
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"`{name}` must not be negative")
