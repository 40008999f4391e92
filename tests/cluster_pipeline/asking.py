"""What the audit says, and when it says it for good."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from harness.audit_process import AuditProcess
from harness.waiting import wait_until
from tests.cluster_pipeline.loading import REPOSITORY

_VERDICT: Final = 180.0


class AskedTopic(msgspec.Struct, frozen=True):
    """A topic of one cluster, as an audit knows it."""

    audit: AuditProcess
    cluster: str
    topic: str
    window: int  # seconds

    def report(self, since: int, until: int) -> dict[str, Any]:
        """Of it alone; {} if the audit has not heard of it, or does not answer."""
        said = self._api("report", from_=since, to=until)
        found = [each for each in said.get("topics", []) if each["topic"] == self.topic]
        return {**found[0], "as_of": said["as_of"]} if found else {}

    def cells(self, since: int, until: int) -> list[Mapping[str, Any]]:
        """A window each."""
        said = self._api("topic", from_=since, to=until, step=self.window * 1000)
        cells: list[Mapping[str, Any]] = said.get("cells", [])
        return cells

    def report_command(self, since: int) -> int:
        """The exit code of `penstock report`."""
        begin = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(since / 1000))
        command = ["report", self.topic, "--cluster", self.cluster, "--from", begin]
        run = subprocess.run(
            [sys.executable, "-m", "penstock", *command, "--audit", self.audit.url],
            cwd=REPOSITORY,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return run.returncode

    def settled(
        self, since: int, done: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> dict[str, Any]:
        """The verdict, once it waits for nobody (or is `done`), up to the end of the last window in
        which anything was written; or as it stands when the time is over."""
        until = (now() // (self.window * 1000) + 1) * self.window * 1000
        found: dict[str, Any] = {}

        def is_settled() -> bool:
            found.update(self.report(since, until))
            return found.get("as_of", 0) >= until and (done or _is_done)(found)

        # What it still waits for when the time is over stands in it, and is an objection.
        with suppress(TimeoutError):
            wait_until(is_settled, within=_VERDICT, what="a verdict", every=0.5)
        return found

    def _api(self, path: str, **query: object) -> dict[str, Any]:
        """An answer of `/api/v1`; {} if there is none."""
        named = {name.rstrip("_"): value for name, value in query.items()}
        wanted = urlencode({"cluster": self.cluster, "topic": self.topic, **named})
        answer = self.audit.ask(f"/api/v1/{path}?{wanted}")
        found = json.loads(answer.body) if answer.status == 200 else {}
        assert isinstance(found, dict)
        return found


def _is_done(report: Mapping[str, Any]) -> bool:
    return report["state"] != "pending" and not report["waits_total"]


def now() -> int:
    return time.time_ns() // 1_000_000
