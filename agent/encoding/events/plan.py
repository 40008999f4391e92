"""Selects how the messages of an input become events, by its configuration.

JSON lines are encoded many at once, column by column (`agent.encoding.bodies.json_tails`), unless
unknown fields must be kept. The result is the same as that of `event_rules.OneByOne`.
"""

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Final, cast

from agent.configuration.inputs import Format, Input, UnknownFields
from agent.configuration.lines import Time
from agent.encoding.bodies.json_tails import JsonTails, Tails
from agent.encoding.bodies.tail_encoder import TailEncoder
from agent.encoding.events.event_rules import (
    EMPTY,
    Encode,
    FindFields,
    Made,
    Make,
    OneByOne,
    Rules,
    When,
)
from agent.encoding.events.fields import (
    Fields,
    by_named_groups,
    fields_of_json,
    fields_of_logfmt,
    text_of,
)
from agent.encoding.events.filtering import Filters
from agent.encoding.events.presets import PRESETS
from agent.encoding.events.schema_fit import (
    EXTRA,
    MESSAGE,
    check_fields,
    check_fit,
    encoder_for,
    is_plain,
    key_field,
    names_of,
)
from agent.encoding.events.times import time_reader, times_of, zone_of
from agent.encoding.lines.encodings import utf8
from agent.encoding.lines.faults import LineFault
from agent.encoding.lines.journal_lines import JOURNAL_TIME
from agent.encoding.lines.messages import Origin
from schemas.parsing import AvroSchema

_SAY_THE_TIME: Final = {Format.CRI, Format.DOCKER, *PRESETS}
_FREE_FIELDS: Final = {Format.JSON, Format.LOGFMT, Format.REGEX}
_TIME: Final = "time"
_JOURNAL_TIME: Final = Time(field=JOURNAL_TIME, format="epoch_us")


class JsonColumns:
    def __init__(self, tails: JsonTails, names: Sequence[str], added: Fields, rules: Rules) -> None:
        """`names` are the fields that `tails` returns for the time, the filters and the key."""
        self._tails = tails
        self._names = names
        self._added = added
        self._rules = rules

    def __call__(self, bodies: Sequence[bytes], made: Made) -> None:
        rules, now = self._rules, made.now
        made.timeless = rules.when is None
        tails = self._tails.encode(bodies)
        dropped_fields, indexes = tails.dropped, list[int]()
        if not tails.refused and not rules.filters and not rules.key and self._quickly(tails, made):
            return
        for index, body in enumerate(tails.bodies):
            line_fault = (
                None if body is not None else self._fault(bodies[index], tails.refused[index])
            )
            if line_fault is not None and line_fault.kind == "format":
                if not bodies[index] or bodies[index].isspace():
                    made.drop(index, EMPTY)
                else:
                    made.bury(index, line_fault)
                continue
            value = {
                name: field
                for name, column in zip(self._names, tails.taken, strict=True)
                if (field := column[index]) is not None
            }
            value.update(self._added)
            try:
                time = rules.time(value, now)
            except LineFault as fault:
                made.bury(index, fault)
                continue
            if rules.filters:
                reason = rules.filters.dropped_by(bodies[index], value)
                if reason is not None:
                    made.drop(index, reason)
                    continue
            if line_fault is not None:
                made.bury(index, line_fault, time)
                continue
            assert body is not None
            made.event(index, time, body)
            indexes.append(index)
            if rules.key:
                made.keys.append(rules.key_of(value))
        if dropped_fields.counts and len(indexes) < len(bodies):
            dropped_fields = self._tails.dropped_by(bodies[index] for index in indexes)
        made.dropped = dropped_fields

    def _quickly(self, tails: Tails, made: Made) -> bool:
        """Makes an event of every line. Returns False if a time cannot be read."""
        time_rule = self._rules.when
        times = [made.now] * len(tails.bodies)
        if time_rule is not None:
            column = tails.taken[self._names.index(time_rule.field)]
            try:
                times = times_of(time_rule.read, column, made.now)
            except LineFault:
                return False
        made.all_events(times, cast("list[bytes]", tails.bodies))
        made.dropped = tails.dropped
        return True

    @staticmethod
    def _fault(line: bytes, reason: str) -> LineFault:
        try:
            fields_of_json(line)
        except LineFault as fault:
            return fault
        return LineFault("schema", reason)


def make_for(input_: Input, schema: AvroSchema | None) -> Make | None:
    """Returns what turns an input's messages into events; None if they become events unchanged.
    Raises ValueError or `InputError`."""
    names = names_of(input_)
    check_fit(input_, schema, names)
    has_whole_lines = input_.is_plain
    rules = Rules(
        Filters(input_.filters, whole_lines=has_whole_lines), _when(input_), key_field(input_)
    )
    added_fields = dict(input_.add_fields)
    if schema is None or is_plain(schema):
        if has_whole_lines:
            return PlainLines(rules.filters) if rules.filters else None
        carried_fields = {MESSAGE, *_used(input_)}
        return OneByOne(_find_fields(input_), {}, rules, message_of, carried_fields)
    encoder = encoder_for(input_, schema)
    check_fields(input_, encoder, names)
    added_fields = {encoder.named(name): value for name, value in added_fields.items()}
    unknown_fields = input_.unknown_fields if input_.format in _FREE_FIELDS else UnknownFields.DROP
    used_fields = _asked(input_)
    is_columnar = input_.format is Format.JSON and input_.journal is None
    if is_columnar and unknown_fields is not UnknownFields.KEEP:
        rejects_unknown = unknown_fields is UnknownFields.DEAD
        tails = JsonTails(
            encoder, take=used_fields, constants=added_fields, only_known=rejects_unknown
        )
        return JsonColumns(tails, used_fields, added_fields, rules)
    former_names = chain.from_iterable(encoder.aliases.values())
    known_fields = {*encoder.names, *_used(input_), *former_names}
    encode = _encode(encoder, unknown_fields, known_fields)
    carried_fields = {
        *encoder.names,
        *_used(input_),
        *chain.from_iterable(encoder.aliases.values()),
    }
    if {"facility", "severity"} <= carried_fields:
        carried_fields.add("priority")  # it combines both
    find_fields = _renaming(_find_fields(input_), encoder)
    drops_unknown = unknown_fields is UnknownFields.DROP
    return OneByOne(
        find_fields, added_fields, rules, encode, carried_fields if drops_unknown else None
    )


class PlainLines:
    """Turns plain lines into events, after filtering."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters

    def __call__(self, bodies: Sequence[bytes], made: Made) -> None:
        made.timeless = True
        for index, body in enumerate(bodies):
            reason = self._filters.dropped_by(body, {})
            if reason is None:
                made.event(index, made.now, body)
            else:
                made.drop(index, reason)


def message_of(value: Fields) -> bytes:
    """The message of an event with the plain schema; other fields are not used."""
    message = value.get(MESSAGE)
    if message is None:
        raise LineFault("schema", f"{MESSAGE}: it is missing")
    return utf8(text_of(message))


def _when(input_: Input) -> When | None:
    """The time field and its reader. If the format has its own time, a line may lack it, as
    RFC 5424 allows."""
    time = input_.time
    if time is None and input_.journal is not None:
        return When(JOURNAL_TIME, time_reader(_JOURNAL_TIME), needed=False)
    if time is None:
        if input_.format not in _SAY_THE_TIME:
            return None
        time = Time(field=_TIME)
    read_time = time_reader(time)
    preset = PRESETS.get(input_.format)
    if preset is not None and time.field == _TIME and time.format in {"iso8601", "rfc3164"}:
        read_time = preset.time(zone_of(time))
    return When(time.field, read_time, needed=input_.time is not None)


def _find_fields(input_: Input) -> FindFields:
    find_fields = _find_in_message(input_)
    return find_fields if input_.journal is None else _with_entry(find_fields)


def _with_entry(find_fields: FindFields) -> FindFields:
    """Adds the fields of a journal entry to those of its message."""

    def fields(body: bytes, origin: Origin | None) -> Fields:
        assert origin is not None
        if origin.fault is not None:
            raise origin.fault
        return {**find_fields(body, origin), **(origin.attrs or {})}

    return fields


def _find_in_message(input_: Input) -> FindFields:
    match input_.format:
        case Format.CRI | Format.DOCKER:
            return _fields_of_container
        case Format.PLAIN:
            return lambda body, _: {MESSAGE: body.decode()}
        case Format.REGEX:
            by_groups = by_named_groups(input_.pattern)
            return lambda body, _: by_groups(body)
        case Format.JSON:
            return lambda body, _: fields_of_json(body)
        case Format.LOGFMT:
            return lambda body, _: fields_of_logfmt(body)
    parse = PRESETS[input_.format].parse
    return lambda body, _: parse(body)


def _fields_of_container(body: bytes, origin: Origin | None) -> Fields:
    assert origin is not None
    if origin.fault is not None:
        raise origin.fault
    fields: Fields = {MESSAGE: body.decode(), "stream": origin.stream}
    if origin.time:
        fields[_TIME] = origin.time
    if origin.attrs is not None:
        fields["attrs"] = origin.attrs
    return fields


def _renaming(find: FindFields, encoder: TailEncoder) -> FindFields:
    """Adds the values of former field names under the current ones."""
    if not encoder.aliases:
        return find
    return lambda body, origin: dict(encoder.renamed(find(body, origin)))


def _asked(input_: Input) -> list[str]:
    """The fields that time, filters and partitioning use, and the objects that may contain them."""
    time = input_.time.field if input_.time else ""
    names = [time, *(filter_.field for filter_ in input_.filters), key_field(input_)]
    roots = ((name, name.partition(".")[0]) for name in names if name)
    return list(dict.fromkeys(chain.from_iterable(roots)))


def _used(input_: Input) -> list[str]:
    """Fields that the header has or that the input uses, which do not count as dropped."""
    own_fields = [_TIME] if input_.format in _SAY_THE_TIME and input_.time is None else []
    if input_.journal is not None:
        own_fields.append(JOURNAL_TIME)
    # Every line of every container has it, so a remark about it would be noise.
    stream = ["stream"] if input_.format in {Format.CRI, Format.DOCKER} else []
    return own_fields + stream + _asked(input_)


def _encode(encoder: TailEncoder, unknown: UnknownFields, known: Collection[str]) -> Encode:
    if unknown is UnknownFields.DROP:
        return encoder.encode

    def only_known(value: Fields) -> bytes:
        for name in value:
            if name not in known:
                raise LineFault("unknown field", f"the schema has no field {name!r:.80}")
        return encoder.encode(value)

    def keeping(value: Fields) -> bytes:
        extra_values = {name: text_of(value[name]) for name in value if name not in known}
        if extra_values:
            extra_fields = value.get(EXTRA)
            value = {
                **value,
                EXTRA: {**extra_fields, **extra_values}
                if isinstance(extra_fields, dict)
                else extra_values,
            }
        return encoder.encode(value)

    return keeping if unknown is UnknownFields.KEEP else only_known
