"""`penstock verify`, as somebody types it: what it prints, and its exit codes."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest
from pyarrow import orc

from ground.signatures.keys import SigningKey
from tests.penstock.running import Ended, penstock
from tests.penstock.verify.signed_heads import Fleet
from tests.penstock.verify.signed_tables import (
    CERTIFICATE,
    TABLE,
    SignedTable,
    Signers,
    hour_text,
    signed_table,
)

WHOLE: Final = 0
ALTERED: Final = 1
NOT_COMPLETE: Final = 2
NOT_CERTIFIED: Final = 3
NOT_VERIFIABLE: Final = 4
HOURS: Final = 4
DAY: Final = f"{TABLE}/dt=2026-11-30"


@pytest.fixture
def signers() -> Signers:
    return Signers.new()


@pytest.fixture
def table(tmp_path: Path, signers: Signers) -> SignedTable:
    signers.write_public(tmp_path / "keys")
    return signed_table(tmp_path / "root", signers, range(HOURS))


def verify(table: SignedTable, *options: str, path: Path | None = None) -> Ended:
    keys = str(table.root.parent / "keys")
    return penstock("verify", str(path or table.root), "--keys", keys, *options)


def document(table: SignedTable, *options: str, code: int) -> Any:
    ended = verify(table, "--json", *options)
    assert (ended.returncode, ended.stderr) == (code, "")
    content = json.loads(ended.stdout)
    assert content["exit_code"] == code
    return content


def kinds(table: SignedTable, *options: str, code: int) -> dict[str, str]:
    """The faults: the path of the first one by kind."""
    (checked,) = document(table, *options, code=code)["tables"]
    return {fault["kind"]: fault["first"][0]["path"] for fault in checked["faults"]}


def test_a_whole_table(table: SignedTable) -> None:
    ended = verify(table)
    assert (ended.returncode, ended.stderr) == (WHOLE, "")
    begin, _, end = ended.stdout.partition("(")
    assert begin == (
        "✓ 4 hours of clicks, from 2026-11-30 00:00 to 2026-11-30 04:00 UTC, are whole: "
        "60 rows in 9 files "
    )
    assert end.endswith("), signed by audit.pub and loader.pub.\n")
    assert verify(table, path=table.root / TABLE).stdout == ended.stdout
    lines = verify(table, "--all").stdout.splitlines()
    assert lines[1] == f"✓ {DAY}/hour=01: certificate 5, 16 rows, 3 files"
    assert len(lines) == HOURS + 1


def test_a_root_has_a_verdict_on_each_table(tmp_path: Path, signers: Signers) -> None:
    signers.write_public(tmp_path / "keys")
    fleet = Fleet([TABLE, "views"])
    table = signed_table(tmp_path / "root", signers, range(HOURS), fleet=fleet)
    views = signed_table(table.root, signers, range(2), table="views", fleet=fleet)
    path = views.files(0)[0]
    path.write_bytes(b"\x00" + path.read_bytes()[1:])
    ended = verify(table)
    assert ended.returncode == ALTERED
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("✓ 4 hours of clicks")
    assert lines[1].startswith("✗ views is altered: 1 whole hour from")
    changed = f"  changed file: {path.relative_to(table.root)} is not the file that was certified"
    assert lines[2].startswith(changed)
    assert verify(table, path=table.root / TABLE).returncode == WHOLE
    # A later fault of the same kind is counted.
    for later_path in views.files(1):
        later_path.write_bytes(b"")
    assert "(and 3 more)." in verify(table).stdout


def test_a_day_or_a_range_limits_what_is_read(table: SignedTable) -> None:
    table.files(3)[0].write_bytes(b"altered")
    (checked,) = document(table, "--from", "2026-11-30T00:00", "--to", "2026-11-30T02:30", code=0)[
        "tables"
    ]
    assert (checked["whole_hours"], checked["end"]) == (3, "2026-11-30T03:00Z")
    assert kinds(table, "--from", "2026-11-30T03", "--to", "2026-11-30T04", code=ALTERED) == {
        "changed file": str(table.files(3)[0].relative_to(table.root))
    }
    # All of its hours have to be there.
    found = kinds(table, "--from", "2026-11-29T23:00", "--to", "2026-11-30T01:00", code=2)
    assert found == {"missing hour": f"{TABLE}/dt=2026-11-29/hour=23"}
    # The chain is that of the table.
    table.certificate(3).unlink()
    range_ = ("--from", "2026-11-30T00", "--to", "2026-11-30T01")
    assert set(kinds(table, *range_, code=ALTERED)) == {"missing certificate"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--day", "2026-11-30", "--from", "2026-11-30T00"), "pass only one of --day"),
        (("--to", "2026-11-30T00"), "--to needs --from"),
        (("--from", "2026-11-30T02", "--to", "2026-11-30T01"), "the range must begin"),
        (("--from", "2150-01-01T00"), "the range must begin"),
    ],
)
def test_wrong_usage_is_no_verdict(
    table: SignedTable, options: tuple[str, ...], words: str
) -> None:
    ended = verify(table, *options)
    assert (ended.returncode, ended.stdout) == (NOT_VERIFIABLE, "")
    assert words in ended.stderr


def test_complete_hours_without_a_certificate(table: SignedTable) -> None:
    for hour in (4, 5):
        table.add_rows(hour)
        (table.folder(hour) / "_SUCCESS").write_text("{}")
    assert kinds(table, code=NOT_CERTIFIED) == {"hour without certificate": f"{DAY}/hour=04"}
    allowed = verify(table, "--allow-uncertified")
    assert allowed.returncode == WHOLE
    assert allowed.stdout.endswith("\n  2 complete hours without a certificate.\n")


def test_a_table_without_any_certificate_is_never_whole(table: SignedTable) -> None:
    for hour in range(HOURS):
        table.certificate(hour).unlink()
    table.newest.unlink()
    options = ("--allow-uncertified", "--allow-missing")
    assert kinds(table, *options, code=NOT_CERTIFIED) == {"hour without certificate": TABLE}
    shutil.rmtree(table.root / TABLE / "dt=2026-11-30")
    (table.root / DAY).mkdir()
    assert kinds(table, *options, code=NOT_COMPLETE) == {"missing hour": TABLE}


def test_open_hours(table: SignedTable) -> None:
    table.add_rows(4)
    later = verify(table)
    assert (later.returncode, later.stdout.splitlines()[1:]) == (
        WHOLE,
        ["  1 later hour not yet complete."],
    )
    (table.folder(2) / "_SUCCESS").unlink()
    assert kinds(table, code=NOT_COMPLETE) == {"open hour": f"{DAY}/hour=02"}
    (table.folder(2) / "_DAMAGED").write_text("{}")
    assert kinds(table, code=ALTERED) == {"damaged hour": f"{DAY}/hour=02"}


def test_hours_without_rows(table: SignedTable) -> None:
    table.add_rows(8)
    table.certify(8)
    assert kinds(table, code=NOT_COMPLETE) == {"missing hour": f"{DAY}/hour=04"}
    complete = {"run": 7, "complete": [["dt=2026-11-30/hour=00", "dt=2026-11-30/hour=08"]]}
    (table.root / TABLE / "_complete_hours.json").write_text(json.dumps(complete))
    ended = verify(table)
    assert ended.returncode == WHOLE
    assert "4 more hours had no rows, 4 of them by an unsigned statement" in ended.stdout
    table.empty_hours = ((hour_text(4), hour_text(8)),)
    table.write_newest()
    assert "\n  4 more hours had no rows.\n" in verify(table).stdout
    # A folder that is put there has not a signed certificate, but it contradicts one.
    table.add_rows(5)
    (table.folder(5) / "_SUCCESS").write_text("{}")
    options = ("--allow-uncertified",)
    assert kinds(table, *options, code=ALTERED) == {"unlisted file": f"{DAY}/hour=05"}


def test_removed_certificates(table: SignedTable) -> None:
    table.certificate(2).unlink()
    found = kinds(table, code=ALTERED)
    assert found == {
        "missing certificate": TABLE,
        "hour without certificate": f"{DAY}/hour=02",
    }
    words = verify(table).stdout
    assert f"has no certificate of number 3 (number 2 is {DAY}/hour=01" not in words  # superseded
    assert f"has no certificate of number 3 (number 4 is {DAY}/hour=03/{CERTIFICATE})" in words
    table.remove_hour(2)
    found = kinds(table, "--allow-missing", code=NOT_COMPLETE)
    assert found == {"missing hour": f"{DAY}/hour=02"}
    # Without the oldest hours it is whole, if that is expected.
    table.remove_hour(0)
    table.remove_hour(1)
    (checked,) = document(table, code=ALTERED)["tables"]
    (missing,) = checked["faults"]
    assert [fault["path"] for fault in missing["first"]] == [
        TABLE,
        f"{DAY}/hour=01/{CERTIFICATE}",  # the newest one
    ]
    ended = verify(table, "--allow-missing")
    assert ended.returncode == WHOLE
    assert "certificates of the chain not in place" in ended.stdout


def test_only_a_memory_knows_of_a_rollback_of_everything(
    table: SignedTable, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table.root, copy)
    table.add_rows(HOURS)
    table.certify(HOURS)
    memory = tmp_path / "seen.json"
    options = ("--remember", str(memory))
    assert verify(table, *options).returncode == WHOLE
    seen = memory.read_bytes()
    shutil.rmtree(table.root)
    shutil.copytree(copy, table.root)
    assert verify(table).returncode == WHOLE
    assert kinds(table, *options, code=ALTERED) == {"rollback": TABLE}
    assert memory.read_bytes() == seen
    # Another history of the same length.
    table.certificates.pop()
    table.add_rows(HOURS, rows=7)
    table.certify(HOURS)
    assert kinds(table, *options, code=ALTERED) == {"rollback": TABLE}
    # No table at all.
    shutil.rmtree(table.root / TABLE)
    shutil.rmtree(table.newest.parent)
    assert kinds(table, *options, code=ALTERED)["rollback"] == TABLE
    assert memory.read_bytes() == seen


def test_a_memory_moves_forward(table: SignedTable, tmp_path: Path) -> None:
    memory = tmp_path / "seen.json"
    for number in (HOURS + 1, HOURS + 2):
        assert verify(table, "--remember", str(memory)).returncode == WHOLE
        assert json.loads(memory.read_bytes())["tables"][TABLE]["number"] == number
        table.add_rows(HOURS)
        table.certify(HOURS)
    memory.write_bytes(b"\xff{")
    ended = verify(table, "--remember", str(memory))
    assert (ended.returncode, ended.stdout) == (NOT_VERIFIABLE, "")
    assert "was not written by --remember" in ended.stderr
    memory.write_text('{"version": 2, "tables": {}}')
    assert "has the version 2" in verify(table, "--remember", str(memory)).stderr


def test_moved_certificates(table: SignedTable, signers: Signers) -> None:
    views = signed_table(table.root, signers, range(2), table="views")
    table.certificate(3).write_bytes(views.certificate(0).read_bytes())
    table.certificate(2).write_bytes(table.certificate(0).read_bytes())
    content = document(table, code=ALTERED)
    misplaced = next(
        fault
        for fault in content["tables"][0]["faults"]
        if fault["kind"] == "misplaced certificate"
    )
    assert [fault["words"] for fault in misplaced["first"]] == [
        f"is of the hour {hour_text(0)}, not of dt=2026-11-30/hour=02",
        "is of the table views, not of clicks",
        f"is of the hour {hour_text(0)}, not of dt=2026-11-30/hour=03",
    ]


def test_a_renamed_folder(table: SignedTable) -> None:
    (table.root / TABLE).rename(table.root / "renamed")
    table.newest.parent.rename(table.newest.parent.with_name("renamed"))
    first = f"renamed/dt=2026-11-30/hour=00/{CERTIFICATE}"
    assert kinds(table, code=ALTERED)["misplaced certificate"] == first


def test_two_certificates_with_one_number(table: SignedTable) -> None:
    last = table.certificates[-1]
    table.certificates.pop()
    table.add_rows(HOURS)
    table.certify(HOURS)  # another with this number
    found = kinds(table, code=ALTERED)
    assert found["repeated number"] == f"{DAY}/hour=04/{CERTIFICATE}"
    assert last.predicate.number == table.certificates[-1].predicate.number


def test_another_history(table: SignedTable) -> None:
    """The last hour was certified after other certificates than those in place."""
    table.certificates[1] = msgspec.structs.replace(
        table.certificates[1],
        predicate=msgspec.structs.replace(table.certificates[1].predicate, rows=1_000),
    )
    table.certificates[-1] = table.certificates[1]
    table.add_rows(HOURS)
    table.certify(HOURS)
    assert kinds(table, code=ALTERED) == {"broken chain": f"{DAY}/hour=04/{CERTIFICATE}"}


def test_the_statement_about_the_newest(table: SignedTable) -> None:
    old = table.newest.read_bytes()
    table.add_rows(HOURS)
    table.certify(HOURS)
    path = str(table.newest.relative_to(table.root))
    table.newest.write_bytes(old)
    assert kinds(table, code=NOT_COMPLETE) == {"outdated newest certificate": path}
    table.newest.unlink()
    assert kinds(table, code=ALTERED) == {"missing newest certificate": path}
    assert verify(table, "--allow-missing").returncode == WHOLE
    table.write_newest()
    table.remove_hour(HOURS)
    newest = f"{DAY}/hour=04/{CERTIFICATE}"
    assert kinds(table, code=ALTERED) == {"missing certificate": newest}
    # Of the whole table only this statement is left.
    shutil.rmtree(table.root / TABLE)
    assert kinds(table, code=ALTERED)["missing certificate"] == newest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": "missing"}, "has the verdict 'missing'"),
        ({"rows": -1}, "-1 rows"),
        ({"number": 0}, "has the number 0"),
        ({"counts": {"agent": 10, "hdfs": 9}}, "has 10 rows by the loader, and 9 by the audit"),
    ],
)
def test_a_signed_certificate_that_cannot_be(
    table: SignedTable, changes: dict[str, Any], words: str
) -> None:
    table.add_rows(HOURS)
    table.certify(HOURS, **changes)
    ended = verify(table)
    assert ended.returncode == ALTERED
    assert f"  contradictory certificate: {DAY}/hour=04/{CERTIFICATE} has" in ended.stdout
    assert words in ended.stdout


def test_a_signed_certificate_of_other_files(table: SignedTable) -> None:
    """Two names of one file, a file of another hour, and one that readers skip."""
    table.add_rows(HOURS)
    certificate = table.certify(HOURS)
    (subject,) = certificate.subject
    others = [f"{DAY.partition('/')[2]}/hour=03/part-0.parquet", f"{subject.name}/../_x"]
    subjects = (
        *(subject, subject),
        *(msgspec.structs.replace(subject, name=name) for name in others),
    )
    changed = msgspec.structs.replace(certificate, subject=subjects)
    table.certificates[-1] = changed
    table.certificate(HOURS).write_bytes(table.signers.signed(changed))
    table.write_newest()
    (checked,) = document(table, code=ALTERED)["tables"]
    (fault,) = checked["faults"]
    assert [first["words"] for first in fault["first"]] == [
        f"lists {subject.name} twice",
        *(f"lists {name}, which is not a file of its hour" for name in others),
    ]


def test_the_newest_of_another_table(table: SignedTable, signers: Signers) -> None:
    views = signed_table(table.root, signers, range(2), table="views")
    shutil.copy(views.newest, table.newest)
    path = str(table.newest.relative_to(table.root))
    faults = document(table, code=ALTERED)["tables"][0]["faults"]
    assert [(fault["kind"], fault["first"][0]["path"]) for fault in faults] == [
        ("misplaced certificate", path)
    ]


def test_rows_are_counted(table: SignedTable) -> None:
    table.add_rows(HOURS)
    table.certify(HOURS, rows=11, counts={"hdfs": 11})
    words = "certifies 11 rows, and its files have 10"
    assert words in verify(table).stdout
    assert kinds(table, code=ALTERED) == {"wrong number of rows": f"{DAY}/hour=04/{CERTIFICATE}"}


def test_rows_of_orc_files(table: SignedTable) -> None:
    table.folder(HOURS).mkdir()
    orc.write_table(pa.table({"seq": [1, 2, 3]}), table.folder(HOURS) / "part-0.orc")
    table.certify(HOURS, rows=3, counts={})
    ended = verify(table)
    assert ended.returncode == WHOLE
    assert "63 rows in 10 files" in ended.stdout
    assert "not counted" not in ended.stdout
    table.certify(HOURS, rows=4, counts={})
    assert "certifies 4 rows, and its files have 3" in verify(table).stdout


def test_other_formats(table: SignedTable) -> None:
    (table.add_rows(HOURS)).rename(table.folder(HOURS) / "part-0.json")
    table.certify(HOURS, rows=3, counts={})
    ended = verify(table)
    assert ended.returncode == WHOLE
    assert "The rows of some files were not counted" in ended.stdout


def test_a_file_that_is_no_parquet_file_although_it_is_certified(table: SignedTable) -> None:
    (table.folder(HOURS)).mkdir(parents=True)
    path = table.folder(HOURS) / "part-0.parquet"
    path.write_bytes(b"PAR1 nonsense PAR1")
    path.rename(path.with_suffix(".json"))
    table.certify(HOURS, rows=3, counts={})
    certificate = table.certificates.pop()
    subject = msgspec.structs.replace(
        certificate.subject[0], name=certificate.subject[0].name.replace(".json", ".parquet")
    )
    table.certificates.append(msgspec.structs.replace(certificate, subject=(subject,)))
    table.certificate(HOURS).write_bytes(table.signers.signed(table.certificates[-1]))
    table.write_newest()
    path.with_suffix(".json").rename(path)
    assert kinds(table, code=ALTERED) == {"wrong number of rows": f"{DAY}/hour=04/part-0.parquet"}


@pytest.mark.parametrize(
    "path",
    [
        f"{DAY}/hour=02/part-more.parquet",
        f"{DAY}/hour=02/more/part.parquet",
        f"{DAY}/hour=02/_more=1/part.parquet",
        f"{DAY}/hour=2/part.parquet",
        f"{DAY}/part.parquet",
        f"{TABLE}/part.parquet",
        f"{TABLE}/dt=2026-11-31/hour=00/part.parquet",
        f"{TABLE}/dt=2026-11-30x/hour=00/part.parquet",
    ],
)
def test_rows_that_are_not_certified(table: SignedTable, path: str) -> None:
    """Spark reads them with the table."""
    target = table.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(table.files(0)[0], target)
    named = kinds(table, code=ALTERED)["unlisted file"]
    assert path == named or path.startswith(f"{named}/")


def test_what_readers_skip_is_not_certified(table: SignedTable) -> None:
    for name in ("_LATE-7", ".part.parquet.crc", "_common_metadata"):
        (table.folder(2) / name).write_text("anything")
    assert verify(table).returncode == WHOLE


def test_an_unknown_key(table: SignedTable, tmp_path: Path, signers: Signers) -> None:
    keys = tmp_path / "keys"
    (keys / "audit.pub").write_bytes(SigningKey.new().public.pem)
    ended = verify(table)
    assert ended.returncode == NOT_VERIFIABLE
    key = signers.audit.public.fingerprint[:16]
    words = f"is not signed by a known key of the audit, but by the key {key}…"
    assert f"  unknown key: {DAY}/hour=00/{CERTIFICATE} {words} (and 3 more)." in ended.stdout
    # The earlier key beside the new one.
    (keys / "audit").mkdir()
    (keys / "audit" / "2025.pub").write_bytes(signers.audit.public.pem)
    ended = verify(table)
    assert ended.returncode == WHOLE
    assert ended.stdout.endswith("signed by audit/2025.pub and loader.pub.\n")


def test_a_signature_that_was_removed(table: SignedTable) -> None:
    content = json.loads(table.certificate(2).read_bytes())
    content["signatures"] = content["signatures"][:1]
    table.certificate(2).write_text(json.dumps(content))
    assert kinds(table, code=ALTERED)["missing signature"] == f"{DAY}/hour=02/{CERTIFICATE}"


def test_keys_that_are_no_use(table: SignedTable, tmp_path: Path, signers: Signers) -> None:
    keys = tmp_path / "keys"

    def refused() -> str:
        ended = verify(table)
        assert (ended.returncode, ended.stdout) == (NOT_VERIFIABLE, "")
        return ended.stderr

    (keys / "loader-2.pub").write_bytes(signers.audit.public.pem)
    assert "are the same key" in refused()
    (keys / "loader-2.pub").write_bytes(b"nonsense")
    assert "loader-2.pub: contains no public key as PEM" in refused()
    (keys / "loader-2.pub").unlink()
    (keys / "auditors.pub").write_bytes(b"of somebody else")
    assert verify(table).returncode == WHOLE
    (keys / "loader.pub").unlink()
    assert "has no key of the loader: name its public key loader.pub" in refused()
    shutil.rmtree(keys)
    assert "is not a folder" in refused()


def test_a_path_without_tables(table: SignedTable, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, words in (
        (tmp_path / "empty", "has no folder dt="),
        (tmp_path / "no", "not a folder"),
    ):
        ended = verify(table, path=path)
        assert (ended.returncode, ended.stdout) == (NOT_VERIFIABLE, "")
        assert words in ended.stderr


def test_links_are_followed_within_the_path_only(table: SignedTable, tmp_path: Path) -> None:
    inside, outside = table.files(0)[0], table.files(2)[0]
    hidden = table.folder(0) / "_moved"
    inside.rename(hidden)
    inside.symlink_to(hidden)
    assert verify(table).returncode == WHOLE
    outside.rename(tmp_path / "elsewhere")
    outside.symlink_to(tmp_path / "elsewhere")
    path = str(outside.relative_to(table.root))
    assert kinds(table, code=NOT_VERIFIABLE) == {"unreadable file": path}


def test_a_table_that_leads_elsewhere_is_not_passed_over(
    table: SignedTable, tmp_path: Path
) -> None:
    (table.root / "lost+found").symlink_to(tmp_path / "keys")  # no name of a table
    assert verify(table).returncode == WHOLE
    (table.root / "views").symlink_to(tmp_path / "keys")
    content = document(table, code=NOT_VERIFIABLE)
    assert [checked["verdict"] for checked in content["tables"]] == ["whole", "not verifiable"]


def test_hours_long_ago(tmp_path: Path, signers: Signers) -> None:
    """Such as those of clocks that were never set."""
    signers.write_public(tmp_path / "keys")
    table = signed_table(tmp_path / "root", signers, range(-520_000, -519_998))
    assert verify(table, "--all").stdout.startswith(f"✓ {TABLE}/dt=1967-")


def test_what_is_no_file(table: SignedTable) -> None:
    pipe, folder = table.files(0)[0], table.files(1)[0]
    pipe.unlink()
    os.mkfifo(pipe)
    folder.unlink()
    folder.mkdir()
    (checked,) = document(table, code=NOT_VERIFIABLE)["tables"]
    (fault,) = checked["faults"]
    assert [first["words"] for first in fault["first"]] == ["is not a file"] * 2
    path = table.certificate(3)
    path.unlink()
    path.symlink_to(path.name)  # a loop
    assert verify(table).returncode in {ALTERED, NOT_VERIFIABLE}


def test_a_certificate_is_never_read_beyond_its_limit(table: SignedTable) -> None:
    with table.certificate(2).open("r+b") as file:
        file.truncate(1 << 40)  # without a block on the disk
    faults = kinds(table, code=ALTERED)
    assert faults["unreadable file"] == f"{DAY}/hour=02/{CERTIFICATE}"
    assert "missing certificate" in faults


def test_names_do_not_control_a_terminal(table: SignedTable) -> None:
    name = b"part-\x1b[2J\xff\n.parquet"
    path = os.fsencode(table.folder(2)) + b"/" + name
    shutil.copy(os.fsencode(table.files(0)[0]), path)
    shown = f"unlisted file: {DAY}/hour=02/part-\\x1b[2J\\xff\\n.parquet is in"
    assert shown in verify(table).stdout
    assert kinds(table, code=ALTERED)["unlisted file"].endswith("part-\\x1b[2J\\xff\\n.parquet")
    table.certify(3, topic="\x1b]0;title\x07")
    assert "\x1b" not in verify(table, "--all").stdout


def test_json_has_each_hour_if_it_is_asked_for(table: SignedTable) -> None:
    content = document(table, "--all", code=WHOLE)
    assert [hour["number"] for hour in content["hours"]] == [1, 5, 3, 4]
    assert all(hour["whole"] for hour in content["hours"])
    (checked,) = content["tables"]
    assert (checked["verdict"], checked["rows"], checked["files"]) == ("whole", 60, 9)
    assert checked["newest"]["number"] == HOURS + 1
    assert "hours" not in document(table, code=WHOLE)
