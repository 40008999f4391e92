"""The how-to on an existing Apache Kafka, followed by a reader in a folder of his own.

Files and commands are the page's; addresses and directories are filled in, and times are short, so
that no test waits for the end of a minute's window.
"""

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
import yaml

from audit.api.answers import ReportAnswer, TopicReport
from harness.hadoop.spark_jvm import quick_java
from harness.processes.server_process import free_ports
from tests.docs.pages import ROOT, blocks_of
from tests.docs.shell import Shell

PAGE: Final = ROOT / "docs" / "how-to" / "apache-kafka.md"
OURS: Final = "not run: needs an Apache Kafka; tests/system/kafka runs it"
BLOCK_SECONDS: Final = 240.0  # Spark starts slowly where much else runs


class Reader:
    """`with reader.terminal(): reader.next("penstock topics create")`."""

    def __init__(self, kafka: str, folder: Path, security: Mapping[str, Any] | None = None) -> None:
        """`security` holds the properties with which the reader connects to Kafka."""
        self.folder = folder
        self._security = security
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.root = folder / "warehouse"
        registry, audit, agent = free_ports(3)
        self.audit = f"http://127.0.0.1:{audit}"
        self._instead = {
            "kafka-1:9092": kafka,
            "127.0.0.1:8081": f"127.0.0.1:{registry}",
            "127.0.0.1:8090": f"127.0.0.1:{audit}",
            "/var/log/shop": str(self.logs),
            "/var/lib/penstock": str(folder / "data"),
            "file:///srv/logs": f"file://{self.root}",
        }
        spark = {
            "spark.ui.enabled": False,
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": quick_java(),
        }
        self._own: Mapping[str, Mapping[str, Any]] = {
            "registry.yaml": {"port": registry},
            "agent.yaml": {
                "http_port": agent, "window": 2, "ledger_interval": 0.3, "scan_interval": 0.25
            },
            "audit.yaml": {"port": audit, "window": 2, "grace": 2.0, "poll": 0.2},
            "loader.yaml": {"window": 2, "spark": {"master": "local[1]", "conf": spark}},
        }  # fmt: skip
        self._commands = [each for each in blocks_of(PAGE) if OURS in each.remarks]

    def put_down(self) -> None:
        """Write the page's files."""
        texts = {each.file: each.text for each in blocks_of(PAGE) if each.file is not None}
        assert texts.keys() == self._own.keys()
        for name, text in texts.items():
            told = {**yaml.safe_load(self._here(text)), **self._own[name]}
            if self._security is not None:
                told["security"] = self._security
            (self.folder / name).write_text(yaml.safe_dump(told))
        if self._security is not None:
            (self.folder / "security.yaml").write_text(yaml.safe_dump(self._security))

    @contextmanager
    def terminal(self) -> Iterator[None]:
        """Programs that are started in it end with it."""
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PENSTOCK_AUDIT": self.audit,
            "NO_COLOR": "1",
            "COLUMNS": "200",
            **({"PENSTOCK_SECURITY": "security.yaml"} if self._security is not None else {}),
        }
        with Shell(self.folder, environment) as self._shell:
            yield

    def next(self, begin: str) -> str:
        """Run the page's next commands, the first of which begins so; return their output."""
        block = self._commands.pop(0)
        assert block.text.startswith(begin), f"{block.where}: {begin} was expected"
        return self._shell.run(
            self._here(block.text), tried_again=block.is_tried_again, seconds=BLOCK_SECONDS
        )

    def type(self, text: str, *, exit_code: int = 0) -> str:
        """Run a command that is not on the page."""
        return self._shell.run(text, exit_code=exit_code)

    def _here(self, text: str) -> str:
        for theirs, ours in self._instead.items():
            text = text.replace(theirs, ours)
        return text

    @property
    def has_more(self) -> bool:
        return bool(self._commands)

    def shown(self) -> list[str]:
        """Return the outputs that the page shows."""
        return [each.text for each in blocks_of(PAGE) if each.is_output]

    def verdict(self, topic: str, since: int) -> TopicReport | None:
        """Return what the audit reports of the topic from that millisecond on; None if nothing."""
        asked = urlencode({"from": since, "to": since + 3_600_000})
        try:
            with urllib.request.urlopen(
                f"{self.audit}/api/v1/report?{asked}", timeout=10
            ) as answer:
                report = msgspec.json.decode(answer.read(), type=ReportAnswer)
        except (urllib.error.URLError, OSError):
            return None
        return next((each for each in report.topics if each.topic == topic), None)
