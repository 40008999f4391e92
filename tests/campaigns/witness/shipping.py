"""What agents have shipped, by source and byte, and what became of it: a line that was shipped as
two sources is there as long as one of them is. Pure."""

from collections import Counter

from tests.campaigns.witness.reading import Row
from tests.campaigns.witness.truth import Line
from tests.campaigns.witness.verdict import Called, Seen


class Shipped:
    def __init__(self, seen: Seen) -> None:
        self._rows = seen.rows
        landed = {(row.source, row.position) for row in seen.rows}
        self._landed_as: dict[str, set[str]] = {}
        for row in seen.rows:
            self._landed_as.setdefault(row.text, set()).add(row.source)
        names = [((kept.record.source, kept.record.position), kept) for kept in seen.records]
        standing = {name for name, kept in names if kept.stands}
        self._all = landed | {name for name, _ in names}
        self._lost = self._all - landed - standing
        self._times: Counter[tuple[str, int]] = Counter()
        for name, kept in names:
            self._times[name] += kept.times

    def was(self, called: Called, line: Line) -> bool:
        """Whether it was shipped as the source that a finding names."""
        return (called.source, line.start) in self._all

    def was_again(self, called: Called, line: Line) -> bool:
        """Whether it was shipped as that source more than once."""
        return self._times[called.source, line.start] > 1

    def is_there_as_another(self, called: Called, line: Line) -> bool:
        """Whether it has landed as another source than the one that a finding names."""
        return bool(self._landed_as.get(line.text, set()) - {called.source})

    def log_lost(self, called: Called, line: Line) -> bool:
        """Whether the log has lost it as this source, before it landed."""
        return (called.source, line.start) in self._lost

    def rows_in(self, path: str) -> set[str]:
        """What is in a landed file now."""
        return {row.text for row in self._rows if _is_in(row, path)}

    def rows_elsewhere(self, path: str) -> set[str]:
        """What is in other landed files."""
        return {row.text for row in self._rows if not _is_in(row, path)}


def _is_in(row: Row, path: str) -> bool:
    return row.file.endswith(path)
