"""What the tests of topics' schemas need of a running registry: topics of their own, texts."""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from agent.configuration.inputs import Format, Input
from schemas.event_schemas import scaffold


def new_topic() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"


def event(**fields: Any) -> str:
    """An event schema with these fields after the header."""
    return scaffold("shop.Order", fields)


def with_more(text: str, field: Mapping[str, Any]) -> str:
    """The schema with one more field."""
    schema = json.loads(text)
    schema["fields"].append(field)
    return json.dumps(schema)


def plain(topic: str) -> Input:
    return Input(paths=("/var/log/x",), topic=topic)


def fields(topic: str, schema: str = "") -> Input:
    return Input(paths=("/var/log/x",), topic=topic, format=Format.JSON, schema=schema)
