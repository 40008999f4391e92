"""What the loader is about, as far as its log says: it serves nobody who could ask it.

The last event of the log is what it does, unless that is that it waits, or has failed. What was
said before it was started is of another life.
"""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Final

from penstock.up.log_files import last_lines

_LINES: Final = 20  # tables are printed, too
_EVENT: Final = re.compile(r"(\S+Z) [A-Z]+ penstock\.load (.+)")
_IDLE: Final = (
    "waiting until=",
    "load failed ",
    "a load took longer ",
    "table done ",
    "table failed ",
    "nothing to do ",
    "nothing committed ",
    "checked ",
)


def load_at_work(log: Path, since: float) -> str:
    """In the loader's words; empty if none runs."""
    for line in reversed(last_lines(log, 0, _LINES)):
        if found := event_of(line):
            at, said = found
            return "" if at < since or said.startswith(_IDLE) else said
    return ""


def event_of(line: str) -> tuple[float, str] | None:
    """When, and what; None for a line that is none of the loader's events."""
    try:
        if not line.startswith("{"):
            found = _EVENT.fullmatch(line)
            return (datetime.fromisoformat(found[1]).timestamp(), found[2]) if found else None
        event = json.loads(line)
        if event["logger"] != "penstock.load":
            return None
        return datetime.fromisoformat(event["time"]).timestamp(), str(event["event"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
