"""The contract of replication holds in a small size, and each rule is there for a reason."""

import pytest
from msgspec.structs import replace

from harness.java.tlc import tlc_classpath, why_no_tlc
from tests.spec.checking import CheckerFailed, search
from tests.spec.instances import FLAWS, SMALL, WALKED, Flaw
from tests.spec.trace import told

pytestmark = pytest.mark.long

# One for each rule; the others in a long run, and those that need three brokers in `make spec`.
SOON = {name: flaw for name, flaw in FLAWS.items() if not flaw.takes_long}
FIRST = {flaw.rule: name for name, flaw in reversed(SOON.items())}.values()
# A search of seconds, where a machine has nothing else to do.
SECONDS = 280


@pytest.fixture(autouse=True)
def _tlc() -> None:
    if tlc_classpath() is None:
        pytest.skip(why_no_tlc())


def test_the_contract_holds_in_a_small_size() -> None:
    found = search(SMALL, seconds=SECONDS)
    assert not found.broken, told(found.story)
    assert found.complete
    assert found.distinct > 1000


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FIRST else pytest.mark.long) for name in SOON],
)
def test_a_rule_that_is_left_out_is_missed(name: str) -> None:
    flaw: Flaw = SOON[name]
    found = search(replace(flaw.instance, flaw=name), seconds=SECONDS)
    assert found.broken == flaw.breaks
    assert len(found.story) > 1
    assert found.story[0].action == "Initial predicate"


def test_random_walks_through_a_large_size_break_nothing() -> None:
    found = search(WALKED, seconds=SECONDS, walks=20)
    assert not found.broken, told(found.story)
    assert found.generated > 100


def test_a_checker_that_fails_says_why() -> None:
    with pytest.raises(CheckerFailed, match="NoSuchInvariant"):
        search(replace(SMALL, invariants=("NoSuchInvariant",)), seconds=SECONDS)
