"""Every way in which a configuration can be right or wrong, and the exact line it gets."""

import enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from penstock.config.configuration import ConfigurationError, load


class Codec(enum.Enum):
    NONE = "none"
    ZSTD = "zstd"


class TopicDefaults(
    msgspec.Struct, frozen=True, kw_only=True, rename={"retention_ms": "retention.ms"}
):
    partitions: Annotated[int, Meta(ge=1)] = 1
    retention_ms: Annotated[int, Meta(ge=-1)] = 604_800_000
    ratio: Annotated[float, Meta(gt=0, le=1)] = 0.5


class Input(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    paths: tuple[str, ...] = ()


class Login(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    password: str


class Program(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[int, Meta(ge=0, le=1000)] = 0
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] = 9092
    insecure: bool = False
    rack: str | None = None
    data_dir: Path = Path("data")
    codec: Codec = Codec.NONE
    acks: Literal[0, 1, "all"] = "all"
    topic_defaults: TopicDefaults = TopicDefaults()
    configs: dict[str, int | bool | str] = {}
    inputs: list[Input] = []
    login: Login | None = None
    token: Annotated[str, Meta(min_length=8, max_length=20)] | None = None
    key_file: str | None = None
    logins: dict[str, Login] = {}
    anything: Any = None

    def __post_init__(self) -> None:
        if self.host != "127.0.0.1" and not self.insecure:
            raise ValueError("host: an address other than 127.0.0.1 needs insecure: true")


class Strict(msgspec.Struct, frozen=True, kw_only=True):
    zookeeper: Annotated[str, Meta(description='"embedded", or host:port of an ensemble')]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "program.yaml"


def program(path: Path, text: str, *overrides: str, **environment: str) -> Program:
    path.write_text(text)
    return load(Program, path, overrides, environment)


def error(path: Path, text: str | bytes, *overrides: str, **environment: str) -> str:
    """The one line that the text gets, without the folder of the file."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError) as raised:
        load(Program, path, overrides, environment)
    line = str(raised.value)
    assert "\n" not in line
    return line.replace(f"{path.parent}/", "")


def test_a_whole_file(path: Path) -> None:
    text = """
    id: 1
    host: 10.0.0.11
    insecure: true
    rack: r1
    data_dir: /var/lib/penstock
    codec: zstd
    acks: 1
    topic_defaults:
      partitions: 8
      retention.ms: -1
      ratio: 1
    configs: {max.message.bytes: 1048588, version: 3.2, cleanup.policy: compact, preallocate: false}
    inputs:
      - topic: a
        paths: [/var/log/a, "/var/log/*.json"]
      - {topic: b}
    login: {user: me, password: secret}
    """
    assert program(path, text) == Program(
        id=1,
        host="10.0.0.11",
        insecure=True,
        rack="r1",
        data_dir=Path("/var/lib/penstock"),
        codec=Codec.ZSTD,
        acks=1,
        topic_defaults=TopicDefaults(partitions=8, retention_ms=-1, ratio=1),
        configs={
            "max.message.bytes": 1_048_588,
            "version": "3.2",
            "cleanup.policy": "compact",
            "preallocate": False,
        },
        inputs=[Input(topic="a", paths=("/var/log/a", "/var/log/*.json")), Input(topic="b")],
        login=Login(user="me", password="secret"),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "topic_defaults:\n", "inputs:"])
def test_what_is_not_said_has_its_default(path: Path, text: str) -> None:
    assert program(path, text) == Program()


@pytest.mark.parametrize(
    ("written", "rack"),
    [("r1", "r1"), ("7", "7"), ("true", "true"), ('"null"', "null"), ("null", None), ("~", None)],
)
def test_where_text_is_wanted_a_scalar_is_text(path: Path, written: str, rack: str | None) -> None:
    assert program(path, f"rack: {written}").rack == rack


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("prot: 1", ":1:1: prot: unknown key; did you mean port?"),
        (
            "id: 1\ntopic_defaults:\n  retention_ms: 5",
            ":3:3: topic_defaults.retention_ms: unknown key; did you mean retention.ms?",
        ),
        (
            "inputs: [{topic: a, zzz: 1}]",
            ":1:21: inputs[0].zzz: unknown key; known keys are topic, paths",
        ),
        ("port: abc", ":1:7: port: expected a whole number from 1 to 65535, not abc"),
        ('port: "1"', ':1:7: port: expected a whole number from 1 to 65535, not "1"'),
        ("port: 0", ":1:7: port: expected a whole number from 1 to 65535, not 0"),
        ("port: 1.0", ":1:7: port: expected a whole number from 1 to 65535, not 1.0"),
        ("port: true", ":1:7: port: expected a whole number from 1 to 65535, not true"),
        ("\nport:", ":2:6: port: has no value; expected a whole number from 1 to 65535"),
        ("insecure: yes", ":1:11: insecure: expected true or false, not yes"),
        ("codec: lz5", ":1:8: codec: expected one of none, zstd, not lz5"),
        ("acks: 2", ":1:7: acks: expected one of 0, 1, all, not 2"),
        ("host: [a]", ":1:7: host: expected text, not a list"),
        ("host: {a: 1}", ":1:7: host: expected text, not a mapping"),
        ("data_dir: [a]", ":1:11: data_dir: expected a path, not a list"),
        ("inputs: a", ":1:9: inputs: expected a list, each a mapping, not a"),
        ("login: me", ":1:8: login: expected a mapping, not me"),
        ("login: {user: a}", ":1:8: login.password: is missing; expected text"),
        ("inputs:\n - topic: a\n -", ":3:3: inputs[1].topic: is missing; expected text"),
        (
            "configs: {a: [1]}",
            ":1:14: configs.a: expected a whole number or true or false or text, not a list",
        ),
        (
            "topic_defaults: {ratio: 0}",
            ":1:25: topic_defaults.ratio: expected a number above 0 to 1, not 0",
        ),
        (
            "topic_defaults: {partitions: 0}",
            ":1:30: topic_defaults.partitions: expected a whole number, 1 or more, not 0",
        ),
        ("token: short", ":1:8: token: expected text of 8 to 20 characters, not short"),
        ("host: 0.0.0.0", ":1:1: host: an address other than 127.0.0.1 needs insecure: true"),
        ("- a", ":1:1: expected a mapping of keys to values"),
        ("word", ":1:1: expected a mapping of keys to values"),
        ("id: 1\nid: 2", ":2:1: id: given twice, first at program.yaml:1:1"),
        (
            "login: {user: a, user: b}",
            ":1:18: login.user: given twice, first at program.yaml:1:9 (and 1 more)",
        ),
        ("[a]: 1", ":1:1: a key must be text"),
        ("a: &x 1", ":1:4: a: YAML's anchors (&) and aliases (*) are not supported (and 1 more)"),
        ("rack: *x", ":1:7: rack: YAML's anchors (&) and aliases (*) are not supported"),
        ("&x a: 1", ":1:1: YAML's anchors (&) and aliases (*) are not supported (and 1 more)"),
        ("id: !!int 1", ":1:5: id: YAML's tags (!) are not supported"),
        ("id: 1\n---\nid: 2", ": expected one YAML document, not several"),
        ("id: [1", ":2:1: not YAML: did not find expected ',' or ']'"),
        ("id: 1\n\tport: 2", ":2:1: not YAML: found a tab character that violates indentation"),
        (b"id: 1\nrack: \xff", ":2: not UTF-8"),
        (
            b"rack: \x00",
            ": not YAML: unacceptable character #x0000: control characters are not allowed",
        ),
        ("a: " + "[" * 50, ":1:24: more than 20 levels deep"),
        ("#" * 1_000_001, ": more than 1,000,000 bytes"),
        (
            'inputs: [{topic: a, "a\\nb\\e": 1}]',
            ":1:21: inputs[0].a\\nb\\x1b: unknown key; known keys are topic, paths",
        ),
        (
            'port: "\\n\\e[2J"',
            ':1:7: port: expected a whole number from 1 to 65535, not "\\n\\x1b[2J"',
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(path: Path, text: str | bytes, line: str) -> None:
    assert error(path, text) == f"program.yaml{line}"


SEVERAL = """\
prot: 1
id: &a nine
inputs:
  - topci: a
  - {topic: b, paths: [[x]]}
id: 3
host: 0.0.0.0
acks: 2
login: {user: me, token: x}
"""


def test_all_mistakes_of_a_file_are_listed(path: Path) -> None:
    path.write_text(SEVERAL)
    with pytest.raises(ConfigurationError) as raised:
        load(Program, path, ["port", "acks=1", "rack={a: *b}"])
    assert [line.replace(f"{path}", "") for line in raised.value.mistakes] == [
        ":2:5: id: YAML's anchors (&) and aliases (*) are not supported",
        ":6:1: id: given twice, first at :2:1",
        "--set port: expected key=value",
        "--set rack:1:5: a: YAML's anchors (&) and aliases (*) are not supported",
        ":1:1: prot: unknown key; did you mean port?",
        ":4:5: inputs[0].topci: unknown key; did you mean topic?",
        ":5:24: inputs[1].paths[0]: expected text, not a list",
        ":9:19: login.token: unknown key; known keys are user, password",
        ":9:8: login.password: is missing; expected text",
        "--set rack:1:1: rack: expected text, not a mapping",
    ]
    assert str(raised.value).endswith("(and 9 more)")
    path.write_text("".join(f"x{number}: 1\n" for number in range(5000)))
    with pytest.raises(ConfigurationError, match=r"x0: unknown key.*\(and 100 more\)") as raised:
        load(Program, path)
    assert raised.value.mistakes[-1] == "there are more mistakes: correct these first"


def test_a_long_value_is_cut(path: Path) -> None:
    assert error(path, f"port: {'9' * 5000}").endswith(f"not {'9' * 40}…")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.yaml: No such file or directory"):
        load(Program, tmp_path / "absent.yaml")
    with pytest.raises(ConfigurationError, match="Is a directory"):
        load(Program, tmp_path)


def test_a_required_key_says_what_it_is_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(Strict, None)
    expected = '"embedded", or host:port of an ensemble'
    assert str(raised.value) == f"zookeeper: is missing; expected {expected}"


def test_the_environment_is_filled_in(path: Path) -> None:
    text = 'port: ${PORT}\nid: "${ID}"\nrack: a-${RACK}-$${b}$\nconfigs: {a: "${N}"}'
    loaded = program(path, text, PORT="19092", ID="3", RACK="r{2}", N="5")
    assert loaded == Program(port=19092, id=3, rack="a-r{2}-${b}$", configs={"a": 5})


def test_the_environment_is_data_and_not_yaml(path: Path) -> None:
    assert program(path, "rack: ${R}", R="a: [*b, ${C}]").rack == "a: [*b, ${C}]"
    assert program(path, "rack: ${R}", R="null").rack == "null"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rack: ${NONE}", ":1:7: rack: the environment has no variable NONE"),
        ("rack: ${a b}", ":1:7: rack: expected ${NAME}; $${ stands for ${ itself"),
        ("rack: ${A", ":1:7: rack: expected ${NAME}; $${ stands for ${ itself"),
        ("port: ${A}", ":1:7: port: expected a whole number from 1 to 65535"),
    ],
)
def test_the_environment_is_never_shown(path: Path, text: str, line: str) -> None:
    assert error(path, text, A="hunter2") == f"program.yaml{line}"


def test_a_text_can_lie_in_a_file(path: Path) -> None:
    secret = path.with_name("secret")
    secret.write_text("hunter2:${X}\n")
    text = f"login: {{user: me, password_file: {secret}}}"
    assert program(path, text).login == Login(user="me", password="hunter2:${X}")
    text = "logins: {a: {user: me, password_file: '${DIR}/secret'}}"
    assert program(path, text, DIR=str(path.parent)).logins["a"].password == "hunter2:${X}"


def test_a_key_of_the_program_that_ends_in_file_stays_itself(path: Path) -> None:
    assert program(path, "key_file: /nowhere").key_file == "/nowhere"


def test_what_can_be_wrong_with_a_secret_file(path: Path) -> None:
    folder = path.parent
    for content, text, line in (
        (b"", "rack_file: /nowhere", ":1:12: rack_file: /nowhere: No such file or directory"),
        (b"\xff", f"rack_file: {folder}/s", ":1:12: rack_file: s: not UTF-8"),
        (b"x" * 70_000, f"rack_file: {folder}/s", ":1:12: rack_file: s: more than 65536 bytes"),
        (
            b"hunter2",
            f"rack: a\nrack_file: {folder}/s",
            ":2:1: rack_file: set either rack or rack_file, not both",
        ),
        (
            b"hunter2",
            f"token_file: {folder}/s",
            ":1:13: token_file: s: expected text of 8 to 20 characters",
        ),
        (b"", "rack_file: [a]", ":1:12: rack_file: expected the path of a file"),
    ):
        (folder / "s").write_bytes(content)
        assert error(path, text) == f"program.yaml{line}"
    assert error(path, "port_file: a").startswith("program.yaml:1:1: port_file: unknown key")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("port=19092", Program(port=19092)),
        ("rack=a=b: c", Program(rack="a=b: c")),
        ("rack=", Program(rack=None)),
        ("rack=''", Program(rack="")),
        ("rack=${R}", Program(rack="filled")),
        ("topic_defaults.retention.ms=5", Program(topic_defaults=TopicDefaults(retention_ms=5))),
        ("configs.retention.ms=5", Program(configs={"retention.ms": 5})),
        ("configs={a: true}", Program(configs={"a": True})),
        ("inputs=[{topic: x}]", Program(inputs=[Input(topic="x")])),
        ("logins.a={user: u, password: p}", Program(logins={"a": Login(user="u", password="p")})),
        ("anything=[1, a, {b: 2}]", Program(anything=[1, "a", {"b": 2}])),
    ],
)
def test_an_override_replaces_one_key(path: Path, override: str, expected: Program) -> None:
    assert program(path, "", override, R="filled") == expected


def test_overrides_lie_over_the_file_and_the_last_one_counts(path: Path) -> None:
    text = "port: 1\ntopic_defaults: {partitions: 3}\nrack_file: /nowhere\nconfigs:"
    overrides = ("port=2", "port=3", "topic_defaults.ratio=1", "rack=r", "configs.a=b")
    assert program(path, text, *overrides) == Program(
        port=3, topic_defaults=TopicDefaults(partitions=3, ratio=1.0), rack="r", configs={"a": "b"}
    )
    text = "logins: {a: {user: u, password: p}}"
    loaded = program(path, text, "logins.a.user=v", "logins.b={user: w, password: q}")
    assert loaded.logins == {"a": Login(user="v", password="p"), "b": Login(user="w", password="q")}


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("port", "--set port: expected key=value"),
        ("=1", "--set =1: expected key=value"),
        ("prot=1", "--set prot: unknown key; did you mean port?"),
        (
            "topic_defaults.retention_ms=5",
            "--set topic_defaults.retention_ms: unknown key; did you mean retention.ms?",
        ),
        ("port.x=1", "--set port.x: port has no keys of its own"),
        ("inputs.0=1", "--set inputs.0: inputs has no keys of its own"),
        ("port=abc", "--set port: port: expected a whole number from 1 to 65535, not abc"),
        ("inputs=[", "--set inputs:2:1: not YAML: did not find expected node content"),
    ],
)
def test_an_override_can_be_wrong(path: Path, override: str, line: str) -> None:
    assert error(path, "", override) == line


_YAML_BITS = st.sampled_from(
    [
        *(
            "id",
            "port",
            "inputs",
            "topic",
            "a",
            ": ",
            "- ",
            "\n",
            "  ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "1",
        ),
        *('"', "'", "&a", "*a", "!!x", "${", "|", ">", "#", "%", "?", "null", "\t", "---", "\x00"),
    ]
)


@given(
    text=st.one_of(
        st.lists(_YAML_BITS, max_size=30).map("".join).map(str.encode), st.binary(max_size=60)
    ),
    override=st.one_of(st.none(), st.text(max_size=30)),
)
def test_whatever_is_in_the_file_it_loads_or_gets_one_line(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, override: str | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "anything.yaml"
    path.write_bytes(text)
    line = "loaded"
    try:
        load(Program, path, [] if override is None else [override], {})
    except ConfigurationError as refused:
        line = str(refused)
    assert line.isprintable()
