"""Tables made by hand: files whose rows are their lines, and manifests that have committed them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from loader.checks.comparison import UNKNOWN, HourOutcome
from loader.checks.damage_markers import DamageMarkers
from loader.checks.file_check import FileCheck
from loader.commit.commit_log import CommitLog
from loader.store.local import LocalStore
from loader.values.manifests import Added, HourState, Manifest, Marker, RunKind
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder

NOW: Final = 497_000 * HOUR_MILLIS + 1_800_000  # in September 2026
THIS: Final = Hour(497_000 * HOUR_MILLIS)
TABLE: Final = "clicks"
TWO_DAYS: Final = 48 * HOUR_MILLIS


def hour(ago: int) -> Hour:
    return Hour(THIS - ago * HOUR_MILLIS)


def path(of: Hour, name: str) -> str:
    return f"{TABLE}/{hour_folder(of)}/{name}"


def lines(rows: int) -> bytes:
    return b"row\n" * rows


class Table:
    """On a real store, in a folder."""

    def __init__(self, root: Path, topics: Sequence[str] = (TABLE,)) -> None:
        self.root = root
        self.store = LocalStore(f"file://{root}")
        self.commit_log = CommitLog(self.store, TABLE)
        self.topics = topics
        self.told: list[Mapping[str, Any]] = []  # statements
        self.takes = True  # whether the ledger takes anything
        self.counted: list[str] = []
        self.warned: list[str] = []
        self.hours: dict[Hour, HourState] = {}
        self._run = 0

    def commit(
        self,
        adds: Sequence[Added] = (),
        *,
        removes: Sequence[str] = (),
        rebuilt: Sequence[Hour] = (),
        hours: Mapping[Hour, HourState] | None = None,
        markers: Sequence[Marker] = (),
        now: int = NOW,
    ) -> None:
        """A run. Unless its hours are given, they have what was added and lose what was removed."""
        self._run += 1
        self.hours = dict(self._after(adds, removes, rebuilt, now) if hours is None else hours)
        manifest = Manifest(
            version=1,
            run=self._run,
            kind=RunKind.LOAD,
            table=TABLE,
            committed=now,
            loader="test",
            topics=(),
            adds=tuple(adds),
            removes=tuple(removes),
            rebuilt=tuple(rebuilt),
            hours=self.hours,
            markers=tuple(markers),
        )
        for gone in removes:
            self.store.delete(gone)
        for each in adds:
            self.write(each.path, lines(each.rows))
        self.commit_log.commit(manifest)
        self.commit_log.mark_visible(self._run)
        self.commit_log.mark_published(self._run)

    def write(self, at: str, data: bytes) -> None:
        self.store.replace(at, data)

    def young(self, now: int = NOW) -> list[tuple[str, str, int, int]]:
        """The faults that a load is told of."""
        found = self.outcomes(now)
        return [
            (fault.path, fault.fault.value, fault.committed_rows, fault.found_rows)
            for each in found
            for fault in each.faults
        ]

    def outcomes(self, now: int, most_bytes: int = 1 << 20) -> list[HourOutcome]:
        latest = self.commit_log.latest()
        assert latest is not None
        return self.check(most_bytes=most_bytes).young(latest, now)

    def check(self, young_millis: int = TWO_DAYS, most_bytes: int = 1 << 20) -> FileCheck:
        return FileCheck(
            self.commit_log,
            self.topics,
            young_millis=young_millis,
            count=self._count,
            tell=self._tell,
            markers=DamageMarkers(self.commit_log, lambda *_: "load", self.warned.append),
            most_bytes=most_bytes,
        )

    def _after(
        self, adds: Sequence[Added], removes: Sequence[str], rebuilt: Sequence[Hour], now: int
    ) -> dict[Hour, HourState]:
        hours = {of: state for of, state in self.hours.items() if of not in rebuilt}
        changed = {of for of, state in hours.items() if set(removes) & set(state.files)}
        for of in changed | {each.hour for each in adds}:
            before = hours.get(of, HourState(rows=0, files=()))
            new = [each for each in adds if each.hour == of]
            rows = sum(each.rows for each in new)  # those of a merge were there before
            hours[of] = HourState(
                rows=before.rows + (0 if of in changed else rows),
                files=(
                    *(p for p in before.files if p not in removes),
                    *(each.path for each in new),
                ),
                bytes=before.bytes + (0 if of in changed else len(lines(rows))),
                at=now,
            )
        return hours

    def _count(self, paths: Sequence[str]) -> dict[str, int]:
        self.counted += paths
        found = {}
        for each in paths:
            data = self.store.read(each)
            readable = data is not None and data == lines(data.count(b"\n"))
            found[each] = data.count(b"\n") if data is not None and readable else UNKNOWN
        return found

    def _tell(self, said: Sequence[Mapping[str, Any]]) -> bool:
        if self.takes:
            self.told += [each for entry in said for each in entry["checked"]]
        return self.takes


def added(of: Hour, name: str, rows: int, topic: str = TABLE) -> Added:
    where: Any = {"staged": f"staged/{name}", "path": path(of, name), "topic": topic}
    return Added(hour=of, rows=rows, bytes=len(lines(rows)), **where)
