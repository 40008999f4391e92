"""Debian's Alertmanager as a receiver: it takes alerts, repeats keep them, an end resolves them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.alerting.receivers import Pace, Receivers, Situation
from audit.receiver_config import Receiver
from harness.server_process import ServerProcess, free_ports, http_page
from harness.waiting import wait_until
from tests.audit.alerting.alerts_made import HOSTILE, missing, silent, situation

PROGRAM = "prometheus-alertmanager"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    program = shutil.which(PROGRAM)
    if program is None:
        pytest.skip(f"{PROGRAM} is not here: apt install {PROGRAM}")
    (port,) = free_ports(1)
    config = tmp_path / "config.yml"
    config.write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    command = [program, f"--config.file={config}", f"--storage.path={tmp_path}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    server = ServerProcess(command, output=tmp_path / "log")
    server.spawn()
    try:
        server.wait_ready(lambda: http_page(port, "/-/ready")[0] == 200, within=60)
        yield port
    finally:
        server.kill()


def test_alertmanager_takes_alerts(port: int) -> None:
    def active() -> dict[str, Any]:
        found = json.loads(http_page(port, "/api/v2/alerts?active=true")[1])
        return {each["labels"].get("topic", ""): each for each in found}

    url = f"http://127.0.0.1:{port}/api/v2/alerts"
    pace = Pace(gather=0, repeat=0.2, pause=0.1)
    receivers = Receivers({"alertmanager": Receiver(url=url)}, pace=pace)
    receivers.start()
    try:
        receivers.offer(situation(*missing(), *missing(HOSTILE), *silent("web-1", "web-2")))
        found = wait_until(lambda: f if len(f := active()) == 3 else {}, what="taken")
        clicks, ends = found["clicks"], found["clicks"]["endsAt"]
        assert clicks["labels"]["alertname"] == "PenstockMissing"
        assert clicks["labels"]["severity"] == "critical"
        assert clicks["annotations"]["since"] == "2026-11-20 07:00:00 UTC"
        assert clicks["generatorURL"].startswith("https://audit.example.org/#/topic?topic=clicks")
        assert found[""]["annotations"]["hosts"] == "web-1, web-2"
        wait_until(lambda: active()["clicks"]["endsAt"] > ends, what="sent again")
        receivers.offer(situation(*missing()))
        wait_until(lambda: active().keys() == {"clicks"}, what="two are resolved")
        receivers.offer(Situation())
        wait_until(lambda: not active(), what="resolved")
    finally:
        receivers.stop()
