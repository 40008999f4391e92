"""Who may do what: rules add up, and what none allows is not allowed."""

import pytest

from registry.access.permissions import EVERYTHING, Operation, Permission, Permissions

READ, WRITE = Operation.READ, Operation.WRITE
RULES = Permissions(
    [
        Permission(principal="*", subjects="public-", may=(READ,)),
        Permission(principal="alice", subjects="pay", may=(READ, WRITE)),
        Permission(principal="alice", subjects="pay-extra", may=(Operation.DELETE,)),
        Permission(principal="root", subjects="*", may=tuple(Operation)),
    ]
)


@pytest.mark.parametrize(
    ("principal", "operation", "subject", "allowed"),
    [
        ("bob", READ, "public-x", True),
        ("bob", WRITE, "public-x", False),
        ("bob", READ, "public", False),
        ("bob", READ, "pay-x", False),
        ("bob", READ, None, False),
        ("alice", READ, "public-x", True),
        ("alice", WRITE, "payments-value", True),
        ("alice", WRITE, "Payments-value", False),
        ("alice", WRITE, "xpay", False),
        ("alice", Operation.DELETE, "payments", False),
        ("alice", Operation.DELETE, "pay-extra-value", True),
        ("alice", READ, None, False),
        ("alice", Operation.COMPATIBILITY, "pay", False),
        ("root", Operation.MODE, None, True),
        ("root", READ, "", True),
        ("", READ, "public-x", True),
        ("*", WRITE, "pay", False),
    ],
)
def test_what_somebody_may(
    principal: str, operation: Operation, subject: str | None, *, allowed: bool
) -> None:
    assert RULES.of(principal).may(operation, subject) is allowed


def test_without_logins_everything_is_allowed() -> None:
    assert all(EVERYTHING.may(each, subject) for each in Operation for subject in ("x", None))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"subjects": "pay-*"}, "must be a prefix"),
        ({"subjects": ""}, "must not be empty"),
        ({"principal": ""}, "must not be empty"),
        ({"may": ()}, "must not be empty"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(said: dict[str, object], why: str) -> None:
    rule = {"principal": "a", "subjects": "*", "may": (READ,)} | said
    with pytest.raises(ValueError, match=why):
        Permission(**rule)  # type: ignore[arg-type]
