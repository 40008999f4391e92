"""`penstock audit accept`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from client.brokers import Brokers
from ledger.names import topic_id_text
from penstock.audit_operator import Ledger, ledger_options, operator, write_statement
from penstock.connecting import existing_topics
from penstock.json_option import json_option
from penstock.number_ranges import BytesType, NumberRange, NumbersType
from penstock.output import one_line, print_json
from penstock.time_arguments import TimeType, time_text


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only there.")
@click.option(
    "--offsets",
    type=NumbersType(),
    multiple=True,
    metavar="A-B",
    help="Only these, A and B included; with --partition; may be repeated.",
)
@click.option("--source", metavar="ID", help="Only this file, or this journal.")
@click.option(
    "--seqs",
    type=NumbersType(),
    multiple=True,
    metavar="A-B",
    help="Only these of its events, or entries, A and B included; may be repeated.",
)
@click.option(
    "--bytes",
    "byte_ranges",
    type=BytesType(),
    multiple=True,
    metavar="A-B",
    help="Only these of its bytes, from A up to but without B; may be repeated.",
)
@click.option("--host", metavar="NAME", help="Only what is of this host.")
@click.option(
    "--from", "from_time", type=TimeType(), metavar="TIME", help="Only windows from then on."
)
@click.option("--to", "to_time", type=TimeType(), metavar="TIME", help="Only windows before that.")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is shown.")
@ledger_options
@json_option
def command(
    *,
    topic: str,
    partition: int | None,
    offsets: tuple[NumberRange, ...],
    source: str | None,
    seqs: tuple[NumberRange, ...],
    byte_ranges: tuple[NumberRange, ...],
    host: str | None,
    from_time: int | None,
    to_time: int | None,
    reason: str,
    ledgers: Sequence[Ledger],
    as_json: bool,
) -> None:
    """Accept what is missing, duplicated, changed or unknown, and will not be put right.

    The audit still shows it, with the reason, and counts it as complete. All that is given must
    apply to a fault for it to be accepted. The names are those that `penstock report` and the page
    show. A time is UTC unless it says otherwise.

    \b
    Example:
        penstock audit accept page_views --partition 0 --offsets 4711-4722 --reason "disk broke"
        penstock audit accept page_views --source a1-7 --bytes 8192-9216 --reason "was truncated"
        penstock audit accept page_views --host web-3 --from 2026-11-20T07 --to 2026-11-20T08 \\
            --reason "its log was deleted"
    """
    if offsets and partition is None:
        raise click.UsageError("--offsets are those of a --partition")
    if (seqs or byte_ranges) and source is None:
        raise click.UsageError("--seqs and --bytes are those of a --source")
    if seqs and byte_ranges:
        raise click.UsageError("give --seqs or --bytes, not both")
    if source is not None and not (seqs or byte_ranges):
        raise click.UsageError("give --seqs or --bytes of this --source")
    if from_time is not None and to_time is not None and from_time >= to_time:
        raise click.UsageError("--from must be before --to")
    if all(each is None for each in (partition, source, host, from_time, to_time)):
        raise click.UsageError(
            "say what is accepted: --partition, --source, --host, --from or --to"
        )
    if len(ledgers) > 1:
        names = ", ".join(each.cluster for each in ledgers)
        raise click.UsageError(f"say whose topic it is: --cluster, one of {names}")
    accepted: dict[str, Any] = {
        "topic": topic,
        "partition": -1 if partition is None else partition,
        "offsets": [{"first": each.first, "count": each.size} for each in offsets],
        "runs": [*_runs(source or "", seqs, byte_ranges)],
        "host": host or "",
        "from_time": from_time,
        "to_time": to_time,
        "reason": reason,
        "operator": operator(),
    }
    (ledger,) = ledgers
    with ledger.opened() as (brokers, registry):
        accepted["topic_id"] = _topic_id(brokers, topic)
        write_statement(brokers, registry, ledger.cluster, {"accepted": [accepted]})
    if as_json:
        print_json({"cluster": ledger.cluster, **accepted})
        return
    click.echo(
        f"{one_line(topic)} of cluster {ledger.cluster}: accepted is {', '.join(_words(accepted))}."
    )
    click.echo(f"What is left is in `penstock report {one_line(topic)}`.")


def _runs(
    source: str, seqs: Sequence[NumberRange], byte_ranges: Sequence[NumberRange]
) -> Iterator[Mapping[str, Any]]:
    """By seq; or, without events, by bytes."""
    for each in seqs:
        yield {"source": source, "seq": each.first, "events": each.size}
    for each in byte_ranges:
        yield {
            "source": source,
            "seq": 0,
            "events": 0,
            "position": each.first,
            "end_position": each.end,
        }


def _topic_id(brokers: Brokers, topic: str) -> str:
    """Of the topic that there is now; if there is none, any of that name is meant."""
    known = brokers.persist(lambda: brokers.refresh([topic]))
    return topic_id_text(known.topic(topic).id) if known.has(topic) else ""


def _words(accepted: Mapping[str, Any]) -> Iterator[str]:
    """All that must apply, as far as it was given."""
    if accepted["partition"] >= 0:
        yield f"partition {accepted['partition']}"
    for each in accepted["offsets"]:
        yield f"offsets {_numbers(each['first'], each['count'])}"
    for each in accepted["runs"]:
        of = f"of source {one_line(each['source'])}"
        if each["events"]:
            yield f"events {_numbers(each['seq'], each['events'])} {of}"
        else:
            yield f"bytes {each['position']:,} to {each['end_position']:,} {of}"
    if accepted["host"]:
        yield f"host {one_line(accepted['host'])}"
    if accepted["from_time"] is not None:
        yield f"windows from {time_text(accepted['from_time'])} UTC on"
    if accepted["to_time"] is not None:
        yield f"windows before {time_text(accepted['to_time'])} UTC"


def _numbers(first: int, count: int) -> str:
    """With first and last, as they were given."""
    return f"{first:,}" if count == 1 else f"{first:,} to {first + count - 1:,}"
