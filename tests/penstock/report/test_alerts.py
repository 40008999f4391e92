"""`penstock alert` at an audit whose cluster is away, with a receiver that listens."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from audit.config import AuditConfig
from harness.audit_process import AuditProcess
from harness.made_secrets import made_secret
from harness.waiting import wait_until
from penstock.config.configuration import load
from penstock.directory.places import Places, Ports
from penstock.directory.preparing import prepare
from tests.audit.alerting.listener import Listener
from tests.penstock.running import penstock


class Alarmed(NamedTuple):
    audit: AuditProcess
    listener: Listener
    config: Path

    def alert(self, *arguments: str, code: int = 0) -> str:
        ended = penstock("alert", *arguments, "--audit", self.audit.url)
        assert ended.returncode == code, ended
        return ended.stdout + ended.stderr


@pytest.fixture
def alarmed(tmp_path: Path) -> Iterator[Alarmed]:
    with Listener() as listener:
        url = tmp_path / "url"
        url.write_text(f"{listener.url}&{made_secret('token')}")
        alerts = {"after": 0, "gather": 0, "receivers": {"hook": {"url_file": str(url)}}}
        with AuditProcess(tmp_path, settings={"alerts": alerts}) as audit:
            yield Alarmed(audit, listener, tmp_path / "audit.yaml")


def test_an_alert_is_told_known_and_silenced(alarmed: Alarmed) -> None:
    audit, listener, _ = alarmed
    (told,) = wait_until(lambda: [*listener.posts], what="told")
    assert (told["kind"], told["cluster"], told["command"]) == ("away", "test", "penstock status")
    for arguments, said in (
        (("list",), "the ledger of test cannot be read"),
        (("list",), "receiver hook (webhook): "),
        (("ack", "0" * 12, "--reason", "x"), "no alert 000000000000 is raised"),
        (("ack", told["id"], "--reason", "on it"), f"{told['id']} is acknowledged, by "),
        (("silence", "--for", "1h", "--reason", "x"), "say what is silenced"),
        (("silence", "--kind", "lat", "--for", "1h", "--reason", "x"), "must be one of unknown"),
        (("silence", "--kind", "away", "--for", "1h", "--reason", "moved"), "Silence "),
        (("unsilence", "nothing"), "there is no silence nothing"),
    ):
        failed = said.startswith(("no alert", "say what", "must be", "there is"))
        assert said in alarmed.alert(*arguments, code=int(failed))
    audit.restart()
    wait_until(lambda: "known to" in alarmed.alert("list"), what="kept")
    listed = alarmed.alert("list")
    assert ": on it" in listed
    assert ": moved" in listed
    answer = json.loads(alarmed.alert("list", "--json"))
    (silence,) = answer["silences"]
    assert all(each["silenced"] == silence for each in answer["items"])
    assert "has ended" in alarmed.alert("unsilence", silence["id"])
    assert {each["id"] for each in listener.posts} == {told["id"]}
    browser = {"content-type": "application/json", "origin": audit.url}
    body = b'{"kind": "away", "until": 9000000000000, "reason": "x"}'
    sent = audit.ask("/api/v1/silence", method="POST", headers=browser, body=body)
    assert sent.status == 403, "a page elsewhere may have made it"


def test_a_receiver_is_tried(alarmed: Alarmed) -> None:
    def tried(name: str) -> tuple[int, str]:
        ended = penstock("alert", "test", name, "--config", str(alarmed.config))
        return ended.returncode, ended.stdout + ended.stderr

    said = "hook (webhook), {}: HTTP 200: …?…\n"
    assert tried("hook") == (0, said.format("raised") + said.format("resolved"))
    alarmed.listener.status = 500
    assert tried("hook") == (1, "penstock: hook (webhook) did not take it: HTTP 500: …?…\n")
    assert "has no receiver 'other'; there are: hook" in tried("other")[1]
    shown = penstock("check-config", "audit", str(alarmed.config), "--offline").stdout
    assert "alerts.receivers.hook.url" in shown
    assert "key=" not in shown


def test_up_keeps_a_url(tmp_path: Path) -> None:
    places = Places(tmp_path)
    url = f"https://hooks.slack.com/services/{made_secret('T')}"
    for alert, receivers in ((url, {"alert": "slack"}), (None, {"alert": "slack"}), ("", {})):
        prepare(places, Ports(), [], alert=alert)
        assert made_secret("T") not in places.config("audit").read_text()
        loaded = load(AuditConfig, places.config("audit")).alerts.receivers
        assert {name: each.means for name, each in loaded.items()} == receivers
