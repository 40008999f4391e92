"""Why a value does not fit a schema: named by its place, in one line."""

from typing import Any, Final

MOST_SHOWN: Final = 60


class Misfit(ValueError):
    """`user.age: 'x' is no int`. The place is put together on the way out, the words when asked.

    `of` is what the value is called where the place is empty; it is something in it that is wrong.
    """

    def __init__(self, what: str, *values: Any, of: str = "") -> None:
        """With one value: it is `what`."""
        super().__init__(what)
        self._what = what
        self._values = values
        self._of = of
        self._place = ""

    def inside(self, name: str) -> "Misfit":
        """The same, seen from a field around it."""
        rest = self._place
        self._place = f"{name}{rest}" if rest.startswith("[") or not rest else f"{name}.{rest}"
        return self

    @property
    def is_inside(self) -> bool:
        """Whether it is something in the value, and not the value itself."""
        return bool(self._place or self._of)

    def in_full(self) -> str:
        """For who has written the value in Python: it is shown as Python writes it."""
        what = f"{shown(self._values[0])} is {self._what}" if self._values else self._what
        return f"{self._place or self._of or 'the value'}: {what}"

    def __str__(self) -> str:
        what = f"{_in_short(self._values[0])} is {self._what}" if self._values else self._what
        return f"{self._place[:200]}: {what}" if self._place else what


class Undecided(Misfit):
    """It is nested too deeply, or too many branches of unions were tried in vain."""


def no(value: Any, what: str) -> Misfit:
    """A value is not what was wanted."""
    return Misfit(what, value)


def shown(value: Any) -> str:
    """As Python writes it, shortened."""
    if isinstance(value, str | bytes | bytearray):
        value = value[:MOST_SHOWN]
    try:
        text = repr(value)
    except ValueError:  # of an integer with thousands of digits
        return f"a value of class {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def _in_short(value: Any) -> str:
    """The same for who has written a line of a log, and knows nothing of Python's classes."""
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = shown(value)
    return "a number with thousands of digits" if text == "a value of class int" else text
