"""What the tests of the pages rest on: blocks, commands, outputs, and a shell that tells."""

from pathlib import Path

import pytest

from tests.docs.command_lines import misunderstood, penstock_commands
from tests.docs.output import missing_line
from tests.docs.pages import Block, blocks_in
from tests.docs.shell import BlockFailed, Shell

PAGE = """
<!-- not run: it needs root -->
```sh
penstock up
```

1. A list:

   <!-- exits 1 -->
   <!-- until it succeeds -->
   ```sh
   false
   ```

<!-- run -->
Words between.
```python
print(1)
```
<!-- inputs.d/shop.yaml -->

```yaml
inputs: []
```
"""


def test_blocks_have_the_remarks_right_before_them() -> None:
    blocks = list(blocks_in(PAGE, "page.md"))
    assert blocks == [
        Block("page.md", 3, "sh", "penstock up\n", ("not run: it needs root",)),
        Block("page.md", 11, "sh", "false\n", ("exits 1", "until it succeeds")),
        Block("page.md", 17, "python", "print(1)\n"),
        Block("page.md", 22, "yaml", "inputs: []\n", ("inputs.d/shop.yaml",)),
    ]
    assert [block.is_run for block in blocks] == [False, True, False, False]
    assert (blocks[1].exit_code, blocks[1].is_tried_again) == (1, True)
    assert blocks[3].file == "inputs.d/shop.yaml"


def test_a_fence_without_an_end() -> None:
    with pytest.raises(ValueError, match="a fence without an end"):
        list(blocks_in("words\n```sh\ntrue\n", "page.md"))


def test_commands_are_found_wherever_they_stand() -> None:
    shell = r"""
    seq 3 | penstock produce t --key-separator ' '   # penstock in a comment
    A=1 ~/bin/penstock load --config a.yaml >> out.json || [ $? = 3 ]
    if penstock report; then penstock status; fi
    penstock topics \
        list &
    cat > file <<END
    penstock is only a word here
    END
    penstock schemas new t --field 'a=long?'
    """
    assert list(penstock_commands(shell)) == [
        ["produce", "t", "--key-separator", " "],
        ["load", "--config", "a.yaml"],
        ["report"],
        ["status"],
        ["topics", "list"],
        ["schemas", "new", "t", "--field", "a=long?"],
    ]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("topics list", None),
        ("audit --config audit.yaml", None),
        ("audit retire web-3 --reason x", None),
        ("topics lits", "lits"),
        ("topics list --partitons 3", "No such option"),
        ("consume t --count", "requires an argument"),
        ("status now", "one argument too many: now"),
    ],
)
def test_what_the_command_line_would_say(command: str, why: str | None) -> None:
    said = misunderstood(command.split())
    assert said is None if why is None else why.lower() in (said or "").lower()


def test_outputs_may_have_more_and_other_widths() -> None:
    printed = "verdict     topic\n✓ complete  shop\nlast line, at 07:12:00\n"
    assert missing_line("verdict topic\n…\nlast line, at …", printed) is None
    assert missing_line("✓ complete shop\nverdict topic", printed) == "verdict topic"
    assert missing_line("complete shop", printed) == "complete shop"


def test_a_shell_keeps_what_blocks_set_and_stops_at_what_fails(tmp_path: Path) -> None:
    with Shell(tmp_path, {"GIVEN": "yes"}) as shell:
        assert shell.run("mkdir folder\ncd folder\nSET=$GIVEN\n") == ""
        assert shell.run("pwd; echo $SET; sleep 600 &\n") == f"{tmp_path}/folder\nyes\n"
        assert shell.run("echo said; false\n", exit_code=1) == "said\n"
        assert shell.run("echo >> tries; test $(wc -l < tries) = 3\n", tried_again=True) == ""
        with pytest.raises(BlockFailed, match="exit code 1, not 0"):
            shell.run("false\ntouch not-reached\n")
        assert shell.run("ls\n") == "tries\n"
