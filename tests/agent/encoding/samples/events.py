"""The samples as events: `python -m tests.agent.encoding.samples.events` writes events.json.

`make.sh` makes the samples. After another run, look through the differences in events.json.
"""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro

from agent.configuration.config import Times
from agent.configuration.inputs import Format
from agent.configuration.lines import Time
from agent.encoding.events.reader import EventReader
from agent.encoding.topic_schemas.values import BUILT_IN_FOR, wanted_for
from schemas.event_schemas import built_in
from tests.agent.encoding.events.reading import input_of, read

SAMPLES = Path(__file__).parent
EXPECTED = SAMPLES / "events.json"
FORMATS = {
    "nginx": Format.NGINX,
    "nginx-main": Format.NGINX,
    "apache": Format.APACHE,
    "apache-common": Format.APACHE,
    "apache-vhosts": Format.APACHE,
    "haproxy": Format.HAPROXY,
    "haproxy-stdout": Format.HAPROXY,
    "postgresql": Format.POSTGRESQL,
    "syslog-rsyslog": Format.SYSLOG,
    "syslog-ng": Format.SYSLOG,
}
YEAR = 365 * 86_400.0


def events_of(name: str) -> list[dict[str, Any]]:
    """The events without their null fields, then the reasons of dead letters."""
    input_ = input_of(format=FORMATS[name], time=Time(field="time", zone="Europe/Zurich"))
    schema = built_in(BUILT_IN_FOR[wanted_for(input_).purpose])
    reader = EventReader(input_, schema, Times(newest=YEAR))
    outcome = read(reader, (SAMPLES / f"{name}.log").read_bytes())
    fields = json.loads(schema.text)["fields"][2:]  # without header and path
    tail = fastavro.parse_schema({"type": "record", "name": "Tail", "fields": fields})
    events = []
    for millis, body in zip(outcome.times, outcome.bodies, strict=True):
        event = fastavro.schemaless_reader(io.BytesIO(body), tail, None)
        assert isinstance(event, dict)
        at = datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
        events.append({"at": at, **{key: each for key, each in event.items() if each is not None}})
    return [*events, *({"dead": dead.reason} for dead in outcome.dead)]


def main() -> None:
    parts = (
        f'"{name}": [\n' + ",\n".join(map(json.dumps, events_of(name))) + "\n]" for name in FORMATS
    )
    EXPECTED.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
