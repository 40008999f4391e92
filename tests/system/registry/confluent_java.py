"""Confluent's own Java classes, in jars that Maven Central has: Apache Pinot ships them shaded.

They are driven from Python through py4j (which comes with PySpark), so that nothing has to be
compiled: a JRE is enough. The older of the two fails on every field of an answer that it does not
know, as many that are still in use do.
"""

import contextlib
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from py4j import java_gateway, protocol
from py4j.java_gateway import (
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)
from py4j.protocol import Py4JJavaError

CACHE = Path(__file__).resolve().parents[3] / ".cache"
_GROUP, _NAME = "org.apache.pinot", "pinot-confluent-avro"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


@dataclass(frozen=True, slots=True)
class Confluent:
    """A version of Confluent's classes, and where Pinot's jar has Apache Kafka's."""

    version: str
    pinot: str
    kafka: str


OLD = Confluent(version="5.5.3", pinot="0.11.0", kafka="org.apache.pinot.shaded.org.apache.kafka")
NEW = Confluent(version="7.9.5", pinot="1.5.0", kafka="org.apache.kafka")


class JavaUnavailable(Exception):
    """The classes cannot be had here, and why."""


@functools.cache
def jar(confluent: Confluent) -> Path:
    """The jar; copied from Maven's local repository, or downloaded. Raises JavaUnavailable."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise JavaUnavailable(f"{program} is not installed")
    name = f"{_NAME}-{confluent.pinot}-shaded.jar"
    known = CACHE / f"confluent-{confluent.version}" / name
    if known.exists():
        return known
    known.parent.mkdir(parents=True, exist_ok=True)
    # The jar alone: the poms of Pinot name repositories that it does not come from.
    artifact = f"{_GROUP}:{_NAME}:{confluent.pinot}:jar:shaded"
    with tempfile.TemporaryDirectory(dir=known.parent) as fresh:
        options = [f"-Dartifact={artifact}", f"-DoutputDirectory={fresh}"]
        command = ["mvn", "--quiet", "--batch-mode", "dependency:copy", *options]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            raise JavaUnavailable(f"Maven did not find {artifact} within 5 minutes") from None
        if run.returncode:
            lines = (run.stdout + run.stderr).strip().splitlines() or ["no output"]
            raise JavaUnavailable(f"Maven cannot resolve {artifact}: {lines[0]}")
        (Path(fresh) / name).replace(known)
    return known


class RefusedByRegistry(Exception):
    """A RestClientException: HTTP's status, the registry's code, what it said."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Java:
    """A running JVM with these classes: `with Java(OLD) as java: java.new("java.util.HashMap")`.

    What Java returns is of types that only it knows, hence Any.
    """

    def __init__(self, confluent: Confluent) -> None:
        self.confluent = confluent
        self._classpath = str(jar(confluent))

    def find(self, name: str) -> Any:
        """A class, by its full name; one of Apache Kafka's as `kafka:clients.…`."""
        prefix, _, rest = name.partition(":")
        full = self.kafka(rest) if prefix == "kafka" else name
        return functools.reduce(getattr, full.split("."), self._gateway.jvm)

    def kafka(self, name: str) -> str:
        """The full name that one of Apache Kafka's classes has here."""
        return f"{self.confluent.kafka}.{name}"

    def new(self, name: str, *arguments: Any) -> Any:
        return self.find(name)(*arguments)

    def configured(self, name: str, configuration: Mapping[str, str]) -> Any:
        """An object whose constructor takes a map of settings."""
        return self.new(name, dict(configuration))

    def __enter__(self) -> Self:
        port, token, self._process = launch_gateway(
            classpath=self._classpath,
            javaopts=list(_JVM),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        # A Spark session of this process has put its own in place, which asks Spark's JVM why.
        self._others_answers = java_gateway.get_return_value
        java_gateway.get_return_value = protocol.get_return_value
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gateway.shutdown()
        java_gateway.get_return_value = self._others_answers
        self._process.kill()
        # py4j reads its output on a thread of its own, and may have closed it by now.
        with contextlib.suppress(OSError, ValueError):
            self._process.communicate()
        self._process.wait()


def refusal(error: Py4JJavaError) -> RefusedByRegistry | None:
    """What the registry refused, if that is why Java failed."""
    cause = error.java_exception
    while cause is not None:
        if cause.getClass().getSimpleName() == "RestClientException":
            return RefusedByRegistry(cause.getStatus(), cause.getErrorCode(), cause.getMessage())
        cause = cause.getCause()
    return None
