"""The completion scripts of shells, and the way in which each shell passes the typed line.

All but bash's are click's. Bash also splits words at colons, such as `-b 127.0.0.1:9092`, and would
expand offered words as file patterns.
"""

from typing import Any, ClassVar, Final

import click
from click.shell_completion import CompletionItem, FishComplete, ShellComplete, ZshComplete

from penstock.cli.lazy_group import StandIn

_BASH: Final = """\
%(complete_func)s() {
    local line=${COMP_LINE:0:COMP_POINT} kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_WORDS="$line" COMP_CWORD="${line##*[[:space:]]}" \\
        %(complete_var)s=bash_complete "$1" 2> /dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(FishComplete):
    """Completion in Bash, which passes the line and its last word like fish does."""

    name = "bash"
    source_template: ClassVar[str] = _BASH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"{item.type},{item.value}"


_COMPLETERS: Final[dict[str, type[ShellComplete]]] = {
    "bash": _Bash,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


def completer(
    shell: str, group: click.Command, variable: str, stand_in: StandIn | None = None
) -> ShellComplete:
    """Returns the completion for a shell. The environment variable `variable` has the instruction;
    `stand_in` is used in place of importing a command."""
    return _COMPLETERS[shell](group, {"obj": stand_in}, "penstock", variable)
