"""The files that a ZooKeeper server is started with, as text. Their paths are relative to the
server's directory.

The server logs warnings to `zookeeper.log`, at most four files of a megabyte, through the logging
library that its jars include. Messages of `ServerCnxn` are suppressed: it logs an error with a
trace for each status request while it starts.
"""

from pathlib import Path
from typing import Final

from cluster.zookeeper_server.config import ZooKeeperConfig
from ground.network.listening import is_everywhere

DATA: Final = "data"
LOG: Final = "zookeeper.log"
CONSOLE: Final = "console.log"  # the server's output before, or instead of, its log
SERVER_CONFIG: Final = "./zoo.cfg"

_NOISY: Final = "org.apache.zookeeper.server.ServerCnxn"
_LOG4J2: Final = "log4j2.properties"
_LOG4J1: Final = "log4j.properties"
_LOGBACK: Final = "logback.xml"

MY_ID: Final = "myid"

# TieredStopAtLevel halves the time to start.
JAVA_OPTIONS: Final = (
    "-Xms16m",
    "-Xmx512m",  # 128 MB were too few for 100,000 offsets
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xss256k",  # with 1 MB each, the stacks took 8 MB more memory
    "-Dzookeeper.preAllocSize=1024",  # KiB by which the transaction log's files grow
    f"-Dlog4j2.configurationFile={_LOG4J2}",
    f"-Dlog4j.configuration=file:{_LOG4J1}",
    f"-Dlogback.configurationFile={_LOGBACK}",
)


def server_config(host: str, port: int) -> str:
    """A zoo.cfg. Sessions may be as short as a second, since this server is near; the tick, the
    step in which sessions end, is short to match."""
    settings = {
        "dataDir": f"./{DATA}",
        "clientPortAddress": host,
        "clientPort": str(port),
        "tickTime": "500",
        "minSessionTimeout": "1000",
        "maxSessionTimeout": "60000",
        "maxClientCnxns": "1000",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,srvr",
        "autopurge.purgeInterval": "1",
        "autopurge.snapRetainCount": "3",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def configured(config: ZooKeeperConfig) -> str:
    """A zoo.cfg for a configured server, with its ensemble and TLS."""
    text = server_config(config.host, config.port)
    if config.servers:
        # In ticks, which are short.
        text += "initLimit=40\nsyncLimit=20\n"
        if is_everywhere(config.host):
            text += "quorumListenOnAllIPs=true\n"
        text += "".join(server.line for server in config.servers)
    if config.tls is not None:
        text = text.replace("clientPort", "secureClientPort")
        text += _tls_settings(config.tls.certificate, config.tls.ca, among=bool(config.servers))
    return text


def _tls_settings(certificate: str, ca: str, *, among: bool) -> str:
    """TLS settings. Names of clients do not resolve, so they are not verified; those of servers
    are."""
    files = {
        "keyStore.location": str(Path(certificate).absolute()),
        "keyStore.type": "PEM",
        "trustStore.location": str(Path(ca).absolute()),
        "trustStore.type": "PEM",
        "clientAuth": "need",
    }
    settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        **{f"ssl.{key}": value for key, value in files.items()},
        "ssl.hostnameVerification": "false",
        "client.certReload": "true",
    }
    if among:
        settings |= {
            "sslQuorum": "true",
            **{f"ssl.quorum.{key}": value for key, value in files.items()},
            "ssl.quorum.hostnameVerification": "true",
            "sslQuorumReloadCertFiles": "true",
        }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def logging_files() -> dict[str, str]:
    """File names and contents, for each logging library that the jars may include."""
    return {
        _LOG4J2: f"""\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {LOG}
appender.file.filePattern = {LOG}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}} %m%n
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 1MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.connection.name = {_NOISY}
logger.connection.level = off
""",
        _LOG4J1: f"""\
log4j.rootLogger=WARN, file
log4j.logger.{_NOISY}=OFF
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File={LOG}
log4j.appender.file.MaxFileSize=1MB
log4j.appender.file.MaxBackupIndex=3
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %c{{1}} %m%n
""",
        _LOGBACK: f"""\
<configuration>
  <appender name="file" class="ch.qos.logback.core.rolling.RollingFileAppender">
    <file>{LOG}</file>
    <rollingPolicy class="ch.qos.logback.core.rolling.FixedWindowRollingPolicy">
      <fileNamePattern>{LOG}.%i</fileNamePattern>
      <maxIndex>3</maxIndex>
    </rollingPolicy>
    <triggeringPolicy class="ch.qos.logback.core.rolling.SizeBasedTriggeringPolicy">
      <maxFileSize>1MB</maxFileSize>
    </triggeringPolicy>
    <encoder><pattern>%d %p %c{{0}} %m%n</pattern></encoder>
  </appender>
  <logger name="{_NOISY}" level="OFF"/>
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
""",
    }
