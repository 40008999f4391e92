"""Confluent's Java classes, from jars on Maven Central: Apache Pinot publishes them shaded.

The older version fails on unknown fields in an answer, as many versions in use do.
"""

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError

from harness.java.jvm import Jvm
from harness.java.maven_jars import CACHE, needs_maven, run_maven

_GROUP, _NAME = "org.apache.pinot", "pinot-confluent-avro"


class Confluent(msgspec.Struct, frozen=True):
    """A version of Confluent's classes, and the prefix of Apache Kafka's in Pinot's jar."""

    version: str
    pinot: str
    kafka: str


OLD = Confluent(version="5.5.3", pinot="0.11.0", kafka="org.apache.pinot.shaded.org.apache.kafka")
NEW = Confluent(version="7.9.5", pinot="1.5.0", kafka="org.apache.kafka")


@functools.cache
def jar(confluent: Confluent) -> Path:
    """The jar; copied from Maven's local repository, or downloaded. Raises JarsUnavailable."""
    needs_maven()
    name = f"{_NAME}-{confluent.pinot}-shaded.jar"
    known = CACHE / f"confluent-{confluent.version}" / name
    if known.exists():
        return known
    known.parent.mkdir(parents=True, exist_ok=True)
    # The jar alone: the poms of Pinot name repositories that it does not come from.
    artifact = f"{_GROUP}:{_NAME}:{confluent.pinot}:jar:shaded"
    with tempfile.TemporaryDirectory(dir=known.parent) as fresh:
        options = [f"-Dartifact={artifact}", f"-DoutputDirectory={fresh}"]
        run_maven(artifact, "dependency:copy", *options)
        (Path(fresh) / name).replace(known)
    return known


class RefusedByRegistry(Exception):
    """A RestClientException: HTTP status, the registry's code, and the message."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Java(Jvm):
    """A running JVM with these classes: `with Java(OLD) as java: java.new("java.util.HashMap")`."""

    def __init__(self, confluent: Confluent) -> None:
        super().__init__(str(jar(confluent)))
        self.confluent = confluent

    def find(self, name: str) -> Any:
        """A class by its full name; Apache Kafka's as `kafka:clients.…`."""
        prefix, _, rest = name.partition(":")
        return super().find(self.kafka(rest) if prefix == "kafka" else name)

    def kafka(self, name: str) -> str:
        """The full name that one of Apache Kafka's classes has in the jar."""
        return f"{self.confluent.kafka}.{name}"

    def configured(self, name: str, configuration: Mapping[str, str]) -> Any:
        """An object whose constructor takes a map of settings."""
        return self.new(name, dict(configuration))


def refusal(error: Py4JJavaError) -> RefusedByRegistry | None:
    """The registry's error, if Java failed because of one."""
    cause = error.java_exception
    while cause is not None:
        if cause.getClass().getSimpleName() == "RestClientException":
            return RefusedByRegistry(cause.getStatus(), cause.getErrorCode(), cause.getMessage())
        cause = cause.getCause()
    return None
