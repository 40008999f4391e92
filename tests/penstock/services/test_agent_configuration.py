"""An agent's configuration files: everything can be said in them, and mistakes are named."""

import re
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.configuration.config import AgentConfig, BatchCompression
from agent.configuration.inputs import Format, Input, LongLines, UnknownFields
from agent.configuration.lines import Filter, Multiline, Redaction, Time
from agent.errors import ConfigRejected
from penstock.config.configuration import ConfigurationError
from penstock.services.agent_configuration import load_agent, load_inputs, or_rejected

INPUT = "inputs: [{paths: [/a], topic: a}]\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "agent.yaml"
        path.write_text(text)
        return path

    return written


def test_everything_that_an_input_can_say(tmp_path: Path, write: Callable[[str], Path]) -> None:
    (tmp_path / "key").write_text("hunter2\n")
    path = write(
        f"""
inputs:
  - paths: [/var/log/a, "/var/log/**/*.json"]
    exclude: ["*.tmp"]
    topic: a
    name: A
    app: shop
    format: json
    schema: a.avsc
    time: {{field: at, format: "%d/%b/%Y", zone: Europe/Zurich}}
    encoding: latin-1
    start: 2026-11-20
    ignore_older: 60
    max_line_bytes: 1000
    long_lines: dead
    last_line_timeout: 0.5
    unknown_fields: keep
    filters:
      - {{name: f, drop: x, field: level}}
      - {{sample: 10, match: y}}
    redact:
      - {{pattern: "[0-9]+", hash: true, key_file: {tmp_path}/key}}
      - {{pattern: secret, replacement: "…"}}
    add_fields: {{a: text, b: 1, c: 1.5, d: true, e: "1"}}
    rate_limit: 100
    partition_by: field:user
  - {{paths: [/b], topic: b, multiline: {{start: "^[0-9]", timeout: 1, max_lines: 10}}}}
  - {{paths: [/c], topic: c, format: regex, pattern: '(?P<message>.*)'}}
"""
    )
    first, second, third = load_agent(path, ()).inputs
    assert first == Input(
        paths=("/var/log/a", "/var/log/**/*.json"),
        exclude=("*.tmp",),
        topic="a",
        name="A",
        app="shop",
        format=Format.JSON,
        schema=str(tmp_path / "a.avsc"),
        time=Time(field="at", format="%d/%b/%Y", zone="Europe/Zurich"),
        encoding="latin-1",
        start="2026-11-20",
        ignore_older=60,
        max_line_bytes=1000,
        long_lines=LongLines.DEAD,
        last_line_timeout=0.5,
        unknown_fields=UnknownFields.KEEP,
        filters=(Filter(name="f", drop="x", field="level"), Filter(sample=10, match="y")),
        redact=(
            Redaction(pattern="[0-9]+", hash=True, key="hunter2"),
            Redaction(pattern="secret", replacement="…"),
        ),
        add_fields={"a": "text", "b": 1, "c": 1.5, "d": True, "e": "1"},
        rate_limit=100,
        partition_by="field:user",
    )
    assert second.multiline == Multiline(start="^[0-9]", timeout=1, max_lines=10)
    assert third.pattern == "(?P<message>.*)"


def test_keys_over_what_the_file_says(write: Callable[[str], Path]) -> None:
    loaded = load_agent(
        write(INPUT),
        [
            "batches.compression=lz4",
            "limits.cpu=0.5",
            "brokers=[a:9092, b:9092]",
            "hold_deleted={bytes: 5}",
        ],
    )
    assert (loaded.batches.compression, loaded.limits.cpu) == (BatchCompression.LZ4, 0.5)
    assert [str(each) for each in loaded.bootstrap.addresses] == ["a:9092", "b:9092"]
    assert loaded.hold_deleted.bytes == 5
    assert load_agent(None, ["inputs=[{paths: [/x], topic: t}]"]).inputs[0].topic == "t"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  - {paths: [/c], topic: c, format: josn}", "inputs[1].format: expected one of"),
        ("  - {paths: /c, topic: c}", "inputs[1].paths: expected a list"),
        ("  - {topic: c}", "inputs[1]: `paths`, with at least one file"),
        ("  - {paths: [c], topic: c}", "inputs[1]: `paths`: c is not absolute"),
        ("  - {paths: [/c], topic: a}", "duplicate input a"),
        ("  - {paths: [/c], topic: a.dead}", "inputs[1]: `topic: a.dead` is reserved"),
        ("  - {paths: [/c], topic: _audit}", "inputs[1]: `topic: _audit` is reserved"),
        ("  - {paths: [/c], topic: c, start: soon}", "inputs[1]: `start: soon`: must be beginning"),
        ("  - {paths: [/c], topic: c, format: regex}", "inputs[1]: `pattern` and"),
        ("  - {paths: [/c], topic: c, encoding: utf-77}", "inputs[1]: `encoding: utf-77`"),
        ("  - {paths: [/c], topic: c, time: {field: x}}", "inputs[1]: `time` needs fields"),
        (
            "  - {paths: [/c], topic: c, format: json, time: {field: x, format: when}}",
            "inputs[1].time: `format: when`: must be one of",
        ),
        (
            "  - {paths: [/c], topic: c, format: json, time: {field: x, zone: Mars}}",
            "inputs[1].time: `zone: Mars`: unknown",
        ),
        (
            "  - {paths: [/c], topic: c, multiline: {start: x, indentation: true}}",
            "inputs[1].multiline: give exactly one of",
        ),
        (
            "  - {paths: [/c], topic: c, filters: [{drop: x}, {keep: '('}]}",
            "inputs[1].filters[1]: `keep`: invalid regular expression",
        ),
        (
            "  - {paths: [/c], topic: c, redact: [{pattern: x*}]}",
            "inputs[1].redact[0]: `pattern` must not be empty",
        ),
        (
            "  - {paths: [/c], topic: c, redact: [{pattern: x, hash: true, key_file: /absent}]}",
            "inputs[1].redact[0].key_file: /absent: No such file",
        ),
        ("batches: {bytes: 1}", "batches: `bytes` must be between"),
        ("batches: {compression: lz5}", "batches.compression: expected one of none, gzip"),
        ("limits: {cpu: lots}", "limits.cpu: expected a number"),
        ("limits: {open_files: 0}", "limits: `open_files` must be positive"),
        ("http_host: 0.0.0.0", "`http_host: 0.0.0.0` can be reached from other machines"),
        ("registry: dc1-a", "`registry`: "),
        ("brokers: [':x']", "`brokers`: "),
        ("window: 7", "`window` must divide an hour"),
        ("drain: -1", "`drain` must not be negative"),
        ("driain: 1", "driain: unknown key; did you mean drain?"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(
    write: Callable[[str], Path], text: str, said: str
) -> None:
    path = write(f"inputs:\n  - {{paths: [/a], topic: a}}\n{text}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_agent(path, ())
    (line,) = caught.value.mistakes
    position = r"" if said.startswith("duplicate") else r":3:\d+"
    assert re.match(f"{re.escape(str(path))}{position}: {re.escape(said)}", line)
    assert len(line.splitlines()) == 1


def test_nothing_to_follow_is_a_mistake(write: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigurationError, match="`inputs` or `inputs_dir` is required"):
        load_agent(write("cluster: dc1\n"), ())


def test_folders_are_beside_the_file_that_names_them(
    tmp_path: Path, write: Callable[[str], Path]
) -> None:
    path = write("inputs_dir: agent.d\ninputs: [{paths: [/a], topic: a, schema: s/a.avsc}]\n")
    loaded = load_agent(path, ())
    assert loaded.inputs_dir == str(tmp_path / "agent.d")
    assert loaded.inputs[0].schema == str(tmp_path / "s" / "a.avsc")
    assert load_agent(path, ["inputs_dir=here"]).inputs_dir == "here"
    absolute = load_agent(write("inputs_dir: /etc/penstock/agent.d\n"), ())
    assert absolute.inputs_dir == "/etc/penstock/agent.d"


def test_an_applications_own_file(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text("inputs: [{paths: [/a], topic: a, schema: a.avsc}]\n")
    (loaded,) = load_inputs(path)
    assert (loaded.topic, loaded.schema) == ("a", str(tmp_path / "a.avsc"))
    for text, why in (
        ("- {paths: [/a], topic: a}\n", "expected a mapping"),
        ("cluster: dc1\n", "unknown key"),
        ("", "inputs: is missing"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigRejected, match=why):
            or_rejected(lambda: load_inputs(path))


WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["UTC", "Europe", "../UTC", "/", "rot13", "hex", "idna", "mbcs", "undefined"]),
    st.sampled_from(["%d", "%", "(?P<a>x)", "(", "[", "field:", "field:a", "2026-13-01", "0001"]),
)


@given(
    key=st.sampled_from(
        ["topic", "encoding", "start", "pattern", "partition_by", "name", "format", "schema"]
    ),
    word=WORDS,
)
def test_any_word_is_taken_or_named(key: str, word: str) -> None:
    """Nothing but a refusal comes of it."""
    wanted = {"paths": ["/a"], "topic": "a", "format": "regex", "pattern": "(?P<b>.)", key: word}
    try:
        taken = msgspec.convert(wanted, Input)
    except msgspec.ValidationError:
        return
    assert taken.label == (taken.name or taken.topic)


@given(key=st.sampled_from(["field", "format", "zone"]), word=WORDS)
def test_any_word_about_times_is_taken_or_named(key: str, word: str) -> None:
    try:
        time = msgspec.convert({"field": "at", key: word}, Time)
    except msgspec.ValidationError:
        return
    ZoneInfo(time.zone)


def test_defaults_are_valid() -> None:
    config = AgentConfig(inputs=(Input(paths=("/a",), topic="a"),))
    again = msgspec.convert(msgspec.to_builtins(config), AgentConfig)
    assert again == config
