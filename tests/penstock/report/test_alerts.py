"""`penstock alert` at an audit whose cluster is away, with a receiver that listens."""

import json
import re
from pathlib import Path

from audit.configuration.config import AuditConfig
from harness.logins.made_secrets import made_secret
from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until
from penstock.config.configuration import load
from penstock.directory.places import Places, Ports
from penstock.directory.preparation import prepare
from tests.audit.alerting.listener import Listener
from tests.penstock.running import penstock


def alert(*arguments: str, code: int = 0) -> str:
    ended = penstock("alert", *arguments)
    assert ended.returncode == code, ended
    return ended.stdout + ended.stderr


def test_an_alert_is_told_known_and_silenced(tmp_path: Path) -> None:
    url, config = tmp_path / "url", str(tmp_path / "audit.yaml")
    hook = {"hook": {"url_file": str(url)}}
    with Listener() as listener:
        url.write_text(f"{listener.url}&{made_secret('token')}")
        settings = {"alerts": {"after": 0, "gather": 0, "receivers": hook}}
        with AuditProcess(tmp_path, settings=settings) as audit:
            told, *_ = wait_until(lambda: [*listener.posts], what="told")
            _note(audit, told["id"])
        ids = [each["id"] for each in listener.posts]  # of the cluster, and of its registry
        assert len(ids) == len(set(ids))
        said = alert("test", "hook", "--config", config).splitlines()
        assert said == [f"hook (webhook), {e}: HTTP 200: …?…" for e in ("raised", "resolved")]
        listener.status = 500
        failed = "penstock: hook (webhook) did not accept the test alert: HTTP 500: …?…\n"
        assert alert("test", "hook", "--config", config, code=1) == failed
    assert "its receivers: hook" in alert("test", "other", "--config", config, code=1)
    shown = penstock("check-config", "audit", config, "--offline", "--show").stdout
    assert "alerts.receivers.hook.url" in shown
    assert "key=" not in shown


def _note(audit: AuditProcess, name: str) -> None:
    at = ("--audit", audit.url)
    for said, *arguments in (
        ("the ledger of test cannot be read", "list"),
        ("receiver hook (webhook): ", "list"),
        (f"{name} is acknowledged by ", "ack", name, "--reason", "on it"),
        ("Silence ", "silence", "--kind", "away", "--for", "1h", "--reason", "moved"),
    ):
        assert said in alert(*arguments, *at)
    for said, *arguments in (
        ("no current alert has the id zzz", "ack", "zzz", "--reason", "x"),
        ("give at least one of", "silence", "--for", "1h", "--reason", "x"),
        ("no silence has the id nothing", "unsilence", "nothing"),
    ):
        assert said in alert(*arguments, *at, code=1)
    audit.restart()
    wait_until(lambda: "acknowledged by" in alert("list", *at), what="kept")
    assert re.search(": on it .*: moved", alert("list", *at), re.DOTALL)
    answer = json.loads(alert("list", "--json", *at))
    (silence,) = answer["silences"]
    assert all(each["silenced"] == silence for each in answer["items"])
    assert "has ended" in alert("unsilence", silence["id"], *at)
    browser = {"content-type": "application/json", "origin": audit.url}
    sent = audit.ask("/api/v1/unsilence", method="POST", headers=browser, body=b'{"id": "x"}')
    assert sent.status == 403, "a page elsewhere may have made it"


def test_up_keeps_a_url(tmp_path: Path) -> None:
    places = Places(tmp_path)
    url = f"https://hooks.slack.com/services/{made_secret('T')}"
    for alert, receivers in ((url, {"alert": "slack"}), (None, {"alert": "slack"}), ("", {})):
        prepare(places, Ports(), [], alert=alert)
        assert made_secret("T") not in places.config("audit").read_text()
        loaded = load(AuditConfig, places.config("audit")).alerts.receivers
        assert {name: each.means for name, each in loaded.items()} == receivers
