"""Which files each hour should have, and how large they are: from manifests, in their order. Pure.

A manifest says of the files that its own run has added how large they are, and of all others only
which hours have them, and what these come to. So what runs said is kept (state.py). A file stays
one of its hour until a run replaces it, also if somebody has taken it away and the hour was closed
without it: its rows were committed, and are missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from loader.manifests import HourState, Manifest
from loader.markers import hour_path
from loader.tables import Hour

NO_HOUR: Final = HourState(rows=0, files=())


class CommittedFile(NamedTuple):
    """As the run that added it has counted it; and when its content was last found to be that."""

    rows: int
    bytes: int
    topic: str = ""  # empty: of several
    checksum: str = ""  # empty: nobody knows
    modified: int = 0  # as it was when its content was looked at; 0: never, or it was wrong
    verified: int = 0  # when that was, milliseconds


Files = dict[str, CommittedFile]  # by path


@dataclass(frozen=True, slots=True)
class ExpectedHour:
    """What should lie in its folder: files that are known, others by name or by number, and what
    these others come to."""

    hour: Hour
    folder: str
    known: Mapping[str, CommittedFile]
    others: frozenset[str] = frozenset()
    unlisted: int = 0
    others_rows: int = 0
    others_bytes: int = 0

    @property
    def files(self) -> int:
        return len(self.known) + len(self.others) + self.unlisted

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.known.values()) + self.others_rows


def follow(known: Mapping[Hour, Files], manifest: Manifest) -> None:
    """The files of these hours, as they are after the run that comes next."""
    for hour in manifest.rebuilt:
        if hour in known:
            known[hour].clear()
    replaced = set(manifest.removes)
    if replaced:
        for files in known.values():
            for path in replaced & files.keys():
                del files[path]
    prefix = f"{manifest.table}/"
    for added in manifest.adds:
        if added.hour in known and added.path.startswith(prefix):
            known[added.hour][added.path] = CommittedFile(
                added.rows, added.bytes, added.topic, added.checksum
            )


def expected(table: str, hour: Hour, state: HourState, known: Files) -> ExpectedHour:
    """`state` is what the newest manifest says of the hour. Where it has no names any more, those
    that are known may be among them: then only the sum is."""
    listed = set(state.files)
    of_hour = {path: each for path, each in known.items() if path in listed}
    if state.unlisted:
        known = of_hour
    others = frozenset(listed - known.keys())
    folder = hour_path(table, hour)
    if not others and not state.unlisted:
        return ExpectedHour(hour, folder, known)
    return ExpectedHour(
        hour,
        folder,
        known,
        others,
        state.unlisted,
        max(0, state.rows - sum(each.rows for each in of_hour.values())),
        max(0, state.bytes - sum(each.bytes for each in of_hour.values())),
    )
