"""`penstock gate record`, `check`: records the state of a pipeline before a change, and compares it
with the state after.

No check is skipped silently: options must say that there is no canary or no audit.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast

import click

from client.connection.bootstrap import Bootstrap
from client.errors import BadAddress, ClientError
from ground.http.client import HttpUrl
from ground.http.security import HttpAccess, access_to
from ground.printable import one_line
from penstock.cli.failures import Failed
from penstock.cli.finite_range import FiniteRange
from penstock.cli.output import json_option, print_json, say
from penstock.connections.cluster import bootstrap_option, brokers_security
from penstock.connections.http_options import broker_http_of, broker_http_option, http_security
from penstock.connections.profile import readable_profile
from penstock.gate.audit import AuditCheck, GateAudit
from penstock.gate.baseline import AuditBefore, Baseline, read_baseline, write_baseline
from penstock.gate.brokers import BrokersCheck, PagesCheck
from penstock.gate.canary import CanaryCheck, Proof, write_line
from penstock.gate.reasons import Check, Reason, worst
from penstock.gate.wait import Waited, wait
from penstock.report.audit_requests import audit_option
from penstock.services.agent_status import agent_option, agent_security
from penstock.status.cluster import page_addresses
from penstock.status.part import NoStatus

OPEN: Final = 0
F = TypeVar("F", bound=Callable[..., Any])


def _gate_options(command: F) -> F:
    """Adds the options of both commands: `bootstrap`, `pages`, and `audit`, None with
    --no-audit."""

    @bootstrap_option
    @broker_http_option("HTTP ports of the brokers, which report lost and unavailable data.")
    @audit_option
    @click.option("--cluster", default="", metavar="NAME", help="The audit's name for the cluster.")
    @click.option("--no-audit", is_flag=True, help="Do not use an audit.")
    @json_option
    @wraps(command)
    def with_options(
        *,
        bootstrap: str,
        broker_http: str | None,
        audit: HttpUrl,
        cluster: str,
        no_audit: bool,
        **others: Any,
    ) -> Any:
        if broker_http is None:
            broker_http = broker_http_of(bootstrap) or ""
        try:
            pages = page_addresses(broker_http)
            cluster_address = Bootstrap.of(bootstrap, brokers_security(bootstrap))
        except (BadAddress, ValueError) as error:
            raise click.UsageError(str(error)) from None
        profile = readable_profile()
        if not cluster and profile.names("brokers", bootstrap):
            cluster = profile.value("cluster")
        gate_audit = None if no_audit else GateAudit(audit, cluster)
        return command(bootstrap=cluster_address, pages=pages, audit=gate_audit, **others)

    return cast("F", with_options)


def _pages_access(pages: Sequence[HttpUrl]) -> HttpAccess:
    return access_to(http_security("broker-http", *pages))


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_gate_options
def record(
    *,
    file: Path,
    bootstrap: Bootstrap,
    pages: list[HttpUrl],
    audit: GateAudit | None,
    as_json: bool,
) -> None:
    """Record the state of the pipeline in FILE before a change.

    `penstock gate check --baseline FILE` compares with it: the brokers, their losses, the audit's
    findings, and the silent agents. A server that does not answer is an error.

    \b
    Example:
        penstock gate record /tmp/before.json --bootstrap b1:9092 --audit http://audit:8090
    """
    brokers = BrokersCheck(bootstrap)
    pages_check = PagesCheck(pages, _pages_access(pages), {})
    try:
        cluster = brokers.ask()
        baseline = Baseline(
            made=time.time_ns() // 1_000_000,
            cluster=cluster.cluster_id or "",
            brokers=sorted(cluster.brokers),
            topics=len(cluster.topics),
            audit=None if audit is None else audit.before(),
            remarks=pages_check.remarks() if pages else None,
        )
    except (ClientError, NoStatus) as error:
        raise Failed(str(error)) from None
    finally:
        brokers.close()
        pages_check.close()
    write_baseline(file, baseline)
    audit_baseline = baseline.audit or AuditBefore()
    counts = {
        "brokers": len(baseline.brokers),
        "topics": baseline.topics,
        "findings": len(audit_baseline.findings),
        "failing_loads": len(audit_baseline.failing_loads),
        "silent": len(audit_baseline.silent),
    }
    if as_json:
        print_json({"file": str(file), **counts})
    else:
        say(
            f"{file}: "
            + ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
        )


@click.command()
@click.option(
    "--baseline",
    type=click.File("rb", lazy=True),
    metavar="FILE",
    help="The file that `penstock gate record` wrote before the change; - is stdin.",
)
@click.option(
    "--broker",
    "changed",
    type=click.IntRange(0),
    multiple=True,
    metavar="ID",
    help="A changed broker: it must answer and lead the partitions of which it is the first "
    "replica; may be repeated.",
)
@click.option(
    "--canary",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A log file that this host's agent follows; the command writes a line and waits for it.",
)
@click.option("--no-canary", is_flag=True, help="Write no canary line.")
@agent_option
@click.option(
    "--proof",
    type=click.Choice([proof_stage.value for proof_stage in Proof]),
    help="The stage that the line must reach; default: counted, or stored with --no-audit.",
)
@click.option("--may-be-empty", is_flag=True, help="Accept a cluster without topics.")
@click.option(
    "--within",
    type=FiniteRange(min=0, max=86_400),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)
@click.option(
    "--steady",
    type=FiniteRange(min=0, max=3_600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long all checks must pass without interruption.",
)
@_gate_options
def check(
    *,
    bootstrap: Bootstrap,
    pages: list[HttpUrl],
    audit: GateAudit | None,
    baseline: BinaryIO | None,
    changed: tuple[int, ...],
    canary: Path | None,
    no_canary: bool,
    agent: HttpUrl,
    proof: str | None,
    may_be_empty: bool,
    within: float,
    steady: float,
    as_json: bool,
) -> int:
    """Wait until the pipeline is as healthy as before a change, and report whether it is.

    It is healthy if no partition is under-replicated and no broker is away, a line written now has
    reached the brokers and been counted by the audit, and the audit has no new findings. A server
    that does not answer counts as unhealthy.

    Exit code 0: healthy, continue; 1: the brokers or the line were not ready in time; 2: wrong
    usage; 3: a new finding, failing load, silent agent or loss; 4: a server does not answer.

    \b
    Example:
        penstock gate check --broker 2 --baseline before.json --canary /var/log/penstock/canary.log
        penstock gate check --no-canary --no-audit --within 60
    """
    if (canary is None) is not no_canary:
        raise click.UsageError("pass either --canary FILE or --no-canary")
    required_proof = Proof(proof or (Proof.STORED if audit is None else Proof.COUNTED))
    if audit is None and required_proof is not Proof.STORED:
        raise click.UsageError(f"--proof {required_proof.value} needs an audit")
    earlier_state = None if baseline is None else read_baseline(baseline)
    checks = [
        BrokersCheck(
            bootstrap,
            before=() if earlier_state is None else earlier_state.brokers,
            cluster_id="" if earlier_state is None else earlier_state.cluster,
            wanted=changed,
            may_be_empty=may_be_empty or (earlier_state is not None and not earlier_state.topics),
        ),
        *_pages_checks(pages, earlier_state),
        *_audit_checks(audit, earlier_state),
    ]
    if canary is not None:
        access = access_to(agent_security(agent))
        canary_audit = None if required_proof is Proof.STORED else audit
        line = write_line(canary)
        checks.append(
            CanaryCheck(
                line,
                agent=agent,
                agent_access=access,
                bootstrap=bootstrap,
                audit=canary_audit,
                proof=required_proof,
            )
        )
    result = wait(checks, within=within, steady=steady, tell=_tell)
    skipped_checks = [
        *(["canary"] if canary is None else []),
        *(["audit"] if audit is None else []),
        *([] if pages else ["brokers' pages"]),
    ]
    _show(result, skipped_checks, as_json=as_json)
    return int(worst(result.reasons)) if result.reasons else OPEN


def _pages_checks(pages: list[HttpUrl], before: Baseline | None) -> list[Check]:
    if not pages:
        return []
    known_remarks = {} if before is None or before.remarks is None else before.remarks
    return [PagesCheck(pages, _pages_access(pages), known_remarks)]


def _audit_checks(audit: GateAudit | None, before: Baseline | None) -> list[Check]:
    if audit is None:
        return []
    if before is None:
        return [AuditCheck(audit, AuditBefore())]  # no fault at all is tolerated
    if before.audit is None:
        raise Failed(
            "the baseline was recorded with --no-audit: pass --no-audit, or record it again"
        )
    return [AuditCheck(audit, before.audit)]


def _tell(reasons: Sequence[Reason]) -> None:
    for reason in reasons:
        print(
            f"waiting, {one_line(f'{reason.about}: {reason.words}')}", file=sys.stderr, flush=True
        )


def _show(waited: Waited, skipped: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "open": not waited.reasons,
                "seconds": round(waited.seconds, 1),
                "reasons": [
                    {
                        "about": reason.about,
                        "trouble": reason.trouble.name.lower(),
                        "words": reason.words,
                    }
                    for reason in waited.reasons
                ],
                "not_asked": skipped,
            }
        )
        return
    seconds = f"{waited.seconds:.0f} s"
    if waited.reasons:
        say(f"✗ failed after {seconds}", colour="red")
        for reason in waited.reasons:
            say(f"  {reason.about}: {reason.words}")
    else:
        say(f"✓ passed after {seconds}", colour="green")
    if skipped:
        say(f"  not checked: {', '.join(skipped)}")
