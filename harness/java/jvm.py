"""Drives Java classes from Python through py4j, which comes with PySpark.

Nothing needs compiling: a JRE is enough. Java's return values have types that only Java knows,
hence `Any`; its exceptions are `Py4JJavaError`s.
"""

import contextlib
import functools
import tempfile
from collections.abc import Sequence
from typing import Any, Self

from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)


class Jvm:
    """A running JVM: `with Jvm(classpath) as java: java.new("java.util.HashMap")`."""

    def __init__(self, classpath: str, *, options: Sequence[str] = ()) -> None:
        """`options` are further JVM options; of conflicting ones, the later applies."""
        self._classpath = classpath
        self._options = [*_OPTIONS, *options]

    def find(self, name: str) -> Any:
        """Returns a class by its full name."""
        return functools.reduce(getattr, name.split("."), self._gateway.jvm)

    def new(self, name: str, *arguments: Any) -> Any:
        return self.find(name)(*arguments)

    def array(self, name: str, *elements: Any) -> Any:
        """Returns an array, for a varargs method."""
        new_array = self._gateway.new_array(self.find(name), len(elements))
        for index, element in enumerate(elements):
            new_array[index] = element
        return new_array

    def __enter__(self) -> Self:
        # Libraries unpack files, and leave them behind when they are killed.
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        port, token, self._process = launch_gateway(
            classpath=self._classpath,
            javaopts=[f"-Djava.io.tmpdir={self._folder.name}", *self._options],
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        # A Spark session in this process replaces it with one that asks Spark's JVM for errors.
        self._others_answers = java_gateway.get_return_value
        java_gateway.get_return_value = protocol.get_return_value
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()
        java_gateway.get_return_value = self._others_answers
        self._process.kill()
        # py4j reads its output on its own thread, and may have closed it by now.
        with contextlib.suppress(OSError, ValueError):
            self._process.communicate()
        self._process.wait()
        self._folder.cleanup()
