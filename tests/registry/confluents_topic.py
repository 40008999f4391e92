"""The topic of a Confluent registry after all requests of the interface's table."""

import json
from pathlib import Path

from registry.schemas_topic.values import LogRecord

TOPIC = Path(__file__).parent / "interface" / "schemas-topic.jsonl"


def confluents_records() -> list[LogRecord]:
    records = []
    for line in TOPIC.read_text().splitlines():
        record = json.loads(line)
        value = record["value"]
        records.append(LogRecord(record["key"].encode(), value and value.encode()))
    return records
