"""Turns the bytes of a file into events, by the configuration of an input.

Rules:

1. A reader keeps no state of a source. Its result depends only on the bytes, their position, and
   the time; in whatever pieces a file is read, the same events come of it.
2. Every consumed byte belongs to an event or is excepted, and so does every line: sums are exact.
3. No input raises an error. A line that cannot become an event becomes a dead letter.
4. Redaction comes before everything that examines a line's content.

Each input has one reader, which belongs to one thread.
"""

import codecs
from bisect import bisect_left
from collections.abc import Mapping
from operator import sub

from msgspec.structs import replace

from agent.accounting.alterations import Alteration, Altered
from agent.accounting.cuts import MOST_RAW, Cut, DeadLine, Events
from agent.accounting.runs import Excepted, Fate
from agent.configuration.config import Times
from agent.configuration.inputs import Format, Input, LongLines
from agent.encoding.events.event_rules import Made
from agent.encoding.events.plan import make_for
from agent.encoding.events.presets import PRESETS
from agent.encoding.events.redaction import Redactor
from agent.encoding.events.schema_fit import is_plain
from agent.encoding.lines.containers import Joiner, MessagePiece, cri_piece, docker_piece
from agent.encoding.lines.encoding_guess import looks_like
from agent.encoding.lines.encodings import Lines, line_encoding
from agent.encoding.lines.journal_lines import journal_piece, longest_line
from agent.encoding.lines.messages import Grouping, Messages
from agent.errors import InputError
from schemas.parsing import AvroSchema

_NEVER = 1e9
_PIECES = {Format.CRI: cri_piece, Format.DOCKER: docker_piece}


class EventReader:
    def __init__(
        self,
        input_: Input,
        schema: AvroSchema | None,
        times: Times,
    ) -> None:
        """Raises `InputError` if the input does not fit the schema of its topic."""
        self.plain = is_plain(schema)
        try:
            self._encoding = line_encoding(input_.encoding)
            self._redactor = Redactor(input_.redact)
            self._make = make_for(input_, schema)
        except ValueError as error:
            raise InputError(f"{input_.label}: {error}") from None
        self._encoding_name = codecs.lookup(input_.encoding).name
        self._times = times
        unit = self._encoding.unit
        most_bytes, last_line_timeout = input_.max_line_bytes, input_.last_line_timeout
        if input_.journal is not None:  # the agent itself writes its lines, and completes them
            most_bytes = longest_line(most_bytes, len(input_.journal.fields))
            last_line_timeout = _NEVER
        self._cap = max(unit, most_bytes - most_bytes % unit)
        self._cuts = input_.long_lines is LongLines.CUT
        # The reason in the exceptions of such lines.
        self.too_long = (
            f"line {'cut at' if self._cuts else 'longer than'} {input_.max_line_bytes} bytes"
        )
        self.last_line_timeout = last_line_timeout
        preset = PRESETS.get(input_.format)
        multiline = input_.multiline or (preset.multiline if preset else None)
        self._multiline_timeout = multiline.timeout if multiline else 0.0
        self._grouping = Grouping(multiline, self._cap, unit) if multiline is not None else None
        read_piece = _PIECES.get(input_.format)
        if input_.journal is not None:
            read_piece = self._redacted_piece if input_.redact else journal_piece
        self._joiner = (
            Joiner(read_piece, self._grouping, self._cap, unit) if read_piece is not None else None
        )

    @property
    def most_bytes(self) -> int:
        """A chunk size large enough for reading always to make progress."""
        return 2 * (self._cap + 2 * self._encoding.unit)

    def cut(
        self,
        chunk: bytes,
        position: int,
        *,
        now_millis: int,
        final: bool,
        most_lines: int | None = None,
        skipping: bool = False,
    ) -> Cut:
        """Cuts events off the beginning of `chunk`, which is at `position` of the file.

        `final`: the chunk reaches to the end of the file, and nothing has followed for the timeout,
        or ever will: an incomplete line or message is complete. `skipping` is that of the last cut.
        """
        if not chunk:
            return Cut(0, skipping=skipping and not final)
        if skipping:
            return self._skipped(chunk, position, final=final)
        has_joined_lines = self._grouping is not None or self._joiner is not None
        line_limit = None if most_lines is None else max(1, most_lines)
        lines = self._encoding.lines(
            chunk, position, None if has_joined_lines else line_limit, final=final
        )
        all_lines = lines
        if lines.longest > self._cap:
            lines = lines.first(first_long(lines, self._cap, self._encoding.unit))
        too_long = lines.begun > self._cap
        likely_encoding = ""
        if lines.replaced or not position:
            damaged_count = len(lines.replaced)
            likely_encoding = looks_like(
                chunk, position, self._encoding_name, len(lines.bodies), damaged_count
            )
        if not lines.bodies:
            if too_long or all_lines.bodies:
                return replace(
                    self._long(chunk, position, now_millis, final=final), looks=likely_encoding
                )
            return Cut(0, wait=self.last_line_timeout)
        messages = self._messages(lines, final=final)
        is_limited = (
            not has_joined_lines and line_limit is not None and len(lines.bodies) >= line_limit
        )
        if has_joined_lines and line_limit is not None:
            first_messages = messages.first(line_limit)
            is_limited, messages = first_messages is not messages, first_messages
        wait_seconds = 0.0 if is_limited or too_long else self._wait(messages)
        cut = self._made(
            messages,
            chunk,
            position=position,
            now_millis=now_millis,
            wait=wait_seconds,
            replaced=lines.replaced,
        )
        if not likely_encoding:
            return cut
        altered = tuple(
            replace(altered_text, hint=likely_encoding)
            if altered_text.kind is Alteration.REPLACED
            else altered_text
            for altered_text in cut.altered
        )
        return replace(cut, altered=altered, looks=likely_encoding)

    def _redacted_piece(self, line: bytes) -> MessagePiece:
        """An entry of the journal, with its fields redacted: its message is redacted later, as that
        of any line."""
        piece = journal_piece(line)
        fields = piece.attrs or {}
        texts = {name: value for name, value in fields.items() if isinstance(value, str)}
        redacted = self._redactor.bodies([text.encode() for text in texts.values()])
        for name, text in zip(texts, redacted, strict=True):
            fields[name] = text.decode("utf-8", "replace")
        return piece

    def _messages(self, lines: Lines, *, final: bool) -> Messages:
        if self._joiner is not None:
            return self._joiner.messages(lines, final=final)
        if self._grouping is not None:
            return self._grouping.messages(lines, final=final)
        return Messages.of(lines)

    def _wait(self, messages: Messages) -> float:
        return max(
            self.last_line_timeout if messages.half else 0.0,
            self._multiline_timeout if messages.unfinished else 0.0,
        )

    def _made(
        self,
        messages: Messages,
        chunk: bytes,
        *,
        position: int,
        now_millis: int,
        wait: float,
        replaced: Mapping[int, int],
    ) -> Cut:
        consumed_bytes = messages.positions[-1] - position
        bodies = self._redactor.bodies(messages.bodies)
        if not bodies:
            return Cut(consumed_bytes, wait=wait)
        if self._make is None:
            events = Events(now_millis, messages.positions[:-1], bodies)
            altered = _replaced(messages, events, replaced) if replaced else ()
            return Cut(consumed_bytes, events, lines=messages.lines, wait=wait, altered=altered)

        def raw(at: int) -> bytes:
            if self._redactor:
                return bodies[at][:MOST_RAW]
            pieces = (chunk[start - position : end - position] for start, end in messages.spans(at))
            return self._encoding.without_break(b"".join(pieces))[:MOST_RAW]

        oldest = now_millis - int(self._times.oldest * 1000)
        newest = now_millis + int(self._times.newest * 1000)
        made = Made(messages, now_millis, (oldest, newest), raw)
        self._make(bodies, made)
        made_events = made.events()
        altered = made.dropped.altered()
        if replaced and made_events is not None:
            altered += _replaced(messages, made_events, replaced)
        return Cut(
            consumed_bytes,
            made_events,
            made.dead,
            made.tally.excepted(),
            made.lines,
            wait,
            clamped=made.clamped,
            altered=altered,
        )

    def _long(self, chunk: bytes, position: int, now_millis: int, *, final: bool) -> Cut:
        """Cuts a first line that is too long: takes its beginning, and skips the rest, even if its
        end has not been written yet."""
        head, replaced_count = self._encoding.head(chunk[: self._cap], position)
        skipped_cut = self._skipped(chunk, position, final=final)
        end = position + self._cap
        if self._cuts:
            line = Lines([head], [position, end], 0, self._cap, unfinished=True)
            cut = self._made(
                self._messages(line, final=True),
                chunk,
                position=position,
                now_millis=now_millis,
                wait=0.0,
                replaced={position: replaced_count} if replaced_count else {},
            )
        else:
            (redacted_head,) = self._redactor.bodies([head])
            cut_line = DeadLine(
                position, self._cap, redacted_head[:MOST_RAW], self.too_long, now_millis
            )
            cut = Cut(
                self._cap,
                dead=[cut_line],
                excepted=(Excepted(Fate.DEAD_LETTERED, 1, self._cap, self.too_long),),
            )
        (skipped_line,) = skipped_cut.excepted
        cut_bytes = skipped_line.bytes - self._cap
        if cut.events is not None:
            cut = replace(cut, altered=(*cut.altered, Altered(Alteration.CUT, 1, cut_bytes)))
        return replace(
            cut,
            consumed=skipped_cut.consumed,
            dead=[replace(dead_line, size=skipped_cut.consumed) for dead_line in cut.dead],
            excepted=(*cut.excepted, replace(skipped_line, bytes=cut_bytes)),
            wait=skipped_cut.wait,
            skipping=skipped_cut.skipping,
        )

    def _skipped(self, chunk: bytes, position: int, *, final: bool) -> Cut:
        """Skips to the end of the line, or of the chunk."""
        line = self._encoding.lines(chunk, position, 1, final=final)
        size = line.positions[-1] - position
        is_skipping = not line.bodies
        if is_skipping:
            size = len(chunk) - (position + len(chunk)) % self._encoding.unit
        wait_seconds = self.last_line_timeout if is_skipping else 0.0
        if not size:
            return Cut(0, wait=wait_seconds, skipping=True)
        fate = Fate.FILTERED if self._cuts else Fate.DEAD_LETTERED
        excepted = (Excepted(fate, 0, size, self.too_long),)
        return Cut(size, excepted=excepted, wait=wait_seconds, skipping=is_skipping)


def _replaced(
    messages: Messages, events: Events, replaced: Mapping[int, int]
) -> tuple[Altered, ...]:
    """The number of replaced characters in the lines of these events."""
    if len(events.positions) == len(messages.bodies):
        end = messages.positions[-1]
        counts = [count for line, count in replaced.items() if line < end]
        return (Altered(Alteration.REPLACED, len(counts), sum(counts)),) if counts else ()
    lines = sorted(replaced)
    shipped_positions = set(events.positions)
    counts = [
        replaced[line]
        for index in range(len(messages.bodies))
        if messages.positions[index] in shipped_positions
        for start, end in messages.spans(index)
        for line in lines[bisect_left(lines, start) : bisect_left(lines, end)]
    ]
    return (Altered(Alteration.REPLACED, len(counts), sum(counts)),) if counts else ()


def first_long(lines: Lines, cap: int, unit: int) -> int:
    """The index of the first line that is longer than `cap` bytes, without its line break."""
    ends = [end - unit for end in lines.positions[1:]]
    if lines.unfinished:
        ends[-1] += unit
    sizes = map(sub, ends, lines.positions)
    return next(index for index, size in enumerate(sizes) if size > cap)
