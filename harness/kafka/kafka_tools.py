"""Apache Kafka's command-line tools. Many runs share one JVM, so that none takes a second.

A tool's exit function is replaced by an error, its shutdown hooks run after it, and its output is
captured. Tools that catch every error report this one, too.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

from py4j.protocol import Py4JJavaError

from harness.java.jvm import Jvm
from harness.kafka.apache_kafka import VERSION, KafkaUnavailable, kafka_classpath, why_no_kafka

# By script name. Some have moved since.
_MAINS: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
}
_WERE: Final = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
}
# Options have NEWEST's names; it warns about the older ones.
_OPTIONS_WERE: Final = {
    ("kafka-console-consumer", "--command-config"): "--consumer.config",
    ("kafka-console-consumer", "--formatter-property"): "--property",
    ("kafka-console-producer", "--command-config"): "--producer.config",
    ("kafka-console-producer", "--reader-property"): "--property",
}
_EXIT: Final = "org.apache.kafka.common.utils.Exit"


class Ended(NamedTuple):
    """A tool's exit status and standard output, and its standard error together with its log."""

    status: int
    output: str
    complaints: str

    @property
    def said(self) -> str:
        return self.output + self.complaints


class KafkaTools:
    """One release's tools: `with KafkaTools(NEWEST) as tools: tools.run("kafka-topics",
    "--list")`."""

    def __init__(self, version: str = VERSION) -> None:
        classpath = kafka_classpath(version)
        if classpath is None:
            raise KafkaUnavailable(why_no_kafka(version))
        self.version = version
        self._jvm = Jvm(classpath)

    @property
    def java(self) -> Jvm:
        """The JVM in which the tools run; it also has Kafka's own client."""
        return self._jvm

    def __enter__(self) -> Self:
        self._jvm.__enter__()
        self._statuses, self._hooks = self._list(), self._list()
        self._system = self._jvm.find("java.lang.System")
        self._output, self._complaints = (
            self._kept(set_stream) for set_stream in (self._system.setOut, self._system.setErr)
        )
        self._log_to_standard_error()
        self._keep_running()
        return self

    def __exit__(self, *_: object) -> None:
        self._jvm.__exit__()

    def run(self, script: str, *arguments: str, stdin: str = "") -> Ended:
        """Runs a tool to its end; the caller judges the outcome."""
        self._output.reset()
        self._complaints.reset()
        del self._statuses[:]
        del self._hooks[:]
        input_stream = self._jvm.new("java.io.ByteArrayInputStream", stdin.encode())
        self._system.setIn(input_stream)
        main_class, options = _MAINS[script], list(arguments)
        if self.version == VERSION:
            main_class = _WERE.get(script, main_class)
            options = [_OPTIONS_WERE.get((script, argument), argument) for argument in arguments]
        try:
            self._jvm.find(main_class).main(self._jvm.array("java.lang.String", *options))
        except Py4JJavaError as error:
            # Like a JVM of its own: an uncaught exception is printed and ends it with 1.
            self._system.err.println(str(error.java_exception))
            self._statuses.append(1)
        for hook in self._hooks:
            hook.run()
        # A tool may continue after it has set a status, and set another.
        status = self._statuses[0] if self._statuses else 0
        return Ended(status, self._output.toString("UTF-8"), self._complaints.toString("UTF-8"))

    def allow_tokens_from(self, *urls: str) -> None:
        """Allows tokens from these URLs, since Kafka's clients accept only listed ones."""
        name = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
        self._system.setProperty(name, ",".join(urls))

    def _kept(self, set_stream: Callable[[Any], None]) -> Any:
        """Replaces one of the system's streams; returns the captured bytes."""
        content = self._jvm.new("java.io.ByteArrayOutputStream")
        set_stream(self._jvm.new("java.io.PrintStream", content, True, "UTF-8"))
        return content

    def _list(self) -> Any:
        return self._jvm.new("java.util.ArrayList")

    def _log_to_standard_error(self) -> None:
        log4j = "org.apache.log4j"
        layout = self._jvm.new(f"{log4j}.SimpleLayout")
        appender = self._jvm.new(f"{log4j}.ConsoleAppender", layout, "System.err")
        self._jvm.find(f"{log4j}.BasicConfigurator").configure(appender)
        warn_level = self._jvm.find(f"{log4j}.Level").WARN
        self._jvm.find(f"{log4j}.Logger").getRootLogger().setLevel(warn_level)

    def _keep_running(self) -> None:
        """Replaces the functions that end the process by method handles of Java's own classes:
        classes of ours would need compiling."""
        handles = self._jvm.find("java.lang.invoke.MethodHandles")
        method = self._jvm.find("java.lang.invoke.MethodType").methodType
        class_of = self._jvm.find("java.lang.Class").forName
        boolean_type, void_type = (
            self._jvm.find(f"java.lang.{name}").TYPE for name in ("Boolean", "Void")
        )
        object_type, string_type = class_of("java.lang.Object"), class_of("java.lang.String")
        add = handles.publicLookup().findVirtual(
            class_of("java.util.ArrayList"), "add", method(boolean_type, object_type)
        )
        error = class_of("java.lang.Error")
        end_error = self._jvm.new("java.lang.Error", "the tool has ended")
        end = handles.throwException(void_type, error).bindTo(end_error)

        note_status = handles.dropArguments(add.bindTo(self._statuses), 1, [string_type])
        note_and_end = handles.filterReturnValue(
            note_status, handles.dropArguments(end, 0, [boolean_type])
        )
        hook = handles.dropArguments(add.bindTo(self._hooks), 0, [string_type])

        as_interface = self._jvm.find("java.lang.invoke.MethodHandleProxies").asInterfaceInstance
        exit_class = self._jvm.find(_EXIT)
        procedure = as_interface(class_of(f"{_EXIT}$Procedure"), note_and_end)
        exit_class.setExitProcedure(procedure)
        exit_class.setHaltProcedure(procedure)
        exit_class.setShutdownHookAdder(as_interface(class_of(f"{_EXIT}$ShutdownHookAdder"), hook))
