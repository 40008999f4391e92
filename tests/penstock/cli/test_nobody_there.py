"""What is said besides where nobody answers."""

from penstock.cli.address_variables import what_to_do
from penstock.report.asking import DEFAULT_AUDIT


def test_who_asks_at_the_usual_address_is_told_what_to_do() -> None:
    said = what_to_do(DEFAULT_AUDIT, DEFAULT_AUDIT, "--audit", "PENSTOCK_AUDIT")
    assert said.startswith(": `penstock up` starts everything on this machine; ")
    assert said.endswith("found with --audit, or PENSTOCK_AUDIT")


def test_who_named_an_address_knows_better() -> None:
    assert what_to_do("http://there:8090", DEFAULT_AUDIT, "--audit", "PENSTOCK_AUDIT") == ""
