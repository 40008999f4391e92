"""Asks a schema registry every question of the golden table, and writes its answers down.

The table lies in `interface/`, beside this file: JSON lists of steps, replayed in the order of the
files' names against one fresh registry. Run this against a real Confluent Schema Registry to make
the answers, or with `--check` to see where another registry answers differently:

    python tests/registry/record_interface.py http://127.0.0.1:8081
    python tests/registry/record_interface.py --check http://127.0.0.1:8081

With `--topic` it reads the registry's own topic from standard input, as Kafka's console consumer
prints it (`interface/README.md` has the command), and writes `interface/schemas-topic.jsonl`.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# Whatever a JSON text says.
Json = Any

INTERFACE = Path(__file__).resolve().parent / "interface"
TOPIC = INTERFACE / "schemas-topic.jsonl"
JSON_TYPE = "application/vnd.schemaregistry.v1+json"
# What differs from one run to the next, and what the table says in its place.
VOLATILE = {
    "ts": "<milliseconds>",
    "kafka-cluster": "<cluster id>",
    "schema-registry-cluster": "<group id>",
}
# Avro numbers the names it could not resolve, from the start of the process.
COUNTED = re.compile(r"(?<=UnresolvedSchema_)\d+")
# Headers that are kept of an answer, their lists sorted.
LISTS = ("Allow",)


def mask(value: Json) -> Json:
    """The value with parts that differ between runs replaced by words."""
    if isinstance(value, str):
        return COUNTED.sub("<number>", value)
    if isinstance(value, list):
        return [mask(item) for item in value]
    if isinstance(value, dict):
        return {
            key: VOLATILE[key] if key in VOLATILE and item is not None else mask(item)
            for key, item in value.items()
        }
    return value


def request_body(request: Mapping[str, Json]) -> bytes | None:
    """The bytes to send: `body` as JSON, or `text` as it stands; None for no body."""
    if "text" in request:
        return str(request["text"]).encode("utf-8", "surrogateescape")
    if "body" in request:
        return json.dumps(request["body"]).encode()
    return None


def request_headers(request: Mapping[str, Json], *, has_body: bool) -> dict[str, str]:
    """The headers to send; a step may replace the content type, or take it away with null."""
    headers: dict[str, str | None] = {"Content-Type": JSON_TYPE} if has_body else {}
    given = request.get("headers", {})
    headers.update(given)
    return {name: str(value) for name, value in headers.items() if value is not None}


def read_answer(response: HTTPResponse) -> dict[str, Json]:
    """What the table keeps of an answer."""
    content = response.read().decode()
    answer: dict[str, Json] = {
        "status": response.status,
        "content_type": response.headers.get("Content-Type"),
    }
    for header in LISTS:
        listed = response.headers.get(header)
        if listed is not None:
            items = sorted(item.strip() for item in listed.split(","))
            answer["headers"] = {header: ", ".join(items)}
    try:
        answer["body"] = mask(json.loads(content))
    except ValueError:
        answer["text"] = content
    return answer


def ask(base: str, request: Mapping[str, Json]) -> dict[str, Json]:
    """Sends one request, on a connection of its own, with the path exactly as written."""
    address = urlsplit(base)
    assert address.hostname is not None
    body = request_body(request)
    connection = HTTPConnection(address.hostname, address.port or 80, timeout=60)
    try:
        connection.putrequest(
            str(request["method"]), str(request["path"]), skip_accept_encoding=True
        )
        for name, value in request_headers(request, has_body=body is not None).items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        return read_answer(connection.getresponse())
    finally:
        connection.close()


def table() -> list[Path]:
    """The files of the table, in the order in which they are replayed."""
    return sorted(INTERFACE.glob("[0-9][0-9]-*.json"))


def record(base: str, files: Iterable[Path]) -> int:
    """Replays the files and rewrites their answers; returns how many steps there were."""
    count = 0
    for file in files:
        steps = json.loads(file.read_text())
        for step in steps:
            step["answer"] = ask(base, step["request"])
            count += 1
        file.write_text(json.dumps(steps, indent=1) + "\n")
    return count


def differences(base: str, files: Iterable[Path]) -> Iterator[str]:
    """Replays the files and describes each answer that is not the recorded one."""
    for file in files:
        for step in json.loads(file.read_text()):
            answer = ask(base, step["request"])
            if answer != step["answer"]:
                request = step["request"]
                yield (
                    f"{file.name}: {step['name']}: {request['method']} {request['path']}\n"
                    f"  recorded {json.dumps(step['answer'], ensure_ascii=False)}\n"
                    f"  answered {json.dumps(answer, ensure_ascii=False)}"
                )


def topic_records(lines: Iterable[str]) -> Iterator[dict[str, str | None]]:
    """Records of the registry's topic, from lines of key, tab and value."""
    for line in lines:
        key, value = line.rstrip("\n").split("\t", 1)
        yield {"key": key, "value": None if value == "null" else value}


def record_topic(lines: Iterable[str]) -> int:
    """Writes the topic's records, one JSON object a line; returns how many there were."""
    records = list(topic_records(lines))
    TOPIC.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return len(records)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Record or check the registry's golden table.")
    parser.add_argument("base", nargs="?", help="base URL of a fresh registry")
    parser.add_argument("--check", action="store_true", help="compare, and rewrite nothing")
    parser.add_argument("--topic", action="store_true", help="record the topic, from stdin")
    arguments = parser.parse_args()
    if arguments.topic:
        print(f"{record_topic(sys.stdin)} records")
        return 0
    if arguments.base is None:
        parser.error("a base URL is needed")
    if not arguments.check:
        print(f"{record(arguments.base, table())} steps")
        return 0
    found = list(differences(arguments.base, table()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
