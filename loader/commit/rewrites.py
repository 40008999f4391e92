"""The effect of rewrites on a manifest: files out, files in, the same rows. Pure.

A run of kind REWRITE does nothing but that. It takes an hour's `_SUCCESS` away before the files
are replaced, and writes it again afterwards, so that a job that waits for it never reads an hour
in which files are missing for a moment.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from loader.commit.layout import SUCCESS, hour_path, no_marker, success_marker
from loader.commit.next_state import manifest_without_reading, next_run
from loader.errors import Mismatch
from loader.values.manifests import Added, HourState, Manifest, Marker, RunKind
from loader.values.rewrites import Rewrite, RewriteReason, Rewritten
from loader.values.tables import Hour


def rewrite_of(
    hour: Hour,
    files: Collection[str],
    sizes: Mapping[str, int],
    *,
    below: int,
    to: int,
    others: Collection[str] = (),
) -> Rewrite | None:
    """The rewrite of an hour's files smaller than `below`, if that would reduce their number, and
    of `others`, which are rewritten in any case. `sizes` are by path, `to` is the approximate size
    of new files."""
    old_files = tuple(sorted(path for path in files if sizes[path] < below or path in others))
    total_bytes = sum(sizes[path] for path in old_files)
    file_count = min(max(1, -(-total_bytes // to)), max(1, len(old_files)))
    if file_count < len(old_files) or any(path in others for path in old_files):
        return Rewrite(hour, old_files, total_bytes, file_count)
    return None


def rewrite_manifest(
    previous: Manifest,
    rewritten: Sequence[Rewritten],
    *,
    uniform: Iterable[Hour] = (),
    reason: RewriteReason,
    now: int,
    loader: str,
) -> Manifest:
    """The manifest of a run that only rewrites hours. All files of the hours in `uniform`, which
    may be hours without a rewrite, have the table's columns from now on. Raises Mismatch if rows
    were lost or gained, as far as that is known."""
    run = next_run(previous)
    hours = dict(previous.hours)
    for hour in uniform:
        hours[hour] = msgspec.structs.replace(hours[hour], schema_number=previous.schema_number)
    all_added: list[Added] = []
    markers: list[Marker] = []
    for hour_rewritten in rewritten:
        hour = hour_rewritten.rewrite.hour
        hours[hour], added_files = replaced(previous.table, hours[hour], hour_rewritten, run)
        all_added += added_files
        if hours[hour].complete >= 0:
            markers.append(no_marker(previous.table, hour, SUCCESS))
            markers.append(success_marker(previous.table, hour, hours[hour], run))
    return manifest_without_reading(
        previous,
        hours,
        kind=RunKind.REWRITE,
        adds=all_added,
        removes=(path for part in rewritten for path in part.rewrite.files),
        markers=markers,
        now=now,
        loader=loader,
        reason=reason,
    )


def replaced(
    table: str, state: HourState, rewritten: Rewritten, run: int
) -> tuple[HourState, list[Added]]:
    """The hour after its rewrite, and the new files. Raises Mismatch."""
    rewrite = rewritten.rewrite
    folder = hour_path(table, rewrite.hour)
    added_files = [
        Added(
            staged=file.staged,
            path=f"{folder}/part-merged-{index:04}-{run}{file.suffix}",
            hour=rewrite.hour,
            rows=file.rows,
            bytes=file.bytes,
            digest=file.digest,
        )
        for index, file in enumerate(rewritten.files)
    ]
    old_paths = set(rewrite.files)
    kept_files = {
        path: digest for path, digest in state.digest_by_file.items() if path not in old_paths
    }
    rows = sum(file.rows for file in added_files)
    if len(kept_files) + len(old_paths) != len(state.files):
        raise Mismatch(f"{folder}: the rewritten files are not files of this hour")
    if rows > state.rows or (not (kept_files or state.unlisted) and rows != state.rows):
        raise Mismatch(f"{folder}: rewriting {state.rows:,} rows resulted in {rows:,}")
    state = msgspec.structs.replace(
        state.with_files(kept_files | {file.path: file.digest for file in added_files}),
        bytes=state.bytes - rewrite.bytes + sum(file.bytes for file in added_files),
        rewritten=run,
    )
    return state, added_files
