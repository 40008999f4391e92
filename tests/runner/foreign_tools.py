"""`python -m tests.runner.foreign_tools`: the programs that tests put beside Penstock.

Run before the tests, which would wait for downloads, and for archives of Java's classes. Prints a
line for each.
"""

import shutil

from bench.peers import PEERS
from cluster.errors import EmbeddedError
from cluster.zookeeper_server.jars import DEBIAN_JARS, find_class_path, find_java
from harness.hadoop.hadoop import HDFS_JARS
from harness.hadoop.hadoop import VERSION as HADOOP
from harness.hadoop.s3 import s3a_jars, why_no_s3a
from harness.hadoop.spark_jvm import quick_java
from harness.hosts.systemd_process import SYSTEMD, why_no_systemd
from harness.java.maven_jars import JarsUnavailable
from harness.java.tlc import VERSION as TLC
from harness.java.tlc import tlc_classpath, why_no_tlc
from harness.kafka.apache_kafka import (
    NEWEST,
    VERSION,
    archived_classes,
    kafka_classpath,
    why_no_kafka,
)
from harness.kafka.kafka_connect import connect_classpath, why_no_connect
from harness.kafka.mirror_maker import mirror_maker_classpath, why_no_mirror_maker
from harness.kafka.spark_kafka import JARS as SPARK_KAFKA
from harness.kafka.spark_kafka import VERSION as SPARK
from tests.audit.page.browsing import AXE
from tests.fixtures.kerberos import why_no_kerberos
from tests.system.other_languages.programs import (
    FRANZ_GO,
    KAFKA_GO,
    KAFKAJS,
    RSKAFKA,
    SARAMA,
    Client,
    ClientUnavailable,
    node_modules,
)
from tests.system.registry.confluent_java import NEW, OLD, jar


def _java_and_zookeeper() -> str:
    try:
        java = find_java()
        find_class_path()
    except EmbeddedError as error:
        return f"skipped, with all that needs a cluster: {error}"
    return str(java)


def _found(program: str, package: str) -> str:
    return shutil.which(program) or f"its tests are skipped: apt install {package}"


def _debian_zookeeper() -> str:
    jar = DEBIAN_JARS / "zookeeper.jar"
    return str(jar) if jar.exists() else "its tests are skipped: apt install zookeeper"


def _apache_kafka() -> str:
    for version in (VERSION, NEWEST):
        if kafka_classpath(version) is None:
            return f"its tests are skipped: {why_no_kafka(version)}"
    return f"{VERSION} and {NEWEST}, by Maven"


def _mirror_maker() -> str:
    if mirror_maker_classpath() is None:
        return f"not measured beside: {why_no_mirror_maker()}"
    return f"{VERSION}, by Maven"


def _kafka_connect() -> str:
    for version in (VERSION, NEWEST):
        if connect_classpath(version) is None:
            return f"its tests are skipped: {why_no_connect(version)}"
    return f"{VERSION} and {NEWEST}, by Maven"


def _spark_kafka() -> str:
    if SPARK_KAFKA.classpath is None:
        return f"its tests are skipped: {SPARK_KAFKA.why_not}"
    return f"{SPARK}, by Maven"


def _confluent() -> str:
    try:
        for confluent in (OLD, NEW):
            jar(confluent)
    except JarsUnavailable as why:
        return f"its tests are skipped: {why}"
    return f"{OLD.version} and {NEW.version}, by Maven"


def _client(client: Client, package: str) -> str:
    try:
        client.program("write")
    except ClientUnavailable as why:
        return f"its tests are skipped: {why} (apt install {package})"
    return f"{client.version}, {client.made}"


def _axe() -> str:
    try:
        return str(node_modules(AXE))
    except ClientUnavailable as why:
        return f"its tests are skipped: {why} (apt install nodejs npm)"


def _peers() -> str:
    here = [name for name, peer in PEERS.items() if peer.why_not() is None]
    return ", ".join(here) or "none"


def _kerberos() -> str:
    why = why_no_kerberos()
    return f"its tests are skipped: {why}" if why else "krb5kdc"


def _hadoop() -> str:
    if HDFS_JARS.classpath is None:
        return f"its tests are skipped: {HDFS_JARS.why_not}"
    return f"{HADOOP}, by Maven"


def _s3a() -> str:
    if s3a_jars() is None:
        return f"its tests are skipped: {why_no_s3a()}"
    return f"{HADOOP}, by Maven"


def _tlc() -> str:
    if tlc_classpath() is None:
        return f"its tests are skipped: {why_no_tlc()}"
    return f"{TLC}, by Maven"


def _systemd() -> str:
    why = why_no_systemd()
    return f"its tests are skipped: {why}" if why else str(SYSTEMD)


def _class_archives() -> str:
    """Half a minute each, once in a checkout."""
    made = {"Spark": quick_java()}
    if kafka_classpath(VERSION) is not None:
        made[f"Apache Kafka {VERSION}"] = " ".join(archived_classes(VERSION))
    return ", ".join(name for name, java in made.items() if "SharedArchiveFile" in java) or "none"


def main() -> None:
    print(f"java          {_java_and_zookeeper()}")
    print(f"kcat          {_found('kcat', 'kcat')}")
    print(f"chromium      {_found('chromium', 'chromium')}")
    print(f"axe-core      {_axe()}")
    print(f"promtool      {_found('promtool', 'prometheus')}")
    found = _found("prometheus-alertmanager", "prometheus-alertmanager")
    print(f"alertmanager  {found}")
    print(f"log shippers  {_peers()}")
    print(f"valgrind      {_found('valgrind', 'valgrind')}")
    print(f"C compiler    {_found('cc', 'gcc libc6-dev')}")
    print(f"rpmbuild      {_found('rpmbuild', 'rpm')}")
    print(f"systemd       {_systemd()}")
    print(f"kerberos      {_kerberos()}")
    print(f"zookeeper     {_debian_zookeeper()}")
    print(f"apache kafka  {_apache_kafka()}")
    print(f"connect       {_kafka_connect()}")
    print(f"MirrorMaker   {_mirror_maker()}")
    print(f"spark's kafka {_spark_kafka()}")
    print(f"franz-go      {_client(FRANZ_GO, 'golang-go')}")
    print(f"sarama        {_client(SARAMA, 'golang-go')}")
    print(f"kafka-go      {_client(KAFKA_GO, 'golang-go')}")
    print(f"rskafka       {_client(RSKAFKA, 'cargo')}")
    print(f"kafkajs       {_client(KAFKAJS, 'nodejs npm')}")
    print(f"hadoop        {_hadoop()}")
    print(f"s3a           {_s3a()}")
    print(f"tlc           {_tlc()}")
    print(f"confluent     {_confluent()}")
    print(f"java classes  {_class_archives()}")


if __name__ == "__main__":
    main()
