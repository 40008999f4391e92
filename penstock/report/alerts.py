"""`penstock alert`: lists, acknowledges and silences an audit's alerts, and tests receivers."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from audit.alerting.answers import Acknowledge, Mute, Noted, NotedAlert, NotedAlerts, Unmute
from audit.alerting.conditions import KINDS, UNLOADED
from audit.configuration.config import AuditConfig
from audit.programs import INPUTS
from ground.http.client import HttpUrl
from ground.printable import one_line
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, print_table
from penstock.cli.time_arguments import DurationType, TimeType, time_text
from penstock.config.options import configured
from penstock.report.audit_requests import ask, audit_option
from penstock.report.operator import local_account

_FEW: Final = 5
_reason = click.option("--reason", required=True, metavar="TEXT", help="The reason; it is shown.")


def raised_alerts(audit: HttpUrl, topics: Sequence[str], cluster: str) -> Sequence[NotedAlert]:
    """Returns the first raised alerts about programs and about these topics, except those that a
    finding of a report covers."""
    answer = ask(audit, "alerts", {"state": "raised", "size": 100}, NotedAlerts)
    alerts = [
        alert
        for alert in answer.items
        if alert.hour < 0
        and alert.kind not in {UNLOADED, INPUTS}  # the report has them
        and (not cluster or alert.cluster in {cluster, ""})
        and (not topics or alert.topic in {*topics, ""})
    ]
    return alerts[:_FEW]


@click.command("list")
@click.option("--resolved", is_flag=True, help="List resolved alerts instead.")
@audit_option
@json_option
def list_alerts(*, resolved: bool, audit: HttpUrl, as_json: bool) -> None:
    """List raised alerts, the newest first, with silences and receivers. Times are UTC.

    \b
    Example:
        penstock alert list
        penstock alert list --resolved --json
    """
    state = "resolved" if resolved else "raised"
    answer = ask(audit, "alerts", {"state": state, "size": 500}, NotedAlerts)
    if as_json:
        import msgspec  # noqa: PLC0415

        print_json(msgspec.to_builtins(answer))
        return
    if answer.items:
        columns = ("id", "severity", "kind", "topic", "host", "raised", "noted", "words")
        print_table(columns, [_row(alert) for alert in answer.items])
    else:
        print(f"No alert is {state}.")
    if answer.page.total > len(answer.items):
        print(f"{answer.page.total - len(answer.items):,} more are {state}.")
    for silence in answer.silences:
        about = ("kind", silence.kind), ("cluster", silence.cluster), ("topic", silence.topic)
        conditions = [
            f"{name} {value}" for name, value in (*about, ("host", silence.host)) if value
        ]
        print(
            f"silence {silence.id}: {one_line(', '.join(conditions))}, until "
            f"{time_text(silence.until)} "
            f"UTC, by {one_line(silence.by)}: {one_line(silence.reason)}"
        )
    for receiver in answer.receivers:
        suffix = f", failing: {one_line(receiver.trouble)}" if receiver.trouble else ""
        print(
            f"receiver {receiver.name} ({receiver.kind}): {receiver.sent:,} messages sent{suffix}"
        )


def _row(alert: NotedAlert) -> dict[str, object]:
    note = ""
    if alert.acknowledged:
        reason = one_line(alert.acknowledged.reason)
        note = f"acknowledged by {one_line(alert.acknowledged.by)}: {reason}"
    elif alert.silenced:
        note = f"silenced until {time_text(alert.silenced.until)}"
    return {
        "id": alert.id,
        "severity": alert.severity,
        "kind": alert.kind,
        "topic": one_line(alert.topic),
        "host": one_line(alert.host or ", ".join(alert.hosts)),
        "raised": time_text(alert.raised),
        "noted": note,
        "words": one_line(alert.words) + (f"; holds up {alert.holds_up}" if alert.holds_up else ""),
    }


@click.command("ack")
@click.argument("alert", metavar="ID")
@_reason
@click.option(
    "--until",
    type=TimeType(),
    metavar="TIME",
    help="When it ends; default: when the alert is resolved.",
)
@audit_option
@json_option
def acknowledge(
    *, alert: str, reason: str, until: int | None, audit: HttpUrl, as_json: bool
) -> None:
    """Acknowledge an alert: receivers get no more messages about it until it is resolved.

    ID is shown in messages and by `penstock alert list`; it covers all alerts of that kind and
    topic.

    \b
    Example:
        penstock alert ack 3f0c9a1d5b7e --reason "web-3 is being repaired"
    """
    request = Acknowledge(id=alert, reason=reason, until=until, by=local_account())
    answer = ask(audit, "acknowledge", {}, Noted, posted=request)
    _say(answer, f"{answer.id} is acknowledged by {one_line(answer.by)}.", as_json=as_json)


@click.command()
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@click.option("--cluster", default="", metavar="NAME", help="Only this cluster.")
@click.option(
    "-t", "--topic", default="", metavar="TOPIC", help="Only these topics; * and ? are wildcards."
)
@click.option("--host", default="", metavar="NAME", help="Only these hosts; * and ? are wildcards.")
@click.option(
    "--for", "duration", type=DurationType(), metavar="TIME", help="How long, such as 2h or 7d."
)
@click.option("--until", type=TimeType(), metavar="TIME", help="When the silence ends; UTC.")
@_reason
@audit_option
@json_option
def silence(
    *,
    kind: str | None,
    cluster: str,
    topic: str,
    host: str,
    duration: int | None,
    until: int | None,
    reason: str,
    audit: HttpUrl,
    as_json: bool,
) -> None:
    """Mute present and future alerts for a time. All given conditions must match.

    They are still raised, shown and counted; receivers get those that remain when the time is over.

    \b
    Example:
        penstock alert silence --host 'web-*' --for 2h --reason "rack 4 is moved"
        penstock alert silence --kind late --topic clicks --until 2026-11-21T07 --reason "known"
    """
    if (duration is None) == (until is None):
        raise click.UsageError("pass either --for or --until")
    end = until if duration is None else time.time_ns() // 1_000_000 + duration
    assert end is not None
    conditions = {"kind": kind or "", "cluster": cluster, "topic": topic, "host": host}
    request = Mute(**conditions, reason=reason, until=end, by=local_account())
    answer = ask(audit, "silence", {}, Noted, posted=request)
    words = f"Silence {answer.id} until {time_text(end)} UTC, by {one_line(answer.by)}."
    _say(answer, words, as_json=as_json)


@click.command()
@click.argument("silence", metavar="ID")
@audit_option
@json_option
def unsilence(*, silence: str, audit: HttpUrl, as_json: bool) -> None:
    """End a silence early. ID is shown by `penstock alert list`.

    \b
    Example:
        penstock alert unsilence 7e0ac1d2
    """
    answer = ask(audit, "unsilence", {}, Noted, posted=Unmute(id=silence, by=local_account()))
    _say(answer, f"Silence {answer.id} has ended.", as_json=as_json)


def _say(noted: Noted, words: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": noted.id, "by": noted.by})
    else:
        print(words)


@click.command("test")
@click.argument("name")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The audit's configuration file, which has `alerts.receivers`.",
)
@json_option
def try_receiver(*, name: str, config: Path, as_json: bool) -> None:
    """Send a test alert to a receiver, then its resolution, and print the answers.

    They are sent from this host, by the code that the audit uses. NAME is one of
    `alerts.receivers`.

    \b
    Example:
        penstock alert test on-call --config /etc/penstock/audit.yaml
    """
    # Only the audit's host needs what alerts stand on.
    from audit.alerting.errors import NotTold  # noqa: PLC0415
    from audit.alerting.notices import trial_notice  # noqa: PLC0415
    from audit.alerting.senders import Sender  # noqa: PLC0415

    settings = configured(AuditConfig, config, ())
    receiver = settings.alerts.all_receivers.get(name)
    if receiver is None:
        names = ", ".join(settings.alerts.all_receivers) or "none"
        raise Failed(f"{config} has no receiver {one_line(name)!r}; its receivers: {names}")
    now = time.time_ns() // 1_000_000
    notice = trial_notice(now, page=settings.page_url, runbook=settings.runbook_url)
    try:
        sender = Sender(receiver)
        answers = {
            change.status: one_line(sender.send([change]))
            for change in (notice, notice.over(now + 1_000))
        }
    except NotTold as error:
        answer = f": {one_line(error.answer)}" if error.answer else ""
        raise Failed(
            f"{name} ({receiver.means}) did not accept the test alert: {error}{answer}"
        ) from None
    if as_json:
        print_json(answers)
        return
    for status, answer in answers.items():
        print(f"{name} ({receiver.means}), {status}: {answer}")
