"""The runbook: what each kind of fault and alert means, and how to respond.

The audit serves it at `/runbook`, with an anchor for each kind; docs/runbook.md is made from it
(`make reference`). The only markup in texts is `code` between backticks.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

import msgspec

INTRODUCTION: Final = (
    "What each kind of finding and alert means, and what to do. The page, `penstock report` and "
    "`penstock status` show a command beside the finding, with its topic, hours and ranges filled "
    "in; replace `REASON` in it. On hosts that were installed from packages or by Ansible, "
    "programs are systemd units such as `penstock-agent`. `penstock up` runs them "
    "itself: `penstock up --restart agent --dir DIR` restarts one there, and `DIR/logs/agent.log` "
    "is its log."
)
_CODE: Final = re.compile(r"`([^`]+)`")


class RunbookEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The entry for a kind of finding or alert, or for both. `kind` is the anchor."""

    kind: str
    title: str
    meaning: str
    steps: tuple[str, ...]


ENTRIES: Final = (
    RunbookEntry(
        kind="missing",
        title="Missing",
        meaning="An earlier tier has events that a later one lacks. The finding names the tier, "
        "and as far as they are known host, file, bytes and offsets.",
        steps=(
            "Missing in the files, and the brokers still have it: run the command beside the "
            "finding, `penstock load --rebuild`, on the loader's host. It rewrites these hours in "
            "one commit. If a file was moved away, put it back instead: the next load finds it. A "
            "rebuild removes no rows that the brokers no longer have: it ends with their number.",
            "Missing in the files, and a load went on without them: the brokers had deleted them. "
            "No rebuild brings them back. Ship the lines again from the log file or a copy "
            "(docs/how-to/replay-a-day.md), or accept the loss. So that brokers keep events for "
            "longer than a loader may be away: `penstock topics describe TOPIC` shows "
            "`retention.ms`, `penstock topics alter TOPIC --config retention.ms=N` sets it.",
            "Missing in the files, and the hour was rebuilt from all that the brokers have: ship "
            "the lines again, or accept the loss with the command beside the finding. "
            "`_INCOMPLETE` in the hour's folder becomes `_SUCCESS` with the next load.",
            "Missing at the brokers, and the log file is still there: ship it again into a topic "
            "of its own with a second agent (docs/how-to/replay-a-day.md). "
            "`tail --bytes=+N FILE | head --bytes=M` shows the lines, with the finding's bytes.",
            "Missing everywhere: find out what the broker lost (`penstock status`, its log), then "
            "accept the loss with the command beside the finding.",
        ),
    ),
    RunbookEntry(
        kind="lost",
        title="Lost",
        meaning="Lines were gone before an agent had read them: the file was truncated or deleted.",
        steps=(
            "If there is a copy of the file, ship it into a topic of its own with a second agent "
            "(docs/how-to/replay-a-day.md).",
            "Configure the rotation to keep files longer than an agent may be down. `copytruncate` "
            "loses lines that are written while it copies: let logrotate rename instead.",
            "Accept the loss with the command beside the finding.",
        ),
    ),
    RunbookEntry(
        kind="unknown",
        title="Possible loss",
        meaning="While no agent was watching, a file was emptied, or names in its folder changed: "
        "lines may have been written and deleted. That can neither be proven nor ruled out. "
        "Nothing else is known to be missing. The finding names the file, or the folder with the "
        "files that appeared and disappeared.",
        steps=(
            "On the host, find out why the agent was down, or stalled, at that time: "
            "`systemctl status penstock-agent`, `journalctl -k` (memory, a suspended machine), and "
            "the agent's log.",
            "Ask the application's owner what was deleted or emptied. To see how much: "
            "`penstock consume TOPIC --from TIME --events` shows the last line before that time "
            "and the first one after it.",
            "If there is a copy of the file, ship it into a topic of its own with a second agent "
            "(docs/how-to/replay-a-day.md).",
            "Accept it with the command beside the finding, and give what you know as the reason.",
            "If a rotation with `copytruncate` emptied it, let logrotate rename instead.",
        ),
    ),
    RunbookEntry(
        kind="duplicated",
        title="Duplicated",
        meaning="A tier has events more than once, or a table contains a file that no load has "
        "written.",
        steps=(
            "Events that are twice in files that loads have written: the command beside the "
            "finding rewrites these hours, with each event once.",
            "A file that no load has written: a rebuild leaves it there. The command beside the "
            "finding moves it out of the table; type it where the loader runs. The next load "
            "checks the hour again.",
            "Twice at the brokers: the loader drops the second. See who else writes to the topic "
            "(`penstock acls list`).",
        ),
    ),
    RunbookEntry(
        kind="changed",
        title="Changed",
        meaning="A tier has as many events as the one before, with different bytes.",
        steps=(
            "In the files: the command beside the finding rewrites these hours from the brokers.",
            "At the brokers: a disk has damaged its data, or another producer wrote. See the "
            "broker's log and the kernel's (`dmesg`), and restore the partition from a replica "
            "(stop the broker, remove the partition's directory, start it) or a backup.",
            "See who may write to the topic: `penstock acls list`.",
        ),
    ),
    RunbookEntry(
        kind="damaged",
        title="Damaged messages",
        meaning="A broker has a batch whose bytes are not those that were sent. Consumers that "
        "check what they read stop there. The topic is `changed` until somebody accepts that, and "
        "the broker's row and `penstock status` warn until the batch is gone.",
        steps=(
            "If another replica has the partition: stop the broker, remove the partition's "
            "directory, and start the broker. It copies the partition, and the warning is over. "
            "Or do the same with a backup of the directory.",
            "On a single broker the warning ends when retention removes the segment. What has "
            "landed can be deleted earlier: Kafka's `kafka-delete-records.sh`, with the offset "
            "after the damage, deletes everything before it.",
            "A consumer that stops there continues behind it: `penstock groups reset GROUP "
            "--topic TOPIC:PARTITION --to-offset OFFSET`.",
            "See the kernel's log (`dmesg`) and the disk (`smartctl`): more may follow.",
        ),
    ),
    RunbookEntry(
        kind="logins",
        title="Refused logins",
        meaning="A broker refuses the logins of a user from an address, again and again for at "
        "least 20 seconds. The broker's row and `penstock status` say which and why, and so does "
        "the line about an agent that is silent since. It is over two minutes after the last "
        "refusal, or with the next login.",
        steps=(
            "A password that was changed: give the program on that host the new one (the file "
            "that its `security` names), and restart it. Or set the password that it has: "
            "`penstock users password NAME`.",
            "A user that was removed: `penstock users list`, `penstock users add NAME`.",
            "Not a program of yours: somebody tries to log in. Refusals are delayed, more with "
            "each (docs/broker-access.md).",
        ),
    ),
    RunbookEntry(
        kind="unproven",
        title="Not proven",
        meaning="An entry of the ledger never arrived, or two entries contradict each other, so "
        "what they should prove is unknown. The events themselves may all be there.",
        steps=(
            "Check that the program that wrote the journal runs, and can write to `_audit`: if it "
            "cannot, its log says `ledger waits`. Once it can, the entry arrives by itself.",
            "If its data directory was lost or restored, the entry never arrives: accept it with "
            "the command beside the finding.",
        ),
    ),
    RunbookEntry(
        kind="unnamed",
        title="Missing, not identified",
        meaning="The sums of a time differ, and it is unknown which events are missing, as a "
        "program reports only sums.",
        steps=(
            "In the files: the command beside the finding rewrites these hours.",
            "At the brokers: compare with the log files of that time, then accept the difference "
            "with the command beside the finding.",
        ),
    ),
    RunbookEntry(
        kind="unloaded",
        title="Not loaded",
        meaning="Loads of a table fail, or no load begins. Nothing is lost while the brokers keep "
        "the events (`retention.ms`, seven days by default).",
        steps=(
            "Run the command beside it on the loader's host. It comes from the loader, with its "
            "reason.",
            "`penstock load --config loader.yaml --dry-run` shows what would be read.",
            "A topic whose schema was deleted: `penstock changes` has who deleted it. `penstock "
            "schemas list --deleted` lists its versions, `penstock schemas show TOPIC-value "
            "--version N` shows one, and `penstock schemas register FILE --topic TOPIC` restores "
            "it.",
            "A topic created by a typo has no schema either. Delete it: `penstock topics delete "
            "TOPIC`; or retire it: `penstock audit accept TOPIC --whole-topic --reason typo`.",
        ),
    ),
    RunbookEntry(
        kind="late",
        title="Late",
        meaning="Hours of a topic have waited for a program for longer than `alerts.late`.",
        steps=(
            "The topic's page shows what it waits for. An agent: `penstock agent --status` on its "
            "host. The loader: see when it last ran. A broker: `ledger waits` in its log. A "
            "mirror: `systemctl restart penstock-mirror` on its host.",
            "Retire a host that is gone for good: `penstock audit retire HOST --reason REASON`.",
            "Retire a root that is not loaded into any more: "
            "`penstock audit retire ROOT --reason REASON`.",
        ),
    ),
    RunbookEntry(
        kind="silent",
        title="Silent",
        meaning="An agent has not been heard from, so probably nothing is read on its host.",
        steps=(
            "On the host: `systemctl status penstock-agent`, `penstock agent --status`. Start it "
            "(`systemctl restart penstock-agent`): it continues where it stopped, also in files "
            "that were rotated meanwhile.",
            "If the alert says that another agent has replaced it, its data directory was emptied "
            "or deleted, and its id will never be heard again: retire that, with the alert's "
            "command (`penstock audit retire HOST --agent-id ID`).",
            "If the alert says that its logins are refused, see Refused logins: a restart mends "
            "nothing.",
            "If it runs, check that it reaches the brokers: its log, `penstock agent --status`.",
            "If none of several agents is heard, see the brokers and their logs: one with a full "
            "disk takes no lines. Make room on it, and all agents continue.",
            "Retire a host that is gone for good: `penstock audit retire HOST --reason REASON`.",
        ),
    ),
    RunbookEntry(
        kind="dead",
        title="Dead letters",
        meaning="Too many of a topic's lines do not parse, or do not fit its schema. They are not "
        "lost: lines that an agent rejected are in the topic `TOPIC.dead`, events that a loader "
        "could not decode are in the folder `_dead/TOPIC` below its root, each with the reason. "
        "The alert names the places.",
        steps=(
            "In the topic: `penstock consume TOPIC.dead --from beginning --to-end --events`.",
            "In the folder, which has Parquet files: the alert's query with `spark-sql` counts "
            "them by reason; docs/loader-in-detail.md explains the reasons.",
            "If the application writes another format since a release, change the agent's input "
            "(docs/agent-configuration.md), or the schema: `penstock schemas check` says whether a "
            "new one is compatible.",
            "Events that a former schema would decode: correct the schema, then "
            "`penstock load --rebuild HOUR` loads the hour again while the brokers have it.",
            "Lines that were wrongly rejected: ship their file again into a topic of its own "
            "(docs/how-to/replay-a-day.md).",
        ),
    ),
    RunbookEntry(
        kind="altered",
        title="Altered",
        meaning="Too many of a topic's lines differ from their files: characters were invalid, "
        "lines were cut, or fields are not in the schema.",
        steps=(
            "The topic's page shows what was altered, in which files, by which input.",
            "Invalid characters: set `encoding` at that input, as the page suggests.",
            "Lines cut: raise `max_line_bytes`. Fields dropped: register a schema that has them.",
            "If it is intended, raise `alerts.altered`.",
        ),
    ),
    RunbookEntry(
        kind="away",
        title="Away",
        meaning="The ledger of a cluster cannot be read, a broker that holds replicas is away, or "
        "a schema registry does not answer. The alert names it.",
        steps=(
            "Run the command beside it. `penstock up` restarts programs that have ended: one that "
            "stays away there hangs, or cannot start, and its log says why.",
            "A broker: `penstock status`, and `systemctl status penstock-broker` on its host. "
            "Start it: it catches up by itself. Other brokers lead its partitions meanwhile.",
            "The ledger: check from the audit's host that the brokers can be reached, and that its "
            "login and certificates are still accepted. The audit continues where it stopped.",
            "A registry: `systemctl restart penstock-registry` on its host. Meanwhile agents use "
            "the schemas that they know, and loads wait.",
            "A broker that is gone for good: replace it (docs/how-to/run-a-cluster.md).",
        ),
    ),
    RunbookEntry(
        kind="clock",
        title="Clock",
        meaning="The clock of a host is off by more than two minutes. Lines without a time of "
        "their own land in the wrong hours, and its agent reports its progress by that clock. "
        "Topics that wait for it are not called late meanwhile.",
        steps=(
            "On the host: `timedatectl` shows whether the clock is synchronized, "
            "`timedatectl set-ntp true` synchronizes it.",
            "Then `systemctl restart penstock-agent`: a running agent follows a clock that jumps "
            "ahead only slowly, and its hours wait meanwhile.",
            "Rows that have already landed stay in the hours of the wrong clock.",
        ),
    ),
    RunbookEntry(
        kind="signatures",
        title="Signatures",
        meaning="Statements in the ledger are not signed as those of their program must be: somebody "
        "else has written them, or an older release of the program. Those that are forged, signed "
        "with an unknown key or another program's, or unsigned although signatures are required, "
        "were not counted, and true statements still are. Altered ones may have been: the hours "
        "that they may be about are not complete until an operator accepts them.",
        steps=(
            "`penstock audit keys` lists journals, keys and faults. Find out who may write to "
            "`_audit`: `penstock acls list --topic _audit`, and change the passwords of these "
            "users.",
            "An unknown key on a host that was reinstalled, or whose `signing-key` was lost: "
            "compare the fingerprint on the host, and put its public key into the folder "
            "`signatures.keys_dir` of the audit. Without such a folder, start the program with an "
            "empty data directory: it begins a journal of its own.",
            "Statements without signatures after an older release was installed again: they are "
            "rejected in a journal that has a key. Install the newer release. Its first statement "
            "begins the chain anew, and what the older one stated since the last signature is "
            "unproven: accept it with the command beside the finding.",
            "Unsigned, although `signatures.require` is set: install a release that signs on that "
            "host.",
            "Altered: compare the topics' hours at that time with the log files, then accept them "
            "with the command beside the finding. The alert ends a day after the last fault.",
        ),
    ),
    RunbookEntry(
        kind="mirror",
        title="Mirror away",
        meaning="A mirror, which reports its health once a window, has not done so for two and a "
        "half windows. Meanwhile nothing is copied; the clusters themselves work.",
        steps=(
            "On its host: `systemctl status penstock-mirror`, and its log. Start it: it continues "
            "at the ends of the copies, and copies nothing twice.",
            "If it runs, it cannot write to `_audit` of its target cluster: its log says `ledger "
            "waits`, with the reason.",
            "A mirror that is gone for good, or has moved to another host: "
            "`penstock audit retire HOST --since TIME --reason REASON`.",
        ),
    ),
    RunbookEntry(
        kind="loader",
        title="Loads have stopped",
        meaning="A loader has begun no load for three intervals: that of `penstock load --every`, "
        "or `started_every` in its configuration. Events wait at the brokers until they are "
        "loaded, or retention deletes them.",
        steps=(
            "On its host: `systemctl status penstock-load.timer penstock-load.service`, or the "
            "scheduler that starts it. A load that takes too long logs one line.",
            "Load once by hand, and read the output: `penstock load --config FILE`.",
            "A loader that has moved to another host: "
            "`penstock audit retire HOST --since TIME --reason REASON`.",
        ),
    ),
    RunbookEntry(
        kind="inputs",
        title="Inputs that an agent does not read",
        meaning="An agent does not read or ship some of its lines: it rejects a file of "
        "`inputs_dir` or its configuration, may not read files or folders, or has stopped an input "
        "that has no schema or whose topic takes no batches. The lines stay in their files until "
        "these are rotated away, and no count includes them.",
        steps=(
            "On the host: `penstock agent --status` lists every problem.",
            "A rejected file: `penstock check-config inputs FILE` (`agent FILE` for the "
            "configuration) names each mistake by line. The agent takes a mended file by itself, "
            "the configuration at the next reload. What the file said before stays in effect, but "
            "not over a restart.",
            "Permission denied: `namei -l PATH` shows which folder or file, and whose it is. Give "
            "the agent's group read access; it tries again by itself.",
            "A stopped input: register the schema, or put the topic right, as the text says.",
        ),
    ),
    RunbookEntry(
        kind="zookeeper",
        title="ZooKeeper",
        meaning="A broker has lost its session with ZooKeeper, or not all ZooKeeper servers serve. "
        "Brokers still serve the partitions that they lead; without ZooKeeper no leader is elected "
        "and no topic changes.",
        steps=(
            "On each server: `systemctl status penstock-zookeeper`, and "
            "`penstock zookeeper --config FILE --status`. Start those that do not serve: more than "
            "half of them must.",
            "If all of them serve, check that the broker's host reaches them: port, TLS, login. "
            "Its log says `zookeeper session lost`.",
            "Full disks stop ZooKeeper, too: `df` on its hosts (docs/zookeeper.md).",
        ),
    ),
    RunbookEntry(
        kind="certificate",
        title="Certificate expires",
        meaning="A certificate that a program or this audit uses expires within "
        "`alerts.certificates`. The alert names the host and the file. After that, its peers "
        "reject the connection.",
        steps=(
            "Renew it and replace the file: every program reloads it by itself.",
            "Certificates issued by `penstock certificates`: "
            "`penstock certificates renew` (docs/secure-connections.md).",
            "By Ansible: `rotate_certificates.yml`, host by host (docs/how-to/certificates.md).",
        ),
    ),
    RunbookEntry(
        kind="disk",
        title="Disk full or nearly full",
        meaning="A disk that a program or this audit writes to has less than `alerts.disk` left, "
        "or less than a tenth if the disk is small. The alert names the host and the directory.",
        steps=(
            "Make room on that disk, or enlarge it: `df`, `du`.",
            "A broker with a full disk takes no lines; agents wait, and continue by themselves. A "
            "restart makes no room. Never remove files of its data directory by hand.",
            "An agent with a full disk stops reading; its log files wait. It continues by itself.",
            "A broker: shorten the retention of large topics (`penstock topics alter`), or move "
            "partitions away (docs/how-to/run-a-cluster.md).",
            "The audit: shorten `retention` in its configuration. Its database can also be "
            "deleted while the audit is stopped: it is rebuilt from the ledger.",
        ),
    ),
)


def page() -> str:
    """Makes the HTML page that the audit serves."""
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8" />',
            '<meta name="viewport" content="width=device-width, initial-scale=1" />',
            '<meta name="color-scheme" content="light dark" />',
            "<title>Runbook · Penstock audit</title>",
            '<link rel="icon" href="static/icon.svg" type="image/svg+xml" />',
            *(
                f'<link rel="stylesheet" href="static/css/{name}.css" />'
                for name in ("colours", "shell", "cards", "runbook")
            ),
            '<script src="static/js/theme.js"></script>',
            "</head>",
            "<body>",
            '<header class="top"><div class="top-row"><a class="brand" href="./">'
            '<img src="static/icon.svg" alt="" width="26" height="26" />'
            '<span>Penstock <span class="soft">audit</span></span></a></div></header>',
            '<main id="content" class="runbook">',
            "<h1>Runbook</h1>",
            f"<p>{_html(INTRODUCTION)}</p>",
            *(line for entry in ENTRIES for line in _section(entry)),
            "</main>",
            "</body>",
            "</html>\n",
        )
    )


def _section(entry: RunbookEntry) -> Iterator[str]:
    yield f'<section class="card" id="{entry.kind}" aria-labelledby="title-{entry.kind}">'
    yield f'<h2 id="title-{entry.kind}">{_html(entry.title)} <code>{entry.kind}</code></h2>'
    yield f"<p>{_html(entry.meaning)}</p>"
    yield "<ul>"
    yield from (f"<li>{_html(step)}</li>" for step in entry.steps)
    yield "</ul>"
    yield "</section>"


def _html(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def markdown() -> str:
    """Makes docs/runbook.md."""
    return "\n".join(
        (
            "# Runbook",
            "",
            "<!-- Made from audit/cures/runbook.py by `make reference`. -->",
            "",
            f"*{INTRODUCTION} The audit serves this page at `/runbook`. [Twelve "
            "incidents](incidents.md) shows what some of them look like, and their cures.*",
            *(line for entry in ENTRIES for line in _paragraphs(entry)),
            "",
        )
    )


def _paragraphs(entry: RunbookEntry) -> Sequence[str]:
    steps = [f"- {step}" for step in entry.steps]
    return ("", f"## {entry.title} (`{entry.kind}`)", "", entry.meaning, "", *steps)
