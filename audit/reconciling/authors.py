"""Formats the reason of an operator's statement with its author and time."""

from datetime import UTC, datetime


def with_author(reason: str, operator: str, time: int) -> str:
    """Appends the author and time to a reason: `disk broke (ada as ops, 2026-11-20 07:12 UTC)`."""
    return f"{reason} ({operator}, {_minute(time)})" if operator else reason


def _minute(time: int) -> str:
    """Formats a time; one outside the calendar, as a ledger may have, in milliseconds."""
    try:
        return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{time} ms"
