"""The state of a table after a run, as changes to the state after an earlier run. Pure.

The hours and sources of a table are a megabyte after a year, and a run changes few of them. So most
manifests have only those that changed since an earlier, complete manifest: not since the previous
run, so that two files are enough to restore the state. Everything else is complete in each of them,
including the offsets of all partitions.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from loader.values.manifests import VERSION, VERSION_OF_CHANGES, KnownSources, Manifest
from loader.values.reports import Landed
from loader.values.tables import Hour

_Name = tuple[str, str]  # a topic and a source of it
_Events = tuple[int, Hour, Landed]  # a source's partition, when it was last loaded, its events


def changes(base: Manifest, manifest: Manifest) -> Manifest | None:
    """The manifest with only the hours and sources that differ from those of the base, an earlier
    and complete manifest. None if that does not restore the state exactly."""
    sources, base_sources = _by_name(manifest.sources), _by_name(base.sources)
    gone_sources: dict[str, list[str]] = defaultdict(list)
    for topic, source in sorted(base_sources.keys() - sources.keys()):
        gone_sources[topic].append(source)
    changed = msgspec.structs.replace(
        manifest,
        version=VERSION_OF_CHANGES,
        since=base.run,
        hours={
            hour: state for hour, state in manifest.hours.items() if base.hours.get(hour) != state
        },
        gone_hours=tuple(sorted(base.hours.keys() - manifest.hours.keys())),
        sources=_grouped(
            {name: events for name, events in sources.items() if base_sources.get(name) != events}
        ),
        gone_sources={topic: tuple(names) for topic, names in gone_sources.items()},
    )
    return changed if with_changes(base, changed) == manifest else None


def with_changes(base: Manifest, changed: Manifest) -> Manifest:
    """The complete manifest of a run that has only changes to the base."""
    gone_hours = set(changed.gone_hours)
    gone_sources = {
        (topic, source) for topic, names in changed.gone_sources.items() for source in names
    }
    sources = _by_name(base.sources) | _by_name(changed.sources)
    return msgspec.structs.replace(
        changed,
        version=VERSION,
        since=0,
        hours={
            hour: state
            for hour, state in (base.hours | changed.hours).items()
            if hour not in gone_hours
        },
        gone_hours=(),
        sources=_grouped(
            {name: events for name, events in sources.items() if name not in gone_sources}
        ),
        gone_sources={},
    )


def _by_name(sources: Iterable[KnownSources]) -> dict[_Name, _Events]:
    return {
        (known.topic, source): (known.partition, known.loaded, events)
        for known in sources
        for source, events in known.landed.items()
    }


def _grouped(sources: Mapping[_Name, _Events]) -> tuple[KnownSources, ...]:
    groups: dict[tuple[str, int, Hour], dict[str, Landed]] = defaultdict(dict)
    for (topic, source), (partition, loaded, events) in sources.items():
        groups[topic, partition, loaded][source] = events
    return tuple(
        KnownSources(topic=topic, partition=partition, loaded=loaded, landed=groups[key])
        for key in sorted(groups)
        for topic, partition, loaded in [key]
    )
