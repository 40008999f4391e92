"""The error for a line that cannot become an event."""

from typing import Final

_LONGEST: Final = 300


class LineFault(Exception):
    """A fault in a line. `kind` is the word under which faults are counted; the text has the
    details."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind

    @property
    def reason(self) -> str:
        """The text as one line of limited length."""
        text = " ".join(str(self).split())
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def shown(value: object) -> str:
    """A value from a line, shortened for a message."""
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else f"{value[:79]}…")
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return repr(value)[:80]
    except ValueError:  # of a number of thousands of digits
        return "a number of thousands of digits"
