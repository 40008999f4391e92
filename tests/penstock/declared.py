"""Files that declare something, and what a command makes of them."""

import json
from pathlib import Path
from typing import Any

from tests.penstock.running import At


def outcomes(said: dict[str, Any], what: str) -> dict[str, str]:
    return {each["name"]: each["outcome"] for each in said[what]}


class Declared:
    """`penstock WHAT apply` with a file of its own."""

    def __init__(self, at: At, what: str, folder: Path) -> None:
        self.at = at
        self.what = what
        self.file = folder / f"{what}.yaml"

    def write(self, *entries: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({self.what: list(entries)}))

    def apply(self, *entries: dict[str, Any], options: tuple[str, ...] = ()) -> dict[str, str]:
        """What becomes of each."""
        self.write(*entries)
        said = self.at.json(self.what, "apply", str(self.file), "--yes", *options)
        return outcomes(said, self.what)

    def dry(self, *entries: dict[str, Any], options: tuple[str, ...] = ()) -> dict[str, str]:
        return self.apply(*entries, options=("--dry-run", *options))

    def refused(self, *entries: dict[str, Any], code: int = 1) -> tuple[dict[str, Any], str]:
        """What it prints, and its line."""
        self.write(*entries)
        ended = self.at.run(self.what, "apply", str(self.file), "--json", "--yes")
        assert ended.returncode == code, ended
        (line,) = ended.stderr.splitlines()
        return json.loads(ended.stdout or "{}"), line
