"""Debian's Alertmanager as a receiver: it takes alerts, repeats keep them, an end resolves them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from audit.alerting.receivers import Pace, Receivers, Situation
from audit.configuration.receivers import Receiver
from harness.processes.server_process import ServerProcess, free_ports, http_page
from harness.processes.waiting import wait_until
from tests.audit.alerting.alerts_made import HOSTILE, missing, silent, situation

PROGRAM = shutil.which("prometheus-alertmanager")


@pytest.mark.slow  # and its clock cannot be moved: it asks the kernel itself
@pytest.mark.skipif(PROGRAM is None, reason="apt install prometheus-alertmanager")
def test_alertmanager_takes_alerts(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "config.yml").write_text("{route: {receiver: none}, receivers: [{name: none}]}")
    options = ["--config.file=config.yml", "--storage.path=.", "--cluster.listen-address="]
    command = [str(PROGRAM), *options, f"--web.listen-address=127.0.0.1:{port}"]
    server = ServerProcess(command, output=tmp_path / "log", directory=tmp_path)
    server.spawn()

    def active() -> dict[str, Any]:
        found = json.loads(http_page(port, "/api/v2/alerts?active=true")[1])
        return {each["labels"].get("topic", ""): each for each in found}

    url = f"http://127.0.0.1:{port}/api/v2/alerts"
    receivers = Receivers({"a": Receiver(url=url)}, pace=Pace(gather=0, repeat=0.2))
    try:
        server.wait_ready(lambda: http_page(port, "/-/ready")[0] == 200, within=60)
        receivers.start()
        receivers.offer(situation(*missing(), *missing(HOSTILE), *silent("web-1", "web-2")))
        found = wait_until(lambda: f if len(f := active()) == 3 else {}, what="taken")
        ends = found["clicks"]["endsAt"]
        assert found["clicks"]["labels"]["alertname"] == "PenstockMissing"
        assert found[""]["annotations"]["hosts"] == "web-1, web-2"
        wait_until(lambda: active()["clicks"]["endsAt"] > ends, what="sent again")
        receivers.offer(situation(*missing()))
        wait_until(lambda: active().keys() == {"clicks"}, what="two are resolved")
        receivers.offer(Situation())
        wait_until(lambda: not active(), what="resolved")
        receivers.stop()
    finally:
        server.kill()
