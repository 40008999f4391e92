"""Parses the log files of container runtimes, and joins their lines to messages by stream.

    cri       2026-11-20T14:37:00.123456789Z stdout F message
    docker    {"log":"message\\n","stream":"stdout","time":"2026-11-20T14:37:00.123456789Z"}

A long message comes in pieces: tagged `P` instead of `F`, or without line feed at its end. Fields:
message, stream, time; for docker also `attrs`, if there are any.

Pieces of two streams may alternate. A section is a stretch of lines with no incomplete message at
its beginning and end; usually it is one line. Only whole sections are consumed. A section ends
before it exceeds the longest line allowed, and incomplete messages are taken as they are.

With `messages.Grouping`, consecutive lines of the same stream can form an event; a message that
shares its section with another one is always an event of its own.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import msgspec

from agent.encoding.lines.encodings import Lines
from agent.encoding.lines.faults import LineFault
from agent.encoding.lines.messages import Grouping, Messages, Origin

CONTAINER_FIELDS: Final = frozenset({"message", "stream", "time", "attrs"})

_CRI: Final = re.compile(rb"(\S{10,64}) (stdout|stderr) ([A-Za-z:]{1,64})(?: |$)")


class MessagePiece(msgspec.Struct):
    """The content of a line. `more`: the message continues in a later line of the same stream."""

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


def cri_piece(line: bytes) -> MessagePiece:
    match = _CRI.match(line)
    if match is None:
        raise LineFault("format", "not CRI: must begin with a time, a stream, and F or P")
    time, stream, tags = match.groups()
    is_partial = b"P" in tags.split(b":")
    return MessagePiece(stream.decode(), time.decode(), line[match.end() :], is_partial)


def docker_piece(line: bytes) -> MessagePiece:
    try:
        decoded = _decode_docker(line)
        text = decoded.log.encode()
    except RecursionError:
        raise LineFault("format", "nested too deeply") from None
    except ValueError as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise LineFault("format", f"not a Docker log line: {reason}") from None
    is_partial = not text.endswith(b"\n")
    text = text.removesuffix(b"\n").removesuffix(b"\r")
    return MessagePiece(decoded.stream, decoded.time, text, is_partial, decoded.attrs)


ReadPiece = Callable[[bytes], MessagePiece]


class _Message(msgspec.Struct):
    origin: Origin
    texts: list[bytes]
    end: int  # of its text in the file: without the line break
    alone: bool = False

    @property
    def start(self) -> int:
        return self.origin.spans[0][0]


class _Joining(msgspec.Struct):
    done: list[_Message] = []
    section: list[_Message] = []
    begun: dict[str, _Message] = {}

    def close(self) -> None:
        for index, message in enumerate(self.section):
            message.alone = len(self.section) > 1
            message.origin.within = index > 0
        self.done += self.section
        self.section = []
        self.begun = {}


class Joiner:
    def __init__(self, read: ReadPiece, grouping: Grouping | None, most: int, unit: int) -> None:
        self._read = read
        self._grouping = grouping
        self._most = most
        self._unit = unit

    def messages(self, lines: Lines, *, final: bool) -> Messages:
        joining = _Joining()
        for index, (body, span) in enumerate(
            zip(lines.bodies, pairwise(lines.positions), strict=True)
        ):
            is_broken = lines.unfinished and index == len(lines.bodies) - 1
            end = span[1] if is_broken else span[1] - self._unit
            if joining.section and end - joining.section[0].start > self._most:
                joining.close()
            self._take(joining, body, span, end)
        end = lines.positions[-1]
        if joining.section:
            is_too_long = lines.begun and end + lines.begun - joining.section[0].start > self._most
            if final or is_too_long:
                joining.close()
            else:
                end = joining.section[0].start
        return self._grouped(joining, lines, end, final=final)

    def _take(self, joining: _Joining, body: bytes, span: tuple[int, int], end: int) -> None:
        try:
            piece = self._read(body)
        except LineFault as fault:
            origin = Origin("", "", None, [span], fault)
            joining.section.append(_Message(origin, [body], end))
        else:
            message = joining.begun.pop(piece.stream, None)
            if message is None:
                origin = Origin(piece.stream, piece.time, piece.attrs, [])
                message = _Message(origin, [], end)
                joining.section.append(message)
            message.texts.append(piece.text)
            message.origin.spans.append(span)
            message.end = end
            if piece.more:
                joining.begun[piece.stream] = message
        if not joining.begun:
            joining.close()

    def _grouped(self, joining: _Joining, lines: Lines, end: int, *, final: bool) -> Messages:
        messages = joining.done
        bodies = [b"".join(message.texts) for message in messages]
        first_indexes = list(range(len(messages)))
        is_held = False
        if self._grouping is not None:
            first_indexes = self._firsts(self._grouping, messages, bodies)
            next_position = end if joining.section else end + lines.begun
            if (
                first_indexes
                and not final
                and not messages[-1].alone
                and not messages[-1].origin.fault
            ):
                is_held = self._grouping.may_go_on(
                    len(messages) - first_indexes[-1],
                    next_position - messages[first_indexes[-1]].start,
                )
            if is_held:
                end = messages[first_indexes[-1]].start
                bodies = bodies[: first_indexes[-1]]
                messages = messages[: first_indexes.pop()]
        bounds = [*first_indexes, len(messages)]
        return Messages(
            [b"\n".join(bodies[first:last]) for first, last in pairwise(bounds)],
            [*(messages[first].start for first in first_indexes), end],
            [
                sum(len(piece.origin.spans) for piece in messages[first_index:last_index])
                for first_index, last_index in pairwise(bounds)
            ],
            [_together(messages[first:last]) for first, last in pairwise(bounds)],
            unfinished=is_held,
            half=lines.rest > 0 or bool(joining.section),
        )

    @staticmethod
    def _firsts(grouping: Grouping, messages: list[_Message], bodies: list[bytes]) -> list[int]:
        section_starts = []
        for index, message in enumerate(messages):
            previous = messages[index - 1] if index else None
            is_apart = previous is None or previous.alone or message.alone
            is_apart = (
                is_apart or bool(previous and previous.origin.fault) or bool(message.origin.fault)
            )
            is_apart = is_apart or bool(
                previous and previous.origin.stream != message.origin.stream
            )
            section_starts.append(is_apart or grouping.begins(bodies[index]))
        starts = [message.start for message in messages]
        return grouping.firsts(section_starts, starts, [message.end for message in messages])


def _together(messages: list[_Message]) -> Origin:
    origin = messages[0].origin
    if len(messages) == 1:
        return origin
    spans = [span for message in messages for span in message.origin.spans]
    return Origin(origin.stream, origin.time, origin.attrs, spans, origin.fault)
