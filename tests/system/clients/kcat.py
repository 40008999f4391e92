"""kcat, a program: records are written to and read from pipes.

It cannot send every record: keys and values are split at separators, a record's headers are the
same for a whole run, timestamps are its own. `can_send` tells which records it can send.
"""

import shutil
import subprocess
from typing import Unpack

from tests.system.clients.interface import (
    WITHIN,
    AtEnd,
    AtOffset,
    AtTime,
    Consumed,
    How,
    Record,
    Records,
    Refused,
    Start,
)

# Lengths come first, so that keys and values may hold any byte.
FORMAT = "%o %T %K %S %h\n%k%s\n"
BETWEEN_RECORDS, BETWEEN_KEY_AND_VALUE = b"\x1e", b"\x1f"


def installed() -> bool:
    return shutil.which("kcat") is not None


def can_send(records: Records) -> bool:
    """Tell whether one run of kcat can send these; it sends an empty key or value as a null."""
    separators = (BETWEEN_RECORDS, BETWEEN_KEY_AND_VALUE)
    return all(
        record.key != b""
        and record.value != b""
        and record.timestamp is None
        and record.headers == records[0].headers
        and not any(each in (record.key or b"") + (record.value or b"") for each in separators)
        for record in records
    )


class Kcat:
    name = "kcat"
    null_headers = True

    def produce(
        self, server: str, topic: str, partition: int, records: Records, **how: Unpack[How]
    ) -> list[int] | None:
        codec, acks = how.get("codec", "none"), how.get("acks", "all")
        idempotent = how.get("idempotent", False)
        assert can_send(records)
        between, inside = BETWEEN_RECORDS.decode(), BETWEEN_KEY_AND_VALUE.decode()
        command = ["kcat", "-P", "-b", server, "-t", topic, "-p", str(partition), "-Z"]
        command += ["-D", between, "-K", inside, "-z", codec, "-X", f"acks={acks}"]
        command += ["-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "linger.ms=20"]
        for name, value in records[0].headers:
            command += ["-H", name if value is None else f"{name}={value.decode()}"]
        stdin = BETWEEN_RECORDS.join(
            (record.key or b"") + BETWEEN_KEY_AND_VALUE + (record.value or b"")
            for record in records
        )
        _run(command, stdin)
        return None

    def consume(
        self, server: str, topic: str, partition: int, start: Start, count: int
    ) -> list[Consumed]:
        match start:
            case "beginning":
                where = "beginning"
            case AtEnd():
                where = "end"
            case AtOffset(offset):
                where = str(offset)
            case AtTime(timestamp):
                where = f"s@{timestamp}"
        command = ["kcat", "-C", "-b", server, "-t", topic, "-p", str(partition)]
        command += ["-o", where, "-c", str(count), "-u", "-f", FORMAT]
        if not isinstance(start, AtEnd):
            return _parse(_run(command, b""))
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe) as reader:
            try:
                assert reader.stderr is not None
                # kcat says so when it has found the end.
                for line in reader.stderr:
                    if line.startswith(b"% Reached end of topic"):
                        break
                start.then()
                output, _ = reader.communicate(timeout=WITHIN)
                return _parse(output)
            finally:
                reader.kill()


def _run(command: list[str], stdin: bytes) -> bytes:
    run = subprocess.run(command, input=stdin, capture_output=True, timeout=WITHIN, check=False)
    if run.returncode:
        raise Refused(run.stderr.decode())
    return run.stdout


def _parse(output: bytes) -> list[Consumed]:
    seen = []
    position = 0
    while position < len(output):
        line_end = output.index(b"\n", position)
        offset, timestamp, key_size, value_size, headers = (
            output[position:line_end].decode().split(" ", 4)
        )
        position = line_end + 1
        parts: list[bytes | None] = []
        for size in (int(key_size), int(value_size)):
            parts.append(None if size < 0 else output[position : position + size])
            position += max(size, 0)
        assert output[position : position + 1] == b"\n", output[position : position + 40]
        position += 1
        key, value = parts
        record = Record(value, key, _headers(headers), int(timestamp))
        seen.append(Consumed(int(offset), record))
    return seen


def _headers(text: str) -> tuple[tuple[str, bytes | None], ...]:
    pairs = (each.split("=", 1) for each in text.split(",") if each)
    return tuple((name, None if value == "NULL" else value.encode()) for name, value in pairs)


def list_topics(server: str) -> str:
    """Return what `kcat -L` prints about the cluster."""
    return _run(["kcat", "-L", "-b", server], b"").decode()
