"""`penstock produce` and `penstock consume`, against a running broker."""

import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.penstock.running import REPOSITORY, At, running
from tests.penstock.terminals import on_a_terminal

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def all_of(topic: str) -> list[str]:
    return ["consume", topic, "--from", "beginning", "--to-end"]


@pytest.mark.parametrize(
    ("codec", "acks"), [*((codec, "all") for codec in CODECS), ("zstd", "1"), ("none", "0")]
)
def test_lines_in_lines_out(at: At, new_topic: str, codec: str, acks: str) -> None:
    lines = "".join(f"line {number} ü\t\x00\n" for number in range(1000)) + "\nno newline"
    at.output("topics", "create", new_topic)
    sending = ["produce", new_topic, "--codec", codec, "--acks", acks, "--batch", "3000"]
    assert at.output(*sending, stdin=lines) == ""
    received = at.output("consume", new_topic, "--from", "beginning", "--count", "1002")
    assert received == lines + "\n"


def test_a_file_is_sent(at: At, new_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\r\n\xff\xfe\n" * 3)
    said = at.json("produce", new_topic, "--file", str(path))
    assert said == {
        "topic": new_topic,
        "messages": 6,
        "partitions": {"0": {"first": 0, "last": 5}},
    }
    run = subprocess.run(at.arguments(*all_of(new_topic)), capture_output=True, check=True)
    assert run.stdout == path.read_bytes()


def test_nothing_in_nothing_out(at: At, new_topic: str) -> None:
    assert at.json("produce", new_topic) == {"topic": new_topic, "messages": 0, "partitions": {}}
    assert at.output(*all_of(new_topic)) == ""


def test_keys(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic, "--partitions", "3")
    at.output("produce", new_topic, "--key-separator", "::", stdin="k1::a\nk2::b::c\nk1::\n")
    documents = at.json(*all_of(new_topic))
    assert {(each["key"], each["value"]) for each in documents} == {
        ("k1", "a"),
        ("k2", "b::c"),
        ("k1", ""),
    }
    assert len({each["partition"] for each in documents if each["key"] == "k1"}) == 1
    printed = at.output(*all_of(new_topic), "--key-separator", "=")
    assert sorted(printed.splitlines()) == ["k1=", "k1=a", "k2=b::c"]
    ended = at.run("produce", new_topic, "--key-separator", ":", stdin="no key\n")
    assert (ended.returncode, ended.stderr) == (1, "penstock: no ':' in the line 'no key'\n")


def test_json_holds_all_there_is(at: At, new_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\xff")
    before = time.time_ns() // 1_000_000
    at.output("produce", new_topic, "--file", str(path))
    document = at.json(*all_of(new_topic))
    assert before <= document.pop("timestamp") <= time.time_ns() // 1_000_000
    assert document == {
        "partition": 0,
        "offset": 0,
        "key": None,
        "value_base64": "/w==",
        "headers": [],
    }


def test_where_reading_begins_and_ends(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic, "--partitions", "2")
    for partition in ("0", "1"):
        lines = "".join(f"{partition}{number}\n" for number in range(5))
        at.output("produce", new_topic, "--partition", partition, stdin=lines)
    one = ["consume", new_topic, "--partition", "1", "--to-end"]
    assert at.output(*one, "--from", "3") == "13\n14\n"
    assert at.output(*one, "--from", "beginning", "--count", "2") == "10\n11\n"
    assert at.output(*one, "--from", "end") == ""
    assert at.output(*one, "--from", "2001-01-01T00:00:00Z", "--count", "1") == "10\n"
    assert at.output(*one, "--from", "2099-01-01") == ""
    assert sorted(at.output(*all_of(new_topic)).split()) == [
        f"{partition}{number}" for partition in (0, 1) for number in range(5)
    ]
    beyond = at.run("consume", new_topic, "--partition", "1", "--from", "9")
    assert beyond.returncode == 1
    assert beyond.stderr == f"penstock: {new_topic}-1: offset 9 is not there (any more)\n"


def test_what_does_not_exist(at: At, new_topic: str) -> None:
    ended = at.run("consume", new_topic)
    assert (ended.returncode, ended.stderr) == (1, f"penstock: no topic {new_topic}\n")
    at.output("topics", "create", new_topic)
    for command in ("consume", "produce"):
        ended = at.run(command, new_topic, "--partition", "7", stdin="x\n")
        said = f"penstock: topic {new_topic}: it has no partition 7, only 0 to 0\n"
        assert (ended.returncode, ended.stderr) == (1, said)


def test_a_line_is_through_before_the_input_ends(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic)
    with (
        running(at.arguments("consume", new_topic, "--from", "beginning")) as consumer,
        running(at.arguments("produce", new_topic)) as producer,
    ):
        assert producer.stdin is not None
        assert consumer.stdout is not None
        for line in (b"one\n", b"two\n"):
            producer.stdin.write(line)
            producer.stdin.flush()
            assert select.select([consumer.stdout], [], [], 60)[0]
            assert os.read(consumer.stdout.fileno(), 100) == line
        producer.stdin.close()
        assert producer.wait(60) == 0


def test_ctrl_c_is_quiet(at: At, new_topic: str) -> None:
    at.output("produce", new_topic, stdin="x\n")
    with running(at.arguments("consume", new_topic, "--from", "beginning")) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(2) == b"x\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_a_reader_that_goes_away_is_no_error(at: At, new_topic: str) -> None:
    at.output("produce", new_topic, stdin="a line\n" * 100_000)
    with running(at.arguments(*all_of(new_topic))) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(7) == b"a line\n"
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


def test_a_message_cannot_command_the_terminal(at: At, new_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\x1b[2Jb\xff\tc\n")
    at.output("produce", new_topic, "--file", str(path))
    assert on_a_terminal(at.arguments(*all_of(new_topic))) == "a\\x1b[2Jb\\xff\tc\r\n"


def test_on_a_terminal_a_table_is_drawn(at: At, new_topic: str) -> None:
    at.output("topics", "create", new_topic)
    drawn = on_a_terminal(at.arguments("topics", "describe", new_topic))
    assert "─" in drawn
    assert "partition" in drawn


def test_on_a_terminal_producing_ends_with_a_summary(at: At, new_topic: str) -> None:
    said = on_a_terminal(at.arguments("produce", new_topic))
    assert said.startswith(f"0 messages to {new_topic} in ")


def test_whoever_types_messages_is_told_how_to_end(at: At, new_topic: str) -> None:
    terminal, ours = pty.openpty()
    os.write(terminal, b"typed\n\x04")
    ended = subprocess.run(
        at.arguments("produce", new_topic),
        stdin=ours,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    os.close(terminal)
    os.close(ours)
    said = "Each line is sent as it is typed; Ctrl-D ends.\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", said)
    assert at.output(*all_of(new_topic)) == "typed\n"
