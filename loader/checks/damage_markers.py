"""Marks hours whose landed files are damaged: `_DAMAGED` replaces `_SUCCESS` until the hour is
intact again.

Jobs wait for `_SUCCESS`, so it must not stay in an hour that a check has found wrong. `_DAMAGED`
names the faults and the command that mends them. It also has the fields of `_SUCCESS`.

Rule 1: `_DAMAGED` is written before `_SUCCESS` is deleted, and deleted after `_SUCCESS` is written.
        If a loader is killed in between, both are there, and the next check finishes the step.
Rule 2: each check derives the markers from the hour's files, and no manifest records them. While
        `_DAMAGED` is there, runs write no `_SUCCESS` (commit/publishing.py). A rebuild deletes
        both.
Rule 3: a certificate stays in a damaged hour, since it shows what was there. If it is missing from
        an intact hour, it is restored from the manifest of the run that made it, as long as that is
        kept.
Rule 4: a folder without any file stays as it is. It was deleted with its `_SUCCESS`, perhaps by a
        user's retention, and must not come back.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from loader.certificates.drafts import is_due
from loader.checks.comparison import NO_HOUR, FaultyFile, HourOutcome
from loader.checks.statements import printable
from loader.commit.commit_log import CommitLog
from loader.commit.layout import (
    CERTIFICATE,
    DAMAGED,
    SUCCESS,
    hour_path,
    no_marker,
    success_marker,
)
from loader.errors import StoreError
from loader.values.manifests import HourState, Marker
from loader.values.tables import Hour

MOST_FAULTS: Final = 100  # that a marker names
_MOST_BYTES: Final = 1024 * 1024  # of a marker
Cure = Callable[[Hour, Sequence[FaultyFile]], str]


class DamageMarkers:
    """The damage markers of one table."""

    def __init__(self, commit_log: CommitLog, cure: Cure, warn: Callable[[str], None]) -> None:
        """`cure` says how to mend an hour with these faults; `warn` receives each change, and what
        prevents one."""
        self._log = commit_log
        self._store = commit_log.store
        self._cure = cure
        self._warn = warn

    def update(
        self,
        outcomes: Sequence[HourOutcome],
        names: Mapping[Hour, Collection[str]],
        hours: Mapping[Hour, HourState],
    ) -> None:
        """Updates the markers by the outcomes of a check. `names` has the names of all files in the
        hours' folders, `hours` the manifest's hours."""
        for outcome in outcomes:
            present_names = names.get(outcome.hour, ())
            state = hours.get(outcome.hour, NO_HOUR)
            if outcome.faults and present_names:
                self.mark(outcome.hour, outcome.faults, present_names, state)
            elif not outcome.faults and DAMAGED in present_names:
                self._unmark(outcome.hour, state)
            elif not outcome.faults and present_names and CERTIFICATE not in present_names:
                self._restore_certificate(outcome.hour, state)

    def mark(
        self,
        hour: Hour,
        faults: Sequence[FaultyFile],
        present: Collection[str],
        state: HourState = NO_HOUR,
    ) -> None:
        """Marks an hour whose folder has files of these names as damaged."""
        success_path, damaged_path = self._paths(hour)
        try:
            previous_content = self._store.read(damaged_path, _MOST_BYTES) or b""
            content = _content(self._success(hour, state).written, faults, self._cure(hour, faults))
            if content != previous_content:
                self._store.replace(damaged_path, content)
            if SUCCESS in present:
                self._store.delete(success_path)
        except StoreError as error:
            self._warn(f"{damaged_path} cannot be written in place of `{SUCCESS}`: {error}")
            return
        if not previous_content:
            suffix = f" in place of `{SUCCESS}`" if SUCCESS in present else ""
            self._warn(f"{hour_path(self._log.table, hour)} has `{DAMAGED}`{suffix} from now on")

    def _unmark(self, hour: Hour, state: HourState) -> None:
        success_path, damaged_path = self._paths(hour)
        is_complete = state.complete >= 0
        try:
            if is_complete:
                self._store.replace(
                    success_path,
                    self._committed(self._success(hour, state), _last_run(state)),
                )
            self._store.delete(damaged_path)
        except StoreError as error:
            self._warn(
                f"{damaged_path} cannot be removed, although the hour is intact again: {error}"
            )
            return
        suffix = f" and has `{SUCCESS}` again" if is_complete else ""
        self._warn(f"{hour_path(self._log.table, hour)} is intact again{suffix}")

    def _restore_certificate(self, hour: Hour, state: HourState) -> None:
        """Restores the certificate of the hour's present files."""
        if not state.certificates or is_due(state) or state.complete < 0:
            return
        path = f"{hour_path(self._log.table, hour)}/{CERTIFICATE}"
        certificate = self._committed(Marker(path=path), state.certified)
        if not certificate:
            return
        try:
            self._store.replace(path, certificate)
        except StoreError as error:
            self._warn(f"{path} cannot be restored: {error}")
            return
        self._warn(f"{path} was missing, and was restored")

    def _success(self, hour: Hour, state: HourState) -> Marker:
        """`_SUCCESS` for the hour's state; without content if the hour is open."""
        if state.complete < 0:
            return no_marker(self._log.table, hour, SUCCESS)
        return success_marker(self._log.table, hour, state, _last_run(state))

    def _committed(self, marker: Marker, run: int) -> bytes:
        """The content of a marker that a run has committed, which has more than its state, such as
        how completeness was decided. That of `marker` if the manifest is gone."""
        markers = self._log.read(run).markers if run in self._log.runs() else ()
        return next((known for known in markers if known.path == marker.path), marker).written

    def _paths(self, hour: Hour) -> tuple[str, str]:
        folder = hour_path(self._log.table, hour)
        return f"{folder}/{SUCCESS}", f"{folder}/{DAMAGED}"


def _last_run(state: HourState) -> int:
    """The run that last wrote the `_SUCCESS` of a complete hour."""
    return max(state.complete, state.changed, state.rewritten)


def _content(success: bytes, faults: Sequence[FaultyFile], cure: str) -> bytes:
    content = {
        **json.loads(success or b"{}"),
        "faults": [printable(str(fault)) for fault in faults[:MOST_FAULTS]],
        "more_faults": max(0, len(faults) - MOST_FAULTS),
        "what_to_do": cure,
    }
    return f"{json.dumps(content)}\n".encode()
