"""What completion knows of commands without their modules is what the commands themselves say."""

from collections.abc import Iterator

import click
import pytest

from penstock.cli.lazy_group import Lazy, LazyGroup
from penstock.cli.outlines import outlined
from penstock.command_line import penstock
from penstock.command_outlines import asks


def commands_below(group: LazyGroup) -> Iterator[Lazy]:
    """All that are in modules of their own."""
    for lazy in group.table.values():
        if not group.is_beside(lazy):
            yield lazy
        if isinstance(command := lazy.command(), LazyGroup):
            yield from commands_below(command)


assert isinstance(penstock, LazyGroup)
COMMANDS = list(commands_below(penstock))


@pytest.mark.parametrize("lazy", COMMANDS, ids=lambda lazy: lazy.where)
def test_an_outline_offers_what_its_command_offers(lazy: Lazy) -> None:
    real, outline = lazy.command(), outlined(lazy)
    assert offers(outline, "-") == offers(real, "-")
    assert offers(outline, "") == offers(real, "")
    assert [each.name for each in outline.params] == [each.name for each in real.params]
    for wanted, found in zip(real.params, outline.params, strict=True):
        assert (found.nargs, found.multiple) == (wanted.nargs, wanted.multiple)
        assert asks(found) == asks(wanted)
        if not asks(wanted):
            for incomplete in ("", "f", "Z"):
                assert offers(found, incomplete) == offers(wanted, incomplete)


def offers(what: click.Command | click.Parameter, incomplete: str) -> list[tuple[object, ...]]:
    context = click.Context(what if isinstance(what, click.Command) else click.Command(None))
    found = what.shell_complete(context, incomplete)
    return [(each.type, each.value, each.help) for each in found]
