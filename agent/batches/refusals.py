"""Why a line's value does not fit a schema: named by its place, in one line."""

from typing import Any, Final

MOST_SHOWN: Final = 60


class Misfit(ValueError):
    """`user.age: 'x' is no int`. The place is put together on the way out."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.place = ""

    def inside(self, name: str) -> "Misfit":
        """The same, seen from a field around it."""
        rest = self.place
        self.place = f"{name}{rest}" if rest.startswith("[") or not rest else f"{name}.{rest}"
        return self

    def __str__(self) -> str:
        return f"{self.place[:200]}: {self.what}" if self.place else self.what


def no(value: Any, what: str) -> Misfit:
    """A value is not what was wanted."""
    return Misfit(f"{shown(value)} is {what}")


def shown(value: Any) -> str:
    """As Python writes it, shortened."""
    if isinstance(value, str | bytes | bytearray):
        value = value[:MOST_SHOWN]
    elif isinstance(value, list | tuple):
        return "a list"
    elif isinstance(value, dict):
        return "an object"
    try:
        text = repr(value)
    except ValueError:  # of an integer with thousands of digits
        return "a number with thousands of digits"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
