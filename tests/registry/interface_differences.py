"""Intended differences between this registry's answers and the recorded ones, with reasons.

The recording is of Confluent's version 8.3. `expected` removes what version 8 added and what only
reflects the implementation of Confluent's registry; the rest must be equal. `ANOTHER` lists the
requests with another answer here. `LEFT_OUT` lists those that are not sent, since their effects
would change later answers.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Json = Any
Step = Mapping[str, Json]

# Java clients up to version 5 fail on fields that they do not know, so the new ones are not sent.
_LATER: Final = frozenset({"guid", "ts", "deleted"})


class Expected(NamedTuple):
    """The expected answer; None for parts that are not compared."""

    status: int
    content_type: str | None
    body: Json
    allow: str | None


def left_out(step: Step) -> str:
    """Why a step is not sent, or ""."""
    path = step["request"]["path"]
    if re.search(r"/contexts/|:\.(?!:)|%3A\.|:\*:name", path):
        return "contexts are not kept: a name that has one is refused"
    if "ruleSet" in str(step["request"].get("body")):
        return "Confluent's community edition drops rules silently; here they are kept"
    return ""


# The file's number and the step's name, or the beginning of it; the status and code that it gets.
ANOTHER: Final[Mapping[str, Mapping[str, tuple[int, int | None]]]] = {
    "aliases, validateFields and defaults for metadata are not acted upon, and refused": {
        "06 alias": (422, 42203),
        "06 alias as it comes back": (404, 40408),
        "06 versions of an alias": (404, 40401),
        "06 latest of an alias": (404, 40401),
        "06 the alias is deleted": (404, 40401),
        "06 validateFields": (422, 42203),
        "06 compatibilityGroup": (200, None),
        "06 compatibilityGroup as it comes back": (200, None),
        "06 defaultMetadata": (422, 42203),
        "06 defaultMetadata as it comes back": (200, None),
        "06 the subject's level is deleted": (200, None),
    },
    "there is no FORWARD mode, and READONLY_OVERRIDE overrides, as it did in version 7": {
        "07 invalid ''": (422, 42204),
        "07 invalid 'X'": (422, 42204),
        "07 invalid 'READ_ONLY'": (422, 42204),
        "07 invalid ' READWRITE'": (422, 42204),
        "07 null": (422, 42204),
        "07 FORWARD": (422, 42204),
        "07 FORWARD for a subject": (422, 42204),
        "07 READONLY_OVERRIDE: registering there": (422, 42205),
    },
    "ids by GUID came with version 8": {
        "08 a guid": (404, 404),
        "08 an unknown guid": (404, 404),
        "08 a guid that is none": (404, 404),
        "08 ids of a guid": (404, 404),
        "08 ids of an unknown guid": (404, 404),
    },
    "JSON's types are not guessed": {
        "09 a reference without a name": (400, 400),
        "09 a reference without a subject": (400, 400),
        "09 a reference without a version": (400, 400),
        "11 NaN": (400, 400),
        "11 schema is a number": (400, 400),
        "11 schema is true": (400, 400),
        "11 schemaType is a number": (400, 400),
        "11 a reference is empty": (400, 400),
        "11 id is a fraction": (400, 400),
        "11 config: a number": (400, 400),
        "11 mode: a number": (400, 400),
        "14 Content-Type: nonsense": (415, 415),
        "14 Content-Type: ": (415, 415),
    },
    "what is an internal error there is an answer here": {
        "03 offset -1": (200, None),
        "07 an empty object": (422, 42204),
        "08 /schema of id 9999": (404, 40403),
        "08 /schema of id 0": (404, 40403),
        "08 /schema of id -1": (404, 40403),
        "08 an id without a version, schema": (404, 40403),
        "10 offset -1": (200, None),
        "11 a reference is null": (400, 400),
        "14 Accept: application/vnd.schemaregistry+json, an offset below zero": (200, None),
        "14 Accept: application/json, an offset below zero": (200, None),
        "14 Accept: */*, an offset below zero": (200, None),
    },
    "HTTP is taken at its word": {
        "14 Accept: application/json;q=0": (406, 406),
        "14 XYZ /subjects": (400, 400),
        "14 an encoded letter in the path": (200, None),
        "14 dots in the path": (400, 400),
    },
    "pages that say something about Confluent's cluster": {
        "10 posting to the root": (405, 405),
        "14 OPTIONS /": (200, None),
        "10 cluster id": (404, 404),
        "10 version": (404, 404),
        "14 path /associations": (404, 404),
    },
    "the subjects of an id are in their order, not in that of a hash table": {
        "08 subjects, limit": (200, None),
        "08 subjects, offset": (200, None),
        "08 versions, limit": (200, None),
        "08 versions, offset": (200, None),
    },
    "subjects in contexts, and what rules were dropped from, are not there": {
        "10 all subjects": (200, None),
        "10 all subjects and the deleted": (200, None),
        "10 an empty prefix": (200, None),
        "13 contexts": (200, None),
        "13 contexts, prefix": (200, None),
        "13 subjects of every context": (200, None),
        "14 a slash at the end: /schemas/": (200, None),
        "14 a query without a value": (200, None),
    },
}


def another(file: str, step: Step) -> tuple[int, int | None] | None:
    """The status and code that a step has here instead of the recorded ones."""
    wanted = f"{file[:2]} {step['name']}"
    return next((answers[wanted] for answers in ANOTHER.values() if wanted in answers), None)


def expected(step: Step) -> Expected:
    """The recorded answer, adapted to this registry."""
    request, answer = step["request"], step["answer"]
    content_type = answer["content_type"]
    if content_type is None or not content_type.startswith("application/") or ";" in content_type:
        content_type = None  # Jetty's own pages, and a charset that JSON does not have
    body = answer.get("body")
    if body is not None:
        body = comparable(request, body)
    return Expected(answer["status"], content_type, body, answer.get("headers", {}).get("Allow"))


def comparable(request: Mapping[str, Json], body: Json) -> Json:
    """A body without the parts that may differ between registries."""
    path = request["path"].partition("?")[0].rstrip("/")
    if isinstance(body, list):
        items = [_comparable_object(item) for item in body]
        if re.search(r"/schemas/ids/[^/]+/(subjects|versions)$", path):
            # Of the subject whose rules were dropped there.
            items = [
                item for item in items if item not in ("rules", {"subject": "rules", "version": 1})
            ]
            return sorted(items, key=str)
        return items
    if not isinstance(body, dict):
        return body
    body = _comparable_object(body)
    if request["method"] == "POST" and path.endswith("/versions") and "id" in body:
        # More than the id is told only if more than the schema was stored.
        return body if {"metadata", "ruleSet"} & body.keys() else {"id": body["id"]}
    if re.search(r"/schemas/ids/[^/]+$", path):
        return {key: value for key, value in body.items() if key not in {"subject", "version"}}
    return body


def _comparable_object(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    found = {key: item for key, item in value.items() if key not in _LATER}
    if found.get("schemaType") == "AVRO":
        del found["schemaType"]
    if "message" in found:
        found["message"] = _comparable_message(found["error_code"], found["message"])
    if "messages" in found:
        found["messages"] = [_comparable_message(0, each) for each in found["messages"]]
    return found


def _comparable_message(code: int, message: str) -> str:
    """The message about the contents, without the name of the class that rejected it."""
    if code in {400, 422}:
        return ""
    message = re.sub(r" in context \S* ?is ", " is ", message)
    if message.startswith("Invalid schema of type AVRO, details: "):
        return "Invalid schema of type AVRO"
    return message
