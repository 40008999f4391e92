"""Where the copying of a partition goes on at an Apache Kafka target, and the right to do so.

    what has the map, and where does the copy end ─▶ may it go on? ─▶ the partition is taken from
    whoever wrote there (fences.py) ─▶ the same two questions once more ─▶ that is written down

Rule 1: markers at the end of a copy are those of workers that have begun there: what was copied
        ends before them. By the map, that end is an offset of the source (runs.py).
Rule 2: the last batch of the copy and the one at the source are compared, by what their headers say
        of the records. If they differ, the source is another history, or somebody else has written.
Rule 3: what stops a partition is found before anything is taken from anybody, as each time leaves a
        marker.

What else may be wrong is judged as for any copy (mirror/beginnings.py). Blocks.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from client.addresses import Address
from client.bootstrap import Access
from client.brokers import Brokers
from client.connection import BrokerConnection
from client.fetch_session import Key
from mirror.beginnings import (
    Again,
    Beginning,
    Both,
    GoOn,
    Span,
    Stop,
    Wanted,
    decide,
    headers_at,
    spans,
)
from mirror.kafka_target.fences import fence
from mirror.kafka_target.map_topic import MapTopic, Place
from mirror.kafka_target.runs import Page, Run, Writer
from mirror.kafka_target.taking import Footing, is_same
from wire.batch import BatchHeader

_PATIENCE_S: Final = 15.0  # until the marker is seen
_GLANCE_S: Final = 0.02

Found = dict[Key, tuple[Beginning, Both | None]]


class _End(NamedTuple):
    """Of what was copied: what is behind it are markers."""

    offset: int
    last: BatchHeader | None  # the batch before; None if there is none, or not any more


_NOWHERE: Final = _End(-1, None)


class _Judged(msgspec.Struct, frozen=True):
    """One partition."""

    wanted: Wanted
    place: Place
    decided: Beginning
    both: Both | None = None
    end: _End = _NOWHERE
    start: int = -1  # of the copy


class Beginnings:
    """Of one mirror at its target."""

    def __init__(self, map_topic: MapTopic, brokers: Brokers, mirror: str) -> None:
        """The `brokers` are the target's; one thread at a time."""
        self._map = map_topic
        self._brokers = brokers
        self._mirror = mirror

    def look(
        self,
        source: tuple[Address, Access],
        target: tuple[Address, Access],
        partitions: Sequence[tuple[Wanted, Place]],
        client_id: str,
    ) -> tuple[Found, dict[Key, Footing]]:
        """Where each goes on, and how what is written there begins. Raises ClientError."""
        with (
            closing(BrokerConnection(source[0], client_id, source[1])) as there,
            closing(BrokerConnection(target[0], client_id, target[1])) as here,
        ):
            judged = self._judge(there, here, partitions)
            found: Found = {each.wanted.here: (each.decided, each.both) for each in judged}
            may = [each for each in judged if isinstance(each.decided, GoOn)]
            if not may:
                return found, {}
            writers = fence(self._brokers, self._mirror, [each.place for each in may])
            ends, missing = _marked(here, {each.wanted.here: writers[each.place] for each in may})
            for key in missing:
                found[key] = Again("the target does not show the marker of a new producer"), None
            judged = self._judge(
                there,
                here,
                [(each.wanted, each.place) for each in may if each.wanted.here in ends],
            )
            judged = [self._doubted(each, writers[each.place]) for each in judged]
            found |= {each.wanted.here: (each.decided, each.both) for each in judged}
            return found, self._begin(judged, writers, ends)

    def _begin(
        self,
        judged: Iterable[_Judged],
        writers: Mapping[Place, Writer],
        ends: Mapping[Key, int],
    ) -> dict[Key, Footing]:
        pages: list[tuple[Place, Page]] = []
        footings: dict[Key, Footing] = {}
        spare = []
        for each in judged:
            if isinstance(each.decided, GoOn):
                key, writer = each.wanted.here, writers[each.place]
                run = Run(each.decided.offset, ends[key])
                pages.append((each.place, Page(writer, (run,), ended=each.end.offset)))
                footings[key] = Footing(writer, *run[:2], written=run.target)
                spare += [(each.place, page) for page in self._map.spare(each.place, each.start)]
        self._map.write(pages)
        self._map.drop(spare)
        return footings

    def _judge(
        self,
        there: BrokerConnection,
        here: BrokerConnection,
        partitions: Sequence[tuple[Wanted, Place]],
    ) -> list[_Judged]:
        self._map.read()
        theirs = spans(there, [wanted.there for wanted, _ in partitions])
        ours = spans(here, [wanted.here for wanted, _ in partitions])
        judged: list[_Judged] = []
        known: list[tuple[Wanted, Place, Span, Span]] = []
        for wanted, place in partitions:
            source, target = theirs[wanted.there], ours[wanted.here]
            if isinstance(source, str):
                judged.append(_Judged(wanted, place, Again(f"the source says: {source}")))
            elif isinstance(target, str):
                judged.append(_Judged(wanted, place, Again(f"the target says: {target}")))
            else:
                known.append((wanted, place, source, target))
        ends = _ends(here, {w.here: (self._lowest(p, o), o.end) for w, p, _, o in known})
        stands: list[tuple[_Judged, Run | None, Span]] = []
        for wanted, place, source, target in known:
            run, position = self._position(place, source, ends[wanted.here])
            each = _Judged(wanted, place, Again(""), None, ends[wanted.here], target.start)
            if isinstance(position, Stop):
                judged.append(replace(each, decided=position))
            else:
                both = Both(source, Span(min(source.start, position), position))
                stands.append((replace(each, both=both), run, source))
        return [*judged, *_decided(there, stands)]

    def _lowest(self, place: Place, target: Span) -> int:
        began = self._map.beginning(place)
        return target.start if began is None else began.target

    def _position(self, place: Place, source: Span, end: _End) -> tuple[Run | None, int | Stop]:
        """In which run the copy ends, and which offset of the source comes next."""
        began = self._map.beginning(place)
        if began is None:
            if end.last is not None:
                return None, Stop(
                    f"the copy has messages up to offset {end.offset - 1}, and {self._map.name} "
                    "does not say which they are: somebody else wrote them, or what it said is "
                    "lost. Delete the copy, and it is made anew"
                )
            return None, source.start
        run = self._map.run_at(place, end.offset)
        if run is None or not (run.exact or run.target == end.offset):
            return None, Stop(
                f"the copy ends at offset {end.offset}, of which {self._map.name} does not say "
                "what it is at the source. Delete the copy, and it is made anew"
            )
        return run, run.source + end.offset - run.target

    def _doubted(self, each: _Judged, writer: Writer) -> _Judged:
        """Where the last batches of the copy are gone and others began there, and wrote nothing
        down, what was a message and what a marker cannot be told."""
        began = self._map.beginning(each.place)
        if not isinstance(each.decided, GoOn) or began is None or each.wanted.may_pass:
            return each
        others = began.writer._replace(epoch=began.writer.epoch + 1) != writer
        is_new = began.writer.producer_id != writer.producer_id  # the target has forgotten it
        if not others or is_new or each.end.last is not None or each.end.offset <= began.target:
            return each
        reason = (
            f"the copy's last messages, before offset {each.end.offset}, are gone: whether one or "
            "two of the source's were not copied cannot be told. `penstock mirror --accept-gap` "
            "goes on"
        )
        return replace(each, decided=Stop(reason))


def _decided(
    there: BrokerConnection, stands: Sequence[tuple[_Judged, Run | None, Span]]
) -> list[_Judged]:
    compared = {
        each.wanted.there: each.both.target.end - 1
        for each, run, source in stands
        if each.both is not None
        and run is not None
        and each.end.last is not None
        and each.end.offset > run.target
        and not each.wanted.compacts
        and source.start < each.both.target.end <= source.end
    }
    lasts = headers_at(there, compared)
    nexts = headers_at(
        there,
        {
            each.wanted.there: max(source.start, each.both.target.end)
            for each, _, source in stands
            if each.both is not None
            and source.end > max(source.start, each.both.target.end)
            and (each.wanted.has_gap or source.start > each.both.target.end)
        },
    )
    found = []
    for each, run, _ in stands:
        assert each.both is not None
        wanted, last_there = each.wanted, lasts.get(each.wanted.there)
        both = replace(each.both, next_there=nexts.get(wanted.there))
        decided: Beginning = decide(
            both, compacts=wanted.compacts, accepted=wanted.accepted, may_pass=wanted.may_pass
        )
        if isinstance(decided, GoOn) and run is not None and each.end.last is not None:
            decided = _compared(run, each.end.last, last_there) or decided
        found.append(replace(each, both=both, decided=decided))
    return found


def _compared(run: Run, here: BatchHeader, there: BatchHeader | None) -> Stop | None:
    if there is None:
        return None
    place = run.source + here.base_offset - run.target
    if there.base_offset == place and is_same(there, here):
        return None
    return Stop(
        f"differs: the copy's last batch, at its offset {here.base_offset}, is not the source's at "
        f"{there.base_offset}: the source is another history, or somebody else has written to the "
        "copy"
    )


def _ends(connection: BrokerConnection, logs: Mapping[Key, tuple[int, int]]) -> dict[Key, _End]:
    """Behind the last batch that is no marker, but not before the lowest offset."""
    found: dict[Key, _End] = {}
    unknown = {key: end for key, (_, end) in logs.items()}
    while unknown:
        found |= {key: _End(end, None) for key, end in unknown.items() if end <= logs[key][0]}
        unknown = {key: end for key, end in unknown.items() if key not in found}
        headers = headers_at(connection, {key: end - 1 for key, end in unknown.items()})
        for key, end in tuple(unknown.items()):
            header = headers.get(key)
            if header is None or header.base_offset >= end:
                found[key] = _End(end, None)
            elif not header.is_control:
                found[key] = _End(end, header)
            else:
                unknown[key] = header.base_offset
        unknown = {key: end for key, end in unknown.items() if key not in found}
    return found


def _marked(
    connection: BrokerConnection, writers: Mapping[Key, Writer]
) -> tuple[dict[Key, int], set[Key]]:
    """Behind each writer's marker, as soon as it is there and last; and where it was not seen."""
    until = time.monotonic() + _PATIENCE_S
    ends: dict[Key, int] = {}
    missing = set(writers)
    while missing:
        known = spans(connection, missing)
        last = {key: each.end for key, each in known.items() if isinstance(each, Span) and each.end}
        for key, header in headers_at(
            connection, {key: end - 1 for key, end in last.items()}
        ).items():
            who = Writer(header.producer_id, header.producer_epoch)
            if header.is_control and who == writers[key] and header.next_offset == last[key]:
                ends[key] = last[key]
        missing -= ends.keys()
        if not missing or time.monotonic() > until:
            break
        time.sleep(_GLANCE_S)
    return ends, missing
