"""What TLC prints is read, and told so that a person can follow it."""

import pytest

from tests.spec.trace import steps, told
from tests.spec.values import Frozen, parse, shown

PRINTED = """\
Error: Invariant SeenStays is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
/\\ log = (b1 :> <<>> @@ b2 :> <<>>)
/\\ known = (b1 :> 1 @@ b2 :> 1)
/\\ appended = 0
/\\ history = <<[leader |-> b1, epoch |-> 1, isr |-> {b1, b2}]>>

State 2: <Produce line 124, col 5 to line 132, col 96 of module Replication>
/\\ log = ( b1 :> <<[epoch |-> 1, id |-> 1]>> @@
  b2 :> <<>> )
/\\ known = (b1 :> 1 @@ b2 :> 1)
/\\ appended = 1
/\\ history = <<[leader |-> b1, epoch |-> 1, isr |-> {b1, b2}]>>

State 3: <Elect line 310, col 5 to line 313, col 29 of module Replication>
/\\ log = (b1 :> <<[epoch |-> 1, id |-> 1]>> @@ b2 :> <<>>)
/\\ known = (b1 :> 1 @@ b2 :> 2)
/\\ appended = 1
/\\ history = << [leader |-> b1, epoch |-> 1, isr |-> {b1, b2}],
   [leader |-> b2, epoch |-> 2, isr |-> {b2}] >>

1234 states generated, 99 distinct states found, 0 states left on queue.
"""
TOLD = """\
  1  Initial predicate: (leader b1, epoch 1, isr {b1 b2})
  2  Produce
       b1: log [1@1]
  3  Elect
       the map: (leader b2, epoch 2, isr {b2})
       b2 now knows of the map: (leader b2, epoch 2, isr {b2})"""


def test_a_counterexample_is_told_by_what_changed() -> None:
    assert told(steps(PRINTED)) == TOLD


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("<<1, -2>>", (1, -2)),
        ("{}", frozenset()),
        ('"words of a string"', "words of a string"),
        ("TRUE", True),
        ("[end |-> None]", Frozen({"end": "None"})),
        ("( a :> {b} @@\n  b :> {} )", Frozen({"a": frozenset({"b"}), "b": frozenset()})),
        ("{[offset |-> 0]}", frozenset({Frozen({"offset": 0})})),
    ],
)
def test_values_are_read(printed: str, value: object) -> None:
    assert parse(printed) == value


@pytest.mark.parametrize("printed", ["1 2", "[a :> 1]"])
def test_what_is_no_value_is_refused(printed: str) -> None:
    with pytest.raises(ValueError, match=r"more than|no \|->"):
        parse(printed)


def test_values_are_shown_short() -> None:
    log = parse("<<[epoch |-> 2, id |-> 7]>>")
    assert shown(log) == "[7@2]"
    assert shown(parse("{b2, b1}")) == "{b1 b2}"
