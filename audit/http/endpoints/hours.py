"""Handles `/api/v1/hour`: whether an hour of a topic is complete, for jobs that wait for it."""

from audit.api import answers, queries
from audit.errors import BadQuery, NotNow, Unknown
from audit.http.endpoints.topic_lookup import key_of, now_of, picture
from audit.reconciling.gate import hour_gate
from audit.service.service import Service
from audit.store.judged_hours import HOUR


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


def _not_yet(missing: str, unknown: str = "") -> answers.HourGate:
    return answers.HourGate(complete=False, by="", missing=missing, names=[], unknown=unknown)
