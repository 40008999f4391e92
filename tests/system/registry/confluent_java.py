"""Confluent's own Java classes, in jars that Maven Central has: Apache Pinot ships them shaded.

The older of the two fails on every field of an answer that it does not know, as many that are
still in use do.
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
    """A version of Confluent's classes, and where Pinot's jar has Apache Kafka's."""

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
    """A RestClientException: HTTP's status, the registry's code, what it said."""

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
        """A class, by its full name; one of Apache Kafka's as `kafka:clients.…`."""
        prefix, _, rest = name.partition(":")
        return super().find(self.kafka(rest) if prefix == "kafka" else name)

    def kafka(self, name: str) -> str:
        """The full name that one of Apache Kafka's classes has here."""
        return f"{self.confluent.kafka}.{name}"

    def configured(self, name: str, configuration: Mapping[str, str]) -> Any:
        """An object whose constructor takes a map of settings."""
        return self.new(name, dict(configuration))


def refusal(error: Py4JJavaError) -> RefusedByRegistry | None:
    """What the registry refused, if that is why Java failed."""
    cause = error.java_exception
    while cause is not None:
        if cause.getClass().getSimpleName() == "RestClientException":
            return RefusedByRegistry(cause.getStatus(), cause.getErrorCode(), cause.getMessage())
        cause = cause.getCause()
    return None
