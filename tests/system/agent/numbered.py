"""Lines that say which of whose they are. Imports little: every writer starts with it."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Numbered:
    """Lines that say their number alone, of writers that nobody can keep book of byte by byte.

    `since`: the lines are JSON and say when they happened, one millisecond after the other.
    """

    writer: str
    size: int = 0
    since: int | None = None

    def message(self, number: int) -> str:
        return f"{self.writer} {number} ".ljust(self.size, "x")

    def line(self, number: int) -> str:
        """Without its newline."""
        if self.since is None:
            return self.message(number)
        return json.dumps({"ts": self.since + number, "message": self.message(number)})
