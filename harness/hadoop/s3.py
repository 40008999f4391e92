"""S3 for tests, and Hadoop's client for it.

The server is moto's (s3_server.py): all objects are in its memory. The client, S3A, comes from
Maven, without the whole SDK that it asks for: 20 MB instead of 600.
"""

import http.client
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from harness.hadoop.hadoop import VERSION
from harness.java.maven_jars import MavenJars
from harness.logins.made_secrets import made_secret
from harness.processes.server_process import (
    RunningServer,
    ServerFailed,
    ServerProcess,
    free_ports,
    http_page,
)

BUCKET: Final = "lake"
_SDK: Final = "2.35.4"  # of hadoop-project's pom
_S3A: Final = MavenJars(
    "Hadoop's S3A",
    f"hadoop-aws-{VERSION}",
    (("org.apache.hadoop", "hadoop-aws", VERSION),),
    alone=True,
)
_AWS: Final = MavenJars(
    "Amazon's SDK",
    f"s3a-aws-sdk-{_SDK}",
    (
        *(("software.amazon.awssdk", name, _SDK) for name in ("s3", "s3-transfer-manager")),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    ),
)


def s3a_jars() -> list[str] | None:
    """The jars of S3A, besides Spark's own; None if unavailable."""
    paths = _S3A.classpath, _AWS.classpath
    if None in paths:
        return None
    return [jar for path in paths if path for jar in path.split(":")]


def why_no_s3a() -> str:
    return _S3A.why_not or _AWS.why_not


class RunningS3(RunningServer):
    """An S3 with one bucket: `with RunningS3(directory) as s3`. Its `uri` is the bucket's."""

    uri = f"s3a://{BUCKET}"

    def __init__(self, directory: Path) -> None:
        (self.port,) = free_ports(1)
        self._requests = directory / "requests.log"
        self.process = ServerProcess(
            [
                sys.executable,
                "-m",
                "harness.hadoop.s3_server",
                str(self.port),
                str(self._requests),
            ],
            output=directory / "s3.log",
        )

    def ready(self) -> bool:
        return http_page(self.port, "/moto-api/")[0] != 0

    def start(self, *, within: float = 60) -> None:
        super().start(within=within)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("PUT", f"/{BUCKET}")
        status = connection.getresponse().status
        connection.close()
        if status != http.client.OK:
            raise ServerFailed(f"the bucket was not created: {status}")

    @property
    def configuration(self) -> dict[str, str]:
        """What a client of Hadoop's should set."""
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "loader",
            "fs.s3a.secret.key": made_secret("s3"),
        }

    def requests(self) -> Counter[str]:
        """The number of requests by method; LIST and COPY are methods of their own."""
        return Counter(line.split()[0] for line in self._requests.read_text().splitlines())
