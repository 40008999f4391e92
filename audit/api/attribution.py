"""How it is shown what an operator has said: why, and who it was, and when."""

from datetime import UTC, datetime


def said_by(reason: str, operator: str, time: int) -> str:
    """`disk broke (ada as ops, 2026-11-20 07:12 UTC)`"""
    return f"{reason} ({operator}, {_minute(time)})" if operator else reason


def _minute(time: int) -> str:
    """Those that no calendar has as they are: what is in a ledger can be any number."""
    try:
        return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{time} ms"
