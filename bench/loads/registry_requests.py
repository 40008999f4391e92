"""Requests to registries, encoded beforehand.

Requests that differ by a number have nine digits for it, so that a request takes a microsecond to
make and always has the same length.
"""

import json
from collections.abc import Iterable, Iterator

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
NUMBER = "N" * 9
_NUMBER = NUMBER.encode()


def get(path: str, *, keep_alive: bool = True) -> bytes:
    connection = "" if keep_alive else "Connection: close\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\nAccept: */*\r\n{connection}\r\n".encode()


def post_schema(path: str, schema: str) -> bytes:
    body = json.dumps({"schema": schema}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAccept: {CONTENT_TYPE}\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def numbered(template: bytes, numbers: Iterable[int]) -> Iterator[bytes]:
    """Returns the request once for each number, which replaces NUMBER."""
    return (template.replace(_NUMBER, b"%09d" % number) for number in numbers)


def _field(name: str, kind: object, doc: str = "", **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **({"doc": doc} if doc else {}), **more}


def _text(schema: dict[str, object]) -> str:
    return json.dumps(schema, separators=(",", ":"))


def event_schema(number: str = NUMBER) -> str:
    """Returns a record schema like an application's, about 1 KB of text."""
    fields = [
        _field("event_id", "string", "Set by the producer, different for each event"),
        _field("occurred_at", {"type": "long", "logicalType": "timestamp-millis"}),
        _field("host", "string", "Where it happened, as the host calls itself"),
        _field("customer", ["null", "long"], "Missing for guests", default=None),
        _field("session", ["null", "string"], default=None),
        _field("path", "string", "As requested, without the query"),
        _field(
            "method",
            {"type": "enum", "name": "Method", "symbols": ["GET", "HEAD", "POST", "PUT", "DELETE"]},
        ),
        _field("status", "int", default=200),
        _field("bytes", "long", default=0),
        _field("seconds", "double", "From the first byte to the last", default=0.0),
        _field("tags", {"type": "array", "items": "string"}, default=[]),
        _field("attributes", {"type": "map", "values": "string"}, default={}),
    ]
    return _text(
        {
            "type": "record",
            "name": f"Event{number}",
            "namespace": "shop.checkout",
            "doc": "What the benchmark registers: one of many",
            "fields": fields,
        }
    )


def wide_schema(added: str | None = None) -> str:
    """Returns a schema of a record with twenty fields, plus one with a default if `added` is given.

    All of these schemas are compatible with each other.
    """
    field_types: list[object] = ["string", "long", "int", "double", "boolean"]
    field_types += [["null", "string"], {"type": "array", "items": "long"}]
    fields = [
        _field(f"field_{index}", field_types[index % len(field_types)]) for index in range(20)
    ]
    if added is not None:
        fields.append(_field(f"added_{added}", "long", default=0))
    return _text({"type": "record", "name": "Wide", "namespace": "shop.checkout", "fields": fields})
