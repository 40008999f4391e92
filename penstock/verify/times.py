"""Times in signed statements, such as 2026-11-30T10:00:00Z."""

from datetime import UTC, datetime


def millis(text: str) -> int:
    """Parses a time. Raises ValueError."""
    time = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return int(time.timestamp()) * 1000
