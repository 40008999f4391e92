"""The time from a SIGKILL, after the last acknowledgement of a 10 GB log, until the log is served.

The page cache survives the process, so every acknowledged message must still be there.
"""

from bench.contents.topics import create, ends
from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.raw_producer import produce
from bench.loads.requests import MEGABYTE_BATCH, MESSAGE_SIZE, AnswerError

_SECONDS = Figure("seconds until served", 2)
_WRITTEN = Figure("GB in the log", 2)
_RATE = Figure("MB/s while it was written")
_TOPIC = "recovered"
_PATIENCE = 600.0


def _run(context: CaseContext) -> Sample:
    broker = context.broker
    create(broker.port, {_TOPIC: 1})
    load = produce(
        [broker.port],
        _TOPIC,
        batch=MEGABYTE_BATCH,
        acks=1,
        window=4,
        seconds=_PATIENCE,
        limit=context.scale.recovery_bytes // MESSAGE_SIZE,
    )
    broker.kill()
    seconds = broker.seconds_until_served({_TOPIC: 1})
    messages = ends(broker.port, {_TOPIC: 1})[_TOPIC, 0]
    if messages != load.messages:
        raise AnswerError(f"{load.messages} messages were acknowledged, {messages} are in the log")
    return {
        _SECONDS: seconds,
        _WRITTEN: load.bytes / 1e9,
        _RATE: load.bytes / load.seconds / 1e6,
    }


PROFILE = Profile(
    "recovery",
    "one partition of 10 GB, SIGKILL, start",
    (Case("start after SIGKILL", _run, (Goal(_SECONDS, at_most=3),)),),
    once=True,
)
