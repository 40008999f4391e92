"""A schema of events for tests, and inputs that fill it."""

from schemas.event_schemas import scaffold
from tests.system.agent.site import Site

FIELDS = {
    "message": "string",
    "level": ["null", "string"],
    "status": ["null", "int"],
    "user": ["null", "string"],
}


def typed_topic(site: Site, *, partitions: int = 1) -> str:
    """A topic whose events have a message and some more, all of which may be missing."""
    topic = site.new_topic(partitions=partitions)
    site.registry.register(f"{topic}-value", scaffold("test.Logged", FIELDS))
    return topic


def json_input(topic: str, *paths: str, **more: object) -> dict[str, object]:
    """Lines of JSON whose `ts` are milliseconds."""
    time = {"field": "ts", "format": "epoch_ms"}
    return {"paths": list(paths), "topic": topic, "format": "json", "time": time, **more}
