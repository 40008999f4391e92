"""Handles `/api/v1/hour`: whether an hour of a topic is complete, for jobs that wait for it."""

from audit.api import answers, queries
from audit.errors import BadQuery, NotNow, Unknown
from audit.http.endpoints.topic_lookup import key_of, picture
from audit.reconciling.gate import hour_gate
from audit.service.service import Service
from audit.store.judged_hours import HOUR


def hour(service: Service, query: queries.HourQuery) -> answers.HourGate:
    if query.hour % HOUR:
        raise BadQuery("`hour` must be the beginning of an hour, in milliseconds since 1970 UTC")
    try:
        key = key_of(service, query.cluster, query.topic)
    except (Unknown, NotNow) as error:
        return _not_yet(str(error))
    state = service.standing.clusters.get(key.cluster)
    if state is None or not state.read:
        return _not_yet(f"the audit, which is still reading the ledger of {key.cluster}")
    of_hour = picture(service, key, query.hour, query.hour + HOUR)
    gate = hour_gate(of_hour, query.destination, query.rebuilt)
    return answers.HourGate(
        complete=gate.complete, by=gate.by, missing=gate.missing, names=list(gate.names)
    )


def _not_yet(missing: str) -> answers.HourGate:
    return answers.HourGate(complete=False, by="", missing=missing, names=[])
