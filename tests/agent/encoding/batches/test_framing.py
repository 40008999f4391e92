"""Framing against the slow way: each event by the encoder, each record by the builder."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.accounting.runs import SourceId
from agent.configuration.config import BatchCompression
from agent.encoding.batches import framing
from agent.encoding.batches.framing import Frame, Stretch, framed
from agent.encoding.batches.plan import SourceHeader, TopicPlan
from agent.encoding.batches.record_batch import build
from client.producing.delivery import TopicPartition
from schemas.envelope import Encoder
from schemas.event_schemas import LOG_LINE, built_in
from tests.agent.compiled import needs
from tests.agent.encoding.batches.event_tails import encoded, of
from wire.record_batches.batch import HEADER_SIZE
from wire.record_batches.records import Record, build_batch, records

TARGET = TopicPartition("lines", 3)
PLAIN = TopicPlan("lines", 7, 8, "web-17.example.com")
TYPED = TopicPlan("views", 0x7FFFFFFF, 8, "", plain=False)
SCHEMA = of(user="long", url="string")
LINES = built_in(LOG_LINE)
NOW = 1_795_132_800_123


def stretch_of(
    plan: TopicPlan,
    source: SourceHeader,
    *,
    times: Sequence[int] | int = NOW,
    seqs: Sequence[int],
    positions: Sequence[int],
    bodies: Sequence[bytes],
    keys: Sequence[bytes] | None = None,
) -> Stretch:
    return Stretch(
        source.frame(plan), times=times, seqs=seqs, positions=positions, bodies=bodies, keys=keys
    )


def slowly(
    plan: TopicPlan,
    stretches: Sequence[tuple[SourceHeader, Stretch]],
    fields: Sequence[Sequence[dict[str, Any]]],
) -> bytes:
    """The batch, uncompressed, as everything else in Penstock would make it."""
    encoder = Encoder(LINES if plan.plain else SCHEMA, plan.schema_id)
    made: list[Record] = []
    for (source, stretch), its in zip(stretches, fields, strict=True):
        for at, own in enumerate(its):
            time = stretch.times if isinstance(stretch.times, int) else stretch.times[at]
            header = {
                "time": time,
                "host": plan.host,
                "app": source.app,
                "source": source.id,
                "seq": stretch.seqs[at],
                "position": stretch.positions[at],
            }
            path = {"path": source.path} if plan.plain else {}
            key = stretch.keys[at] if stretch.keys is not None else None
            value = encoder.encode({"header": header, **path, **own})
            made.append(Record(len(made), time, key, value))
    return build_batch(made, leader_epoch=-1, base_timestamp=min(each.timestamp for each in made))


EDGES = (0, 63, 64, 8191, 8192, 2**20, 2**27, 2**34, 2**41)
starts = st.sampled_from(EDGES).flatmap(lambda edge: st.integers(max(0, edge - 40), edge + 40))
times = (
    st.integers(-(2**40), 2**40)
    | st.integers(NOW - 100, NOW + 100)
    | st.integers(8150, 8250)
    | st.just(NOW)
)
texts = st.text(st.characters(codec="utf-8"), max_size=5)
messages = texts | st.integers(55, 70).map("x".__mul__) | st.integers(8100, 8300).map("y".__mul__)


@st.composite
def plain_stretches(draw: st.DrawFn) -> tuple[tuple[SourceHeader, Stretch], list[dict[str, Any]]]:
    source = SourceHeader(SourceId(draw(texts)), "/" + draw(texts), draw(texts))
    said = draw(st.lists(messages, min_size=1, max_size=draw(st.sampled_from([1, 5, 90]))))
    return _stretch(draw, PLAIN, source, [text.encode() for text in said]), [
        {"message": text} for text in said
    ]


@st.composite
def typed_stretches(draw: st.DrawFn) -> tuple[tuple[SourceHeader, Stretch], list[dict[str, Any]]]:
    source = SourceHeader(SourceId(draw(texts)), "/" + draw(texts), draw(texts))
    one = st.fixed_dictionaries({"user": st.integers(-(2**63), 2**63 - 1), "url": messages})
    said = draw(st.lists(one, min_size=1, max_size=draw(st.sampled_from([1, 5, 90]))))
    return _stretch(draw, TYPED, source, [encoded(SCHEMA, each) for each in said]), said


def _stretch(
    draw: st.DrawFn, plan: TopicPlan, source: SourceHeader, bodies: list[bytes]
) -> tuple[SourceHeader, Stretch]:
    count = len(bodies)
    several = st.lists(times, min_size=count, max_size=count)
    first, position = draw(starts), draw(starts)
    seqs: Sequence[int] = range(first, first + count)
    if draw(st.booleans()):
        seqs = sorted(draw(st.sets(starts, min_size=count, max_size=count)))
    step = draw(st.sampled_from([1, 200, 8192, 10_000]))
    positions = [position + at * step for at in range(count)]
    keys = draw(st.none() | st.lists(st.binary(max_size=70), min_size=count, max_size=count))
    made = stretch_of(
        plan,
        source,
        times=draw(times | several),
        seqs=seqs,
        positions=positions,
        bodies=bodies,
        keys=keys,
    )
    return source, made


@given(st.lists(plain_stretches(), min_size=1, max_size=3))
def test_plain_lines_are_framed_as_everywhere(drawn: list[Any]) -> None:
    check(PLAIN, drawn)


@given(st.lists(typed_stretches(), min_size=1, max_size=3))
def test_typed_events_are_framed_as_everywhere(drawn: list[Any]) -> None:
    check(TYPED, drawn)


def check(plan: TopicPlan, drawn: list[Any]) -> None:
    stretches, fields = [each[0] for each in drawn], [each[1] for each in drawn]
    wanted = slowly(plan, stretches, fields)
    only = [stretch for _, stretch in stretches]
    assert framed(only, min(each.earliest for each in only)) == wanted[HEADER_SIZE:]
    assert build(TARGET, only, BatchCompression.NONE).data == wanted


@pytest.mark.not_quick("frames megabytes")
@pytest.mark.parametrize("first", [0, 1_040_000, 2**27 - 5_000])
def test_long_stretches_too(first: int) -> None:
    """More than the tables hold: offsets, seqs and positions grow while they are framed."""
    source = SourceHeader(SourceId("s"), "/var/log/app.log", "shop")
    bodies = [b"x" * (at % 300) for at in range(17_000)]
    positions = [first * 3 + at * 150 for at in range(17_000)]
    stretch = stretch_of(
        PLAIN, source, seqs=range(first, first + 17_000), positions=positions, bodies=bodies
    )
    fields = [{"message": body.decode()} for body in bodies]
    wanted = slowly(PLAIN, [(source, stretch)], [fields])
    assert build(TARGET, [stretch], BatchCompression.NONE).data == wanted


@pytest.mark.parametrize("compression", BatchCompression)
def test_whatever_the_codec_readers_find_the_events(compression: BatchCompression) -> None:
    source = SourceHeader(SourceId("s"), "/var/log/app.log", "shop")
    bodies = [b"line %d" % at for at in range(1000)]
    stretch = stretch_of(
        PLAIN, source, seqs=range(1000), positions=range(0, 8000, 8), bodies=bodies
    )
    batch = build(TARGET, [stretch], compression)
    plain = build(TARGET, [stretch], BatchCompression.NONE)
    assert list(records(batch.data)) == list(records(plain.data))
    assert batch.records == 1000
    assert (batch.size < plain.size) == (compression is not BatchCompression.NONE)
    assert batch.header.codec == list(BatchCompression).index(compression)


# Framing in C writes the bytes that framing in Python does

if framing.NATIVE:
    from agent.encoding.batches._record_framing import measure
in_c = needs(framing.NATIVE, "agent/encoding/batches/_record_framing.c")


WIDE_EDGES = (0, 63, 64, 127, 128, 8191, 8192, 2**20, 2**27, 2**31, 2**34, 2**41, 2**48, 2**62)

numbers = st.sampled_from(WIDE_EDGES).flatmap(
    lambda edge: st.integers(max(0, edge - 20), edge + 20)
)
a_time = (
    st.integers(-(2**40), 2**40)
    | st.integers(NOW - 100, NOW + 100)
    | st.sampled_from((-(2**63), -(2**62), -1, 0, 8191, 8192, 2**62, 2**63 - 1))
)
body = (
    st.binary(max_size=80)
    | st.sampled_from((b"", b"\0", b"\r", b"\xff\xfe", b"\n\n", "é".encode()))
    | st.sampled_from((63, 64, 8_100, 8_191, 8_192, 70_000)).map(lambda size: b"\0\xff" * size)
)


@st.composite
def stretches(draw: st.DrawFn) -> Stretch:
    bodies = draw(st.lists(body, min_size=1, max_size=12))
    count = len(bodies)
    first = draw(numbers)
    many = st.lists(a_time, min_size=count, max_size=count)
    ascending = st.lists(numbers, min_size=count, max_size=count, unique=True).map(sorted)
    return Stretch(
        Frame(*draw(st.tuples(*[st.binary(max_size=40)] * 3)), plain=draw(st.booleans())),
        times=draw(a_time | many),
        seqs=draw(st.just(range(first, first + count)) | ascending),
        positions=draw(ascending | st.just(list(range(first, first + 200 * count, 200)))),
        bodies=bodies,
        keys=draw(st.none() | st.lists(body, min_size=count, max_size=count)),
    )


def outcome(act: Callable[[], bytes]) -> bytes | None:
    """None for a number that does not fit."""
    try:
        return act()
    except OverflowError:
        return None


@in_c
@given(st.lists(stretches(), min_size=1, max_size=4))
def test_it_writes_the_same_bytes(several: Sequence[Stretch]) -> None:
    base = min(each.earliest for each in several)
    quickly = outcome(lambda: framed(several, base, native=True))
    assert quickly == outcome(lambda: framed(several, base, native=False))


@in_c
def test_all_at_once_is_the_same_too() -> None:
    """More events than any table of numbers has, in parts that begin anywhere."""
    bodies = [b"%d" % at * (at % 7) for at in range(20_000)]
    positions = [*range(8_000, 8_000 + 20_000 * 50, 50)]
    whole = Stretch(
        Frame(b"head", b"identity", b"path", plain=True),
        times=[NOW + at % 9_000 for at in range(20_000)],
        seqs=range(60, 20_060),
        positions=positions,
        bodies=bodies,
    )
    parts = [whole.part(0, 1), whole.part(1, 9_999), whole.part(9_999, 20_000)]
    for several in ([whole], parts, parts[::-1]):
        assert framed(several, NOW, native=True) == framed(several, NOW, native=False)
    assert framed(parts, NOW) == framed([whole], NOW)


@in_c
@given(st.lists(body, min_size=1, max_size=50))
def test_bodies_are_measured(bodies: list[bytes]) -> None:
    assert measure(bodies) == (sum(map(len, bodies)), max(map(len, bodies)))


GOOD: tuple[Any, ...] = (b"", b"", b"", True, 0, 0, 0, [b""], None)
