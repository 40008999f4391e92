"""Lines as container runtimes write them: a time, a stream, and a piece of what was said there.

    cri       2026-11-20T14:37:00.123456789Z stdout F message
    docker    {"log":"message\\n","stream":"stdout","time":"2026-11-20T14:37:00.123456789Z"}

A long message comes in pieces: `P` and not `F`, or without line feed at its end. Fields: message,
stream, time; with docker `attrs`, if it is there.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from agent.events.faults import Fault

FIELDS: Final = frozenset({"message", "stream", "time", "attrs"})

_CRI: Final = re.compile(rb"(\S{10,64}) (stdout|stderr) ([A-Za-z:]{1,64})(?: |$)")


@dataclass(slots=True)
class Piece:
    """`more`: the message goes on in a later line of the same stream."""

    stream: str
    time: str
    text: bytes
    more: bool
    attrs: dict[str, Any] | None = None


class _DockerLine(msgspec.Struct):
    log: str
    stream: str = ""
    time: str = ""
    attrs: dict[str, Any] | None = None


_decode_docker: Final = msgspec.json.Decoder(_DockerLine).decode


def cri_piece(line: bytes) -> Piece:
    match = _CRI.match(line)
    if match is None:
        raise Fault("format", "not CRI: it does not begin with time, stream and F or P")
    time, stream, tags = match.groups()
    more = b"P" in tags.split(b":")
    return Piece(stream.decode(), time.decode(), line[match.end() :], more)


def docker_piece(line: bytes) -> Piece:
    try:
        found = _decode_docker(line)
        text = found.log.encode()
    except RecursionError:
        raise Fault("format", "it is nested too deeply") from None
    except ValueError as error:
        what = str(error).removeprefix("JSON is malformed: ")
        raise Fault("format", f"not a line of Docker's: {what}") from None
    more = not text.endswith(b"\n")
    text = text.removesuffix(b"\n").removesuffix(b"\r")
    return Piece(found.stream, found.time, text, more, found.attrs)
