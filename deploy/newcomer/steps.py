"""A newcomer's steps, as shell scripts that run in a root filesystem. Pure.

A script's exit code is 0 only if the README's promise held.
"""

from pathlib import Path
from typing import Final, NamedTuple

EXTRAS: Final = ("agent", "broker", "registry", "loader", "audit", "all")


class Step(NamedTuple):
    """A named script. An output line that begins with `figure` has a figure for the table.
    `offline` runs it in a network namespace of its own, where every port is free."""

    name: str
    script: str
    figure: str = ""
    offline: bool = False


def readme_packages(readme: str) -> list[str]:
    """Returns the packages in the README's `apt install` command. Raises ValueError if there is no
    such command."""
    _, _, rest = readme.partition("`apt install ")
    packages, quote, _ = rest.partition("`")
    if not quote:
        raise ValueError("the README has no `apt install …` command")
    return packages.split()


def wheel(clone: Path) -> Step:
    return Step(
        "build the wheel",
        f"python3 -m venv build && build/bin/pip wheel --quiet --no-deps -w dist {clone}",
    )


def install(extra: str) -> Step:
    """Returns the step that installs an extra into an empty environment. The measured size excludes
    that of the empty environment."""
    environment = f"env-{extra}"
    return Step(
        f"pip install WHEEL[{extra}]",
        f"""
set -e
python3 -m venv {environment}
before=$(du -sm {environment} | cut -f1)
{environment}/bin/pip install --quiet "$(echo dist/*.whl)[{extra}]"
echo "size: $(($(du -sm {environment} | cut -f1) - before)) MB"
{environment}/bin/penstock --version
""",
        figure="size: ",
    )


def starts(extra: str) -> Step:
    """Returns the step that starts a program whose servers are missing: it must wait for them, and
    stop on SIGTERM."""
    configurations = {
        "agent": f"--set data_dir=run-{extra} --set 'inputs=[{{paths: [/var/log/x], topic: x}}]'",
        "broker": f"--set data_dir=run-{extra} --set id=1 --set zookeeper=127.0.0.1:2181",
        "registry": "--set cluster=local",
        "audit": f"--set data_dir=run-{extra}",
    }
    return Step(
        f"penstock {extra} starts, and stops",
        f"""
env-{extra}/bin/penstock {extra} {configurations[extra]} > {extra}.log 2>&1 &
sleep 5
kill -TERM $! || {{ cat {extra}.log; exit 1; }}
wait $!
code=$?
cat {extra}.log
# 1: stopped before it was ready.
[ $code -le 1 ] && ! grep Traceback {extra}.log
""",
        offline=True,
    )


def reads_configuration() -> Step:
    """Returns the step that checks a loader's configuration, which is all that a loader can do
    without brokers."""
    return Step(
        "penstock check-config loader",
        """
printf 'root: file://%s/warehouse\\ntopics: ["*"]\\n' "$HOME" > loader.yaml
env-loader/bin/penstock check-config loader --offline loader.yaml
""",
        offline=True,
    )


def needs_no_java() -> Step:
    return Step("Java is not installed", "! command -v java")


def up() -> Step:
    """Returns the step that runs `penstock up` until it is ready and the report on a growing log is
    complete (its lines are in the files), and then presses Ctrl-C."""
    return Step(
        "penstock up",
        """
export PATH=$HOME/env-all/bin:$PATH
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
began=$(milliseconds)
wait_for() { # the log's name, then a command that succeeds at the end
    until "${@:2}" > "$1.log" 2>&1; do
        if [ $(($(milliseconds) - began)) -gt 240000 ] || ! kill -0 $up; then
            cat up.log "$1.log"
            exit 1
        fi
        sleep 0.3
    done
}
mkdir -p logs
( while sleep 0.05; do echo "line $SECONDS" >> logs/app.log; done ) &
writer=$!
env --default-signal=INT penstock up --dir up-data --follow "$HOME/logs/*.log" > up.log 2>&1 &
up=$!
wait_for ready penstock status --dir up-data
ready=$(($(milliseconds) - began))
sleep 5
kill $writer
landed() { penstock report logs --day today && penstock report logs --day today | grep '^files '; }
wait_for verdict landed
cat verdict.log
complete=$(($(milliseconds) - began))
stopping=$(milliseconds)
kill -INT $up
wait $up || { cat up.log; exit 1; }
echo "times: ready $ready ms, verdict $complete ms, stopped $(($(milliseconds) - stopping)) ms"
""",
        figure="times: ",
        offline=True,
    )


def make(target: str, clone: Path) -> Step:
    return Step(f"make {target}", f"make -C {clone} {target}")
