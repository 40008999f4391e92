"""What is checked of the numbers in a program's configuration; each says which key is wrong."""

import math

import msgspec


def check_positive(struct: msgspec.Struct, *names: str) -> None:
    """Raises ValueError."""
    for name in names:
        value = getattr(struct, name)
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"`{name}` must be positive")


def check_not_negative(struct: msgspec.Struct, *names: str) -> None:
    """Raises ValueError."""
    for name in names:
        value = getattr(struct, name)
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"`{name}` must not be negative")
