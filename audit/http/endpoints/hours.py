"""Handles `/api/v1/hour`: whether an hour of a topic is complete, for jobs that wait for it."""

import re
from collections.abc import Mapping
from typing import Final

from audit.api import answers, queries
from audit.errors import BadQuery, NotNow, Unknown
from audit.http.endpoints.topic_lookup import key_of, now_of, picture
from audit.reconciling.gate import hour_gate
from audit.reconciling.picture import TopicKey
from audit.service.service import Service
from audit.store.judged_hours import HOUR
from ground.intervals import Interval, Intervals, merged

_STRETCH: Final = re.compile(r"(\d{1,9}):(\d{1,18})-(\d{1,18})", re.ASCII)


def hour(service: Service, query: queries.HourQuery) -> answers.HourGate:
    if query.hour % HOUR:
        raise BadQuery("`hour` must be the beginning of an hour, in milliseconds since 1970 UTC")
    try:
        key = key_of(service, query.cluster, query.topic)
    except Unknown as error:
        return _not_yet(str(error), unknown=str(error))
    except NotNow as error:
        return _not_yet(str(error))
    state = service.standing.clusters.get(key.cluster)
    if state is None or not state.read:
        return _not_yet(f"the audit, which is still reading the ledger of {key.cluster}")
    if query.uncompared:
        return _compared(service, key, _offsets(query.uncompared))
    of_hour = picture(service, key, query.hour, query.hour + HOUR)
    gate = hour_gate(of_hour, query.destination, query.rebuilt)
    return answers.HourGate(
        complete=gate.complete,
        by=gate.by,
        missing=gate.missing,
        names=list(gate.names),
        unknown=forgotten(service, key.cluster, query.hour),
    )


def forgotten(service: Service, cluster: str, hour: int) -> str:
    """Why the audit cannot know of the hour's lines any more; empty if it can. Loaders ask about
    such hours as well, for late events, and go by `complete`."""
    days = service.config.retention / 86_400
    if hour >= now_of(service, cluster) - int(service.config.retention * 1000):
        return ""
    return f"the hour is older than the audit's `retention` of {days:g} days"


def _compared(
    service: Service, key: TopicKey, offsets: Mapping[int, Intervals]
) -> answers.HourGate:
    """Whether agents have signed digests of none of these offsets, which a load has not
    compared."""
    if service.reading.signed(key, offsets):
        return _not_yet(
            "the next load, which compares the rows with what agents have signed of them"
        )
    return answers.HourGate(
        complete=True, by="what agents have signed", missing="", names=[], unknown=""
    )


def _offsets(text: str) -> Mapping[int, Intervals]:
    """Raises BadQuery."""
    stretches: dict[int, list[Interval]] = {}
    for part in text.split(","):
        match = _STRETCH.fullmatch(part)
        if match is None:
            raise BadQuery("`uncompared` must be a list of PARTITION:FIRST-END, by commas")
        partition, first, end = map(int, match.groups())
        stretches.setdefault(partition, []).append((first, end))
    return {
        partition: merged(pair for pair in pairs if pair[0] < pair[1])
        for partition, pairs in stretches.items()
    }


def _not_yet(missing: str, unknown: str = "") -> answers.HourGate:
    return answers.HourGate(complete=False, by="", missing=missing, names=[], unknown=unknown)
