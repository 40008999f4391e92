"""Members of groups that use foreign clients, each in a thread or a process.

A member reads its partitions, commits what it has read, and records both in its history. `stopped`
means that it has left the group, `killed` that it ended without leaving.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import msgspec
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from harness.kafka.apache_kafka import QUICK_JVM, VERSION, java_command
from harness.processes.event_loops import on_event_loop
from tests.system.groups.history import WITHIN, History
from tests.system.other_languages.programs import Client

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka
    from kafka.errors import KafkaError

SESSION_MS = 6_000


class Life(msgspec.Struct, frozen=True):
    """The life of the member called `name`; over when `end` is set."""

    bootstrap: str
    group: str
    topic: str
    name: str
    history: History
    end: threading.Event
    session_ms: int

    def read(self, value: bytes) -> None:
        self.history.read(self.name, value)


Member = Callable[[Life], None]
"""Runs until it is stopped."""

Note = Callable[[History, str, bytes], None]
"""Tells the history what a member, by its name, has said in a line."""


def librdkafka(**settings: object) -> Member:
    def run(life: Life) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": life.bootstrap,
                "group.id": life.group,
                "client.id": life.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": life.session_ms,
                "heartbeat.interval.ms": 500,
                **settings,
            }
        )
        consumer.subscribe([life.topic])
        try:
            while not life.end.is_set():
                found = [each for each in consumer.consume(500, 0.1) if each.error() is None]
                for message in found:
                    life.read(message.value())
                read = {each.partition(): each.offset() + 1 for each in found}
                offsets = [
                    confluent_kafka.TopicPartition(life.topic, *each) for each in read.items()
                ]
                if not offsets:
                    continue
                with contextlib.suppress(confluent_kafka.KafkaException):
                    for each in consumer.commit(offsets=offsets, asynchronous=False):
                        if each.error is None:
                            life.history.acknowledged(each.partition, each.offset)
        finally:
            consumer.close()

    return run


def kafka_python(life: Life) -> None:
    consumer = kafka.KafkaConsumer(
        life.topic,
        bootstrap_servers=life.bootstrap,
        group_id=life.group,
        client_id=life.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=life.session_ms,
        heartbeat_interval_ms=500,
    )
    try:
        while not life.end.is_set():
            found: dict[Any, Any] = {}
            with contextlib.suppress(KafkaError):  # it tells of brokers that are gone
                found = consumer.poll(100)
            for partition, records in found.items():
                for record in records:
                    life.read(record.value)
                offset = records[-1].offset + 1
                with contextlib.suppress(KafkaError):
                    consumer.commit({partition: kafka.OffsetAndMetadata(offset, "", -1)})
                    life.history.acknowledged(partition.partition, offset)
    finally:
        consumer.close(autocommit=False)


@on_event_loop
async def aio(life: Life) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        life.topic,
        bootstrap_servers=life.bootstrap,
        group_id=life.group,
        client_id=life.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=life.session_ms,
        heartbeat_interval_ms=500,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    await consumer.start()
    try:
        while not life.end.is_set():
            for partition, records in (await consumer.getmany(timeout_ms=100)).items():
                for record in records:
                    life.read(record.value)
                offset = records[-1].offset + 1
                with contextlib.suppress(aiokafka.errors.KafkaError):
                    await consumer.commit({partition: offset})
                    life.history.acknowledged(partition.partition, offset)
    finally:
        await consumer.stop()


class Members:
    """The members of one group; the remaining ones are stopped at the end."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        history: History,
        *,
        session_ms: int = SESSION_MS,
    ) -> None:
        self._session_ms = session_ms
        self._where = bootstrap, group, topic
        self._history = history
        self._threads: dict[str, tuple[threading.Event, threading.Thread]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._readers: list[threading.Thread] = []

    def start(self, name: str, member: Member) -> None:
        end = threading.Event()
        life = Life(*self._where, name, self._history, end, self._session_ms)
        thread = threading.Thread(target=member, args=(life,), name=name)
        self._threads[name] = end, thread
        thread.start()

    def start_process(
        self,
        name: str,
        command: Sequence[str],
        note: Note,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """A process that reports line by line, in a form that `note` understands."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._processes[name] = process
        arguments = name, process, note
        reader = threading.Thread(target=self._lines, args=arguments, name=name)
        self._readers.append(reader)
        reader.start()

    def start_program(
        self, name: str, client: Client, balancer: str = "", instance: str = ""
    ) -> None:
        """A member in another language; raises ClientUnavailable."""
        command = client.program("member")
        settings = (*self._where, str(self._session_ms), balancer, instance)
        self.start_process(name, [*command.words, *settings], note_words, command.environment)

    def start_verifiable(
        self,
        name: str,
        directory: Path,
        *,
        version: str = VERSION,
        assignor: str = "RangeAssignor",
        instance: str = "",
    ) -> None:
        """Kafka's own test member."""
        bootstrap, group, topic = self._where
        arguments = [
            *("--bootstrap-server", bootstrap, "--group-id", group, "--topic", topic),
            *("--session-timeout", str(self._session_ms), "--reset-policy", "earliest"),
            *("--assignment-strategy", f"org.apache.kafka.clients.consumer.{assignor}"),
            *(("--group-instance-id", instance) if instance else ()),
            "--verbose",
        ]
        tool = "org.apache.kafka.tools.VerifiableConsumer"
        command = java_command(
            tool, *arguments, directory=directory, jvm=QUICK_JVM, version=version
        )
        self.start_process(name, command, note_json)

    def stop(self, name: str) -> None:
        if name in self._threads:
            end, thread = self._threads.pop(name)
            end.set()
            thread.join(WITHIN)
            assert not thread.is_alive(), f"{name} has not ended"
        else:
            process = self._processes.pop(name)
            process.terminate()
            process.wait(WITHIN)

    def freeze(self, name: str) -> None:
        os.kill(self._processes[name].pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        os.kill(self._processes[name].pid, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """End it without leaving the group."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(WITHIN)

    @contextlib.contextmanager
    def all_stopped(self) -> Iterator[None]:
        try:
            yield
        finally:
            for end, _ in self._threads.values():
                end.set()
            for process in self._processes.values():
                process.send_signal(signal.SIGCONT)
            for name in [*self._threads, *self._processes]:
                self.stop(name)
            for reader in self._readers:
                reader.join(WITHIN)

    def _lines(self, name: str, process: "subprocess.Popen[bytes]", note: Note) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                note(self._history, name, line.rstrip(b"\n"))


def note_words(history: History, name: str, line: bytes) -> None:
    """The form of the programs in other languages."""
    said, *rest = line.split()
    if said == b"read":
        history.read(name, *rest)
    else:
        history.acknowledged(*map(int, rest))


def note_json(history: History, name: str, line: bytes) -> None:
    """The form of kafka-verifiable-consumer."""
    said = json.loads(line)
    if said["name"] == "record_data":
        history.read(name, said["value"].encode())
    elif said["name"] == "offsets_committed" and said["success"]:
        for each in said["offsets"]:
            history.acknowledged(each["partition"], each["offset"])


def member_named(kind: str) -> Member:
    found: dict[str, Any] = {
        "librdkafka": librdkafka(),
        "cooperative": librdkafka(**{"partition.assignment.strategy": "cooperative-sticky"}),
        "kafka-python": kafka_python,
        "aiokafka": aio,
    }
    member: Member = found[kind]
    return member
