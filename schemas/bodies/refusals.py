"""Errors for values that do not match a schema: one line, with the place of the value."""

from typing import Any, Final

MOST_SHOWN: Final = 60


class Misfit(ValueError):
    """An error such as `user.age: 'x' is not an int`. The place is built while the error
    propagates, the text on demand.

    `of` names the value if the place is empty and the fault is inside the value.
    """

    def __init__(self, what: str, *values: Any, of: str = "") -> None:
        """`what` describes the value, if one is given."""
        super().__init__(what)
        self._what = what
        self._values = values
        self._of = of
        self._place = ""

    def inside(self, name: str) -> "Misfit":
        """Adds the enclosing field to the place."""
        inner_place = self._place
        self._place = (
            f"{name}{inner_place}"
            if inner_place.startswith("[") or not inner_place
            else f"{name}.{inner_place}"
        )
        return self

    @property
    def is_inside(self) -> bool:
        """Whether the fault is inside the value rather than the value itself."""
        return bool(self._place or self._of)

    def in_full(self) -> str:
        """Returns the text for Python programs, with the value as a Python literal."""
        fault = f"{shown(self._values[0])} is {self._what}" if self._values else self._what
        return f"{self._place or self._of or 'the value'}: {fault}"

    def __str__(self) -> str:
        fault = f"{_in_short(self._values[0])} is {self._what}" if self._values else self._what
        return f"{self._place[:200]}: {fault}" if self._place else fault


class Undecided(Misfit):
    """The value is nested too deeply, or too many branches of unions were tried."""


def no(value: Any, what: str) -> Misfit:
    """Returns the error for a value that is not of the expected type."""
    return Misfit(what, value)


def shown(value: Any) -> str:
    """Returns the value as a Python literal, shortened."""
    if isinstance(value, str | bytes | bytearray):
        value = value[:MOST_SHOWN]
    try:
        text = repr(value)
    except ValueError:  # of an integer with thousands of digits
        return f"a value of class {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def _in_short(value: Any) -> str:
    """The value as described to authors of log lines, without Python's classes."""
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = shown(value)
    return "a number with thousands of digits" if text == "a value of class int" else text
