"""Completeness of one table's hours: asks the audit about them, and closes those that are complete.

The audit is asked before the load is planned, and then the brokers about the topics' ends: in this
order, since its answers are about what the logs contain by then (hours/completeness.py). Hours are
judged after the load has committed what it read, and closed by a manifest of their own.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from client.errors import ClientError
from loader.checks.comparison import UNKNOWN, FaultyFile, FileFaultKind
from loader.commit.commit_log import Attempt, with_digests
from loader.commit.layout import DAMAGED, hour_path, run_folder
from loader.commit.next_state import next_run
from loader.commit.old_hours import is_empty, listed
from loader.commit.rewrites import rewrite_of
from loader.config import CertificateMode
from loader.errors import LoaderError
from loader.hours.closing import (
    close_manifest,
    files_left,
    gone_files,
    open_hours,
    to_close,
    with_remaining,
)
from loader.hours.completeness import AuditGate, Complete, Completeness, HourVerdict, Waiting
from loader.hours.ledger_reading import topic_ends
from loader.ledger.entries import destination_of
from loader.run.landed_files import count_rows
from loader.run.load_context import TableLoad
from loader.run.table_certificates import TableCertificates
from loader.run.table_check import TableCheck, markers_of
from loader.run.table_rewriting import has_table_columns, other_files, rewrite_files
from loader.values.manifests import Manifest
from loader.values.rewrites import Rewritten
from loader.values.tables import Hour

MOST_ASKED: Final = 1_000  # the newest hours of a table, in one load
_BEFORE_REBUILD: Final = "complete before it was rebuilt"
_BEFORE_LATE_ROWS: Final = "complete before late rows with other columns"

# Commits the first manifest, which follows the second.
Commit = Callable[[Manifest, Manifest | None, Attempt], Manifest]
# Returns which of these hours have rows that were not compared with what agents have signed.
NotCompared = Callable[[Iterable[Hour]], Mapping[Hour, Waiting]]


def completeness_of(load: TableLoad, latest: Manifest | None) -> Completeness | None:
    """Returns what judges whether the table's hours are complete in this load: the audit's answers,
    or the agents' watermarks. None leaves the hours to the next load."""
    context = load.context
    if context.audit is None or context.request.dry_run:
        return context.watermarks
    now_millis = context.now()
    hours = sorted({*open_hours(latest, now_millis), *context.request.rebuild})[-MOST_ASKED:]
    if latest is not None and not latest.header:
        hours = []
    load.doing(f"asking the audit about {_hours(len(hours))}")
    states = {} if latest is None else latest.hours
    rebuilt = {
        hour: states[hour].at
        for hour in hours
        if hour in states and states[hour].lack and hour not in context.request.rebuild
    }
    answers = context.audit.ask(
        ((topic, hour) for hour in hours for topic in load.topics),
        destination=destination_of(latest, context.config),
        rebuilt=rebuilt,
    )
    settle_seconds = context.config.completeness.settle
    settle_millis = None if settle_seconds is None else int(settle_seconds * 1000)
    try:
        ends = topic_ends(load.brokers, load.topics)
    except ClientError as error:
        load.warn(f"cannot determine which hours are complete: {error}")
        return context.watermarks
    return AuditGate(answers, ends, now_millis, settle_millis, frozenset(rebuilt))


def close_hours(
    load: TableLoad,
    latest: Manifest,
    completeness: Completeness | None,
    previously_complete: Sequence[Hour],
    *,
    commit: Commit,
    not_compared: NotCompared,
) -> Manifest:
    """Merges complete hours and declares them complete; marks hours past their deadline as
    incomplete. Returns the newest manifest.

    Hours in `previously_complete` were opened by a rebuild, and are complete again if as many
    events were read, because it has read as far as the loads before it; or by late rows with other
    columns.
    """
    context, now = load.context, load.context.now()
    states = {topic.topic: topic for topic in latest.topics}
    topics = {topic: states.get(topic) for topic in load.topics}
    events = bool(latest.header)
    lacks = {hour: state.lack for hour, state in latest.hours.items()}
    verdicts: dict[Hour, HourVerdict] = {
        hour: verdict
        for hour in open_hours(latest, now)
        if completeness is not None
        and (verdict := completeness.judge(topics, hour, events=events, lack=lacks.get(hour, "")))
        is not None
    }
    for hour in previously_complete:
        if not lacks.get(hour) and not isinstance(verdicts.get(hour), Complete):
            verdicts[hour] = Complete(
                _BEFORE_REBUILD if hour in context.request.rebuild else _BEFORE_LATE_ROWS
            )
    verdicts |= not_compared(hour for hour, part in verdicts.items() if isinstance(part, Complete))
    for hour in context.request.rebuild:
        if isinstance(verdict := verdicts.get(hour), Waiting):
            load.outcome.waiting[hour] = verdict.missing
    closings = to_close(latest, verdicts, now, context.config.completeness)
    if not closings:
        return latest
    load.doing(f"closing {_hours(len(closings))}")
    complete = [closing.hour for closing in closings if closing.complete]
    hours_with_rows = [
        hour for hour in complete if hour in latest.hours and not is_empty(latest.hours[hour])
    ]
    entries = {hour: context.store.list(hour_path(load.name, hour)) for hour in hours_with_rows}
    sizes = {entry.path: entry.size for listing in entries.values() for entry in listing}
    damaged_hours = {
        hour for hour, listing in entries.items() if any(entry.name == DAMAGED for entry in listing)
    }
    previous, latest = latest, _without_deleted(load, latest, hours_with_rows, sizes)
    changed_hours = _mark_changed(load, latest, hours_with_rows)
    latest, others = _with_columns_known(load, latest, hours_with_rows, changed_hours)
    mergeable = {hour: files for hour, files in others.items() if hour not in changed_hours}
    folder = run_folder(load.name, next_run(latest), uuid.uuid4().hex)
    with Attempt(load.commit_log, folder) as attempt:
        rewritten, failed_hours = _rewritten(load, latest, mergeable, sizes, folder)
        uniform = {hour for hour in others if hour not in failed_hours}
        left_open = {hour for hour in hours_with_rows if hour not in uniform}
        closings = tuple(closing for closing in closings if closing.hour not in left_open)
        if not closings:
            return previous

        def closed() -> Manifest:
            return close_manifest(
                latest, closings, rewritten, uniform=uniform, now=now, loader=context.loader
            )

        certificates = TableCertificates(load)
        intact = uniform.difference(changed_hours, damaged_hours)
        manifest, signed = certificates.closed(closed(), latest, sorted(intact))
        if context.config.certificates is CertificateMode.REQUIRED and signed.refused:
            closings = tuple(closing for closing in closings if closing.hour not in signed.refused)
            rewritten = [part for part in rewritten if part.rewrite.hour not in signed.refused]
            if not closings:
                load.outcome.uncertified |= signed.refused
                return previous
            manifest = with_digests(context.store, closed())
        latest = commit(certificates.added(manifest, signed), latest, attempt)
    load.outcome.merged_files += sum(len(part.rewrite.files) for part in rewritten)
    load.outcome.complete += [closing.hour for closing in closings if closing.complete]
    load.outcome.incomplete += [closing.hour for closing in closings if not closing.complete]
    return latest


def _hours(count: int) -> str:
    return "1 hour" if count == 1 else f"{count} hours"


def _without_deleted(
    load: TableLoad, latest: Manifest, hours: Sequence[Hour], sizes: Mapping[str, int]
) -> Manifest:
    """The manifest without files that were deleted."""
    context = load.context
    deleted_files = gone_files(latest, hours, sizes)
    if not deleted_files:
        return latest
    for hour, files in deleted_files.items():
        names = [entry.name for entry in context.store.list(hour_path(load.name, hour))]
        if names and context.config.check_files_hours:  # the check at the end says more
            missing_files = [FaultyFile(path, FileFaultKind.MISSING, UNKNOWN, 0) for path in files]
            markers_of(load).mark(hour, missing_files, names)
        load.warn(
            f"{hour_path(load.name, hour)}: {len(files)} of its files were deleted, such as"
            f" {files[0].rpartition('/')[2]}; their rows are missing until the hour is rebuilt"
        )
    remaining_files = files_left(latest, deleted_files)
    paths = [path for files in remaining_files.values() for path in files]
    rows = count_rows(context, f"{load.name}: counting remaining rows", paths)
    return with_remaining(latest, remaining_files, sizes, rows)


def _mark_changed(load: TableLoad, latest: Manifest, hours: Sequence[Hour]) -> Collection[Hour]:
    """The hours with files whose content is not as committed. A merge would make the wrong rows the
    committed ones, and the hour would look intact."""
    changed_files = TableCheck(load).changed_files(latest, hours) if hours else {}
    for hour, paths in changed_files.items():
        faults = [FaultyFile(path, FileFaultKind.CHANGED, UNKNOWN, UNKNOWN) for path in paths]
        names = [entry.name for entry in load.context.store.list(hour_path(load.name, hour))]
        if load.context.config.check_files_hours:  # the check at the end says more
            markers_of(load).mark(hour, faults, names)
        load.warn(f"{paths[0]} differs from what was committed, so its hour was not merged")
    return changed_files


def _with_columns_known(
    load: TableLoad, latest: Manifest, hours: Sequence[Hour], changed: Collection[Hour]
) -> tuple[Manifest, dict[Hour, list[str]]]:
    """The manifest with all files of hours whose files may have other columns than the table, and
    these files by hour. Hours without an entry stay open."""
    unknown_hours = [hour for hour in hours if not has_table_columns(latest, hour)]
    others_by_hour: dict[Hour, list[str]] = {
        hour: [] for hour in hours if hour not in unknown_hours
    }
    if not unknown_hours:
        return latest, others_by_hour
    latest = listed(load.context.store, latest, unknown_hours)
    intact_hours = [hour for hour in unknown_hours if hour not in changed]
    try:
        return latest, others_by_hour | other_files(load, latest, intact_hours)
    except LoaderError:
        load.check_stopped()
    for hour in intact_hours:
        try:
            others_by_hour |= other_files(load, latest, [hour])
        except LoaderError as error:
            load.check_stopped()
            load.warn(f"{hour_path(load.name, hour)} stays open: {error}")
    return latest, others_by_hour


def _rewritten(
    load: TableLoad,
    latest: Manifest,
    others: Mapping[Hour, Collection[str]],
    sizes: Mapping[str, int],
    folder: str,
) -> tuple[list[Rewritten], list[Hour]]:
    """Merges small files of these hours, and gives the table's columns to `others`, their files
    that do not have them. Also returns the hours where that failed."""
    config = load.context.config.completeness
    rewrites = [
        rewrite
        for hour in others
        if (
            rewrite := rewrite_of(
                hour,
                latest.hours[hour].files,
                sizes,
                below=config.merge_below,
                to=config.merge_to,
                others=others[hour],
            )
        )
        is not None
    ]
    try:
        return [*rewrite_files(load, latest, rewrites, sizes, folder)], []
    except LoaderError as error:
        load.check_stopped()
        # Hours are complete even if their files cannot be merged.
        load.warn(f"small files were not merged: {error}")
    rewritten: list[Rewritten] = []
    failed_hours: list[Hour] = []
    for index, rewrite in enumerate(rewrites):
        if not others[rewrite.hour]:
            continue
        try:
            rewritten += rewrite_files(load, latest, [rewrite], sizes, f"{folder}/alone-{index}")
        except LoaderError as error:
            load.check_stopped()
            load.warn(f"{hour_path(load.name, rewrite.hour)} stays open: {error}")
            failed_hours.append(rewrite.hour)
    return rewritten, failed_hours
