"""Hours of one table: the audit asked about them, those of which nothing more will come closed.

The audit is asked before the table's load is planned, and then the brokers where its topics end: in
this order, as what it says is about what lies in the logs by then (hours/completeness.py). Hours
are judged when the load has committed what it read, and closed by a manifest of their own.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from client.errors import ClientError
from loader.commit.history import Attempt
from loader.commit.layout import hour_path, run_folder
from loader.commit.next_state import next_run
from loader.config import FileFormat
from loader.errors import LoaderError
from loader.hours.closing import (
    Merge,
    Merged,
    close_manifest,
    files_left,
    gone_files,
    merge_of,
    open_hours,
    to_close,
    with_remaining,
)
from loader.hours.completeness import AuditGate, Completeness
from loader.hours.ledger_reading import topic_ends
from loader.landing.without_spark import TooLarge
from loader.manifests import Manifest
from loader.rewriting.row_format import RowFormat
from loader.rewriting.without_spark import is_little, merge_without_spark
from loader.run.load_context import TableLoad
from loader.tables import Hour

MOST_ASKED: Final = 1_000  # hours of a table, the newest of them, in one load

# The manifest that follows on the second one, by this try at it.
Commit = Callable[[Manifest, Manifest | None, Attempt], Manifest]


def completeness_of(load: TableLoad, latest: Manifest | None) -> Completeness | None:
    """Who judges the table's hours in this load. None: nobody can, and the next load does it."""
    context = load.context
    if context.audit is None or context.request.dry_run:
        return context.watermarks
    now = context.now()
    hours = sorted({*open_hours(latest, now), *context.request.rebuild})[-MOST_ASKED:]
    if latest is not None and not latest.header:
        hours = []
    load.doing(f"asking the audit about {len(hours)} hours")
    answers = context.audit.ask((topic, hour) for hour in hours for topic in load.topics)
    settle = context.config.completeness.settle
    settle_millis = None if settle is None else int(settle * 1000)
    try:
        ends = topic_ends(load.brokers, load.topics)
    except ClientError as error:
        load.warn(f"which hours are complete is not known: {error}")
        return context.watermarks
    return AuditGate(answers, ends, now, settle_millis)


def close_hours(
    load: TableLoad, latest: Manifest, completeness: Completeness, commit: Commit
) -> None:
    """Those of which nothing more will come are merged and called complete, those past their
    deadline named as incomplete."""
    context, now = load.context, load.context.now()
    states = {each.topic: each for each in latest.topics}
    topics = {topic: states.get(topic) for topic in load.topics}
    events = bool(latest.header)
    verdicts = {
        hour: verdict
        for hour in open_hours(latest, now)
        if (verdict := completeness.judge(topics, hour, events=events)) is not None
    }
    closings = to_close(latest, verdicts, now, context.config.completeness)
    if not closings:
        return
    load.doing(f"closing {len(closings)} hours")
    complete = [each.hour for each in closings if each.complete]
    with_rows = [hour for hour in complete if hour in latest.hours]
    sizes = {
        entry.path: entry.size
        for hour in with_rows
        for entry in context.store.list(hour_path(load.name, hour))
    }
    latest = _as_found(load, latest, with_rows, sizes)
    folder = run_folder(load.name, next_run(latest), uuid.uuid4().hex)
    with Attempt(load.history, folder) as attempt:
        merged = _merged(load, latest, with_rows, sizes, folder)
        manifest = close_manifest(latest, closings, merged, now=now, loader=context.loader)
        commit(manifest, latest, attempt)
    load.outcome.complete += complete
    load.outcome.incomplete += [each.hour for each in closings if not each.complete]


def _as_found(
    load: TableLoad, latest: Manifest, hours: Sequence[Hour], sizes: Mapping[str, int]
) -> Manifest:
    """Without files that somebody has taken away."""
    context = load.context
    gone = gone_files(latest, hours, sizes)
    if not gone:
        return latest
    for hour, files in gone.items():
        load.warn(
            f"{hour_path(load.name, hour)}: {len(files)} of its files were taken away, such as"
            f" {files[0].rpartition('/')[2]}; it is without their rows, until it is rebuilt"
        )
    left = files_left(latest, gone)
    uris = {path: context.store.uri(path) for files in left.values() for path in files}
    rows = context.spark.count_rows(
        f"{load.name}: counting what is left", list(uris.values()), context.config.format
    )
    return with_remaining(latest, left, sizes, {path: rows[uri] for path, uri in uris.items()})


def _merged(
    load: TableLoad,
    latest: Manifest,
    hours: Sequence[Hour],
    sizes: Mapping[str, int],
    folder: str,
) -> tuple[Merged, ...]:
    """Their small files as few large ones, staged in the folder."""
    context, store = load.context, load.context.store
    merges: list[Merge] = []
    for hour in hours:
        files = latest.hours[hour].files
        if (found := merge_of(hour, files, sizes, context.config.completeness)) is not None:
            merges.append(found)
    if not merges:
        return ()
    load.check_stopped()
    target = RowFormat(context.config.format, context.config.compression, latest.schema)
    try:
        merged = _merged_here(load, merges, sizes, folder, target)
        if merged is None:
            merged = context.spark.merge_hours(
                f"{load.name}: merging",
                store,
                merges,
                sizes,
                directory=f"{folder}/merged",
                target=target,
            )
    except LoaderError as error:
        load.check_stopped()
        # An hour whose files cannot become fewer is complete all the same.
        load.warn(f"small files stay as they are: {error}")
        return ()
    load.outcome.merged_files += sum(len(each.merge.files) for each in merged)
    return merged


def _merged_here(
    load: TableLoad,
    merges: Sequence[Merge],
    sizes: Mapping[str, int],
    folder: str,
    target: RowFormat,
) -> tuple[Merged, ...] | None:
    """Without Spark; None if that is too much, and what is left of it goes with the folder."""
    context = load.context
    little = target.format is FileFormat.PARQUET and is_little(merges)
    if not little or not context.config.tasks.without_spark:
        return None
    try:
        return merge_without_spark(
            context.store, merges, sizes, directory=f"{folder}/here", target=target
        )
    except TooLarge:
        return None
