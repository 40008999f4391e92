"""What happens with the archives of an input that reads archives: the plan of a backfill.

`plan_of` asks a running agent's files, on any thread; `plan_without_agent` asks the data directory
of an agent that does not run. Both only read.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from agent.accounting.runs import KnownSource
from agent.configuration.file_inputs import FileInput
from agent.files.archive_choice import why_skipped
from agent.files.backfill_plan import (
    MOST_LISTED,
    MOST_UNLISTED,
    ArchiveState,
    ArchiveStatus,
    ArchiveTotal,
    BackfillPlan,
)
from agent.files.listing import Survey
from agent.recognition.compressed import has_compressed_name
from agent.recognition.identity import Identity, Sighting
from ground.printable import one_line

if TYPE_CHECKING:
    from agent.files.input_files import InputFiles

_MILLIS_NS: Final = 1_000_000


def plan_of(input_files: "InputFiles") -> BackfillPlan:
    """The plan of an input whose files are followed. Any thread."""
    reading = dict(_reading(input_files))
    known = _by_identity(input_files.memory.archives())
    others = [
        _state(input_files, archive, known)
        for archive in list(input_files.archives_there.values())
        if archive.identity not in reading
    ]
    return _plan([*reading.values(), *others])


def plan_without_agent(
    of: FileInput,
    sources: Iterable[KnownSource],
    since_millis: int,
    archives_since_millis: int,
    wall: float,
) -> BackfillPlan:
    """The plan that an agent would begin with, by its journal and the present files."""
    known = _by_identity(source for source in sources if source.input == of.name)
    listing = Survey(of.paths, of.exclude, lambda _: None).all()
    archives = {
        sighting.identity: sighting
        for sighting in listing.sightings
        if has_compressed_name(sighting.path)
    }
    states = []
    for archive in archives.values():
        source = known.get(archive.identity)
        why = ""
        if source is None:
            why = why_skipped(of, archive, since_millis, archives_since_millis, wall)
        states.append(_known_state(archive, source, why))
    return _plan(states)


def _reading(input_files: "InputFiles") -> Iterator[tuple[Identity, ArchiveStatus]]:
    for followed, unpacking in list(input_files.unpacking.items()):
        known = followed.end.unpacked
        if known is None or not followed.is_archive:
            continue
        identity = known.device, known.inode
        archive = input_files.archives_there.get(identity)
        yield (
            identity,
            ArchiveStatus(
                path=one_line(archive.path if archive else followed.current_path),
                size=known.size,
                millis=archive.mtime_ns // _MILLIS_NS if archive else 0,
                state=ArchiveState.READING,
                source=followed.source,
                events=followed.progress.seq + followed.progress.dead_seq,
                position=followed.progress.position,
                unpacked_bytes=unpacking.unpacked_bytes,
                compressed_bytes=unpacking.compressed_bytes,
                bytes_per_second=unpacking.bytes_per_second,
            ),
        )


def _state(
    input_files: "InputFiles", archive: Sighting, known: Mapping[Identity, KnownSource]
) -> ArchiveStatus:
    identity, queue = archive.identity, input_files.archives
    source = known.get(identity)
    if identity in queue and not _is_read(archive, source):
        why = queue.waits_for(identity)
        return _status(archive, ArchiveState.WAITS if why else ArchiveState.NEXT, why)
    return _known_state(archive, source, input_files.why_not_read.get(identity, ""))


def _is_read(archive: Sighting, source: KnownSource | None) -> bool:
    return source is not None and source.finished and source.size == archive.size


def _known_state(archive: Sighting, source: KnownSource | None, why: str) -> ArchiveStatus:
    is_read = _is_read(archive, source)
    if source is None or (source.finished and not is_read):
        return _status(archive, ArchiveState.SKIPPED if why else ArchiveState.NEXT, why)
    state = ArchiveState.READ if is_read else ArchiveState.NEXT
    progress = source.progress
    return msgspec.structs.replace(
        _status(archive, state, why),
        source=source.id,
        events=progress.seq + progress.dead_seq,
        position=progress.position,
        read_millis=source.seen_millis if is_read else 0,
    )


def _status(archive: Sighting, state: ArchiveState, why: str) -> ArchiveStatus:
    return ArchiveStatus(
        path=one_line(archive.path),
        size=archive.size,
        millis=archive.mtime_ns // _MILLIS_NS,
        state=state,
        why=one_line(why),
    )


def _plan(states: Iterable[ArchiveStatus]) -> BackfillPlan:
    order = list(ArchiveState)
    archives = sorted(states, key=lambda each: (order.index(each.state), each.millis, each.path))
    return BackfillPlan(
        totals=tuple(
            ArchiveTotal(state=state, archives=len(sizes), bytes=sum(sizes))
            for state in ArchiveState
            if (sizes := [archive.size for archive in archives if archive.state is state])
        ),
        archives=tuple(archives[:MOST_LISTED]),
        unlisted=tuple(
            (archive.source, archive.read_millis)
            for archive in archives[MOST_LISTED:]
            if archive.state is ArchiveState.READ and (archive.events or archive.why)
        )[:MOST_UNLISTED],
    )


def _by_identity(sources: Iterable[KnownSource]) -> dict[Identity, KnownSource]:
    return {(source.device, source.inode): source for source in sources}
