"""What an application wrote, counted by itself: what all that arrives is held against.

It knows nothing of agents or ledgers. The file is written once, when the application was told to
stop, and appears whole; an application that was killed has none.
"""

from pathlib import Path

import msgspec


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """One application's. Its events are numbered 0, 1, 2 and so on."""

    application: str
    lines: int
    events: int  # of one line or several
    files: int  # that its log has had


def keep(tally: Tally, path: Path) -> None:
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_bytes(msgspec.json.encode(tally))
    unfinished.replace(path)


def kept(path: Path) -> Tally:
    """Raises OSError or msgspec.DecodeError if there is none."""
    return msgspec.json.decode(path.read_bytes(), type=Tally)
