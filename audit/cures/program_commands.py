"""Commands that restart or inspect a program on its host. Pure.

Only this module knows how a site runs its programs. Installed from packages or by Ansible, they are
systemd units, and a comment names the host for the command. `penstock up` runs them itself: its
audit's configuration has the directory (`commands.up`), and `penstock up --restart` restarts a
program, even one that hangs. Programs on other hosts, and further brokers, are not run by it.

Names and paths come from the ledger: they are quoted, and one with unprintable characters makes no
command.
"""

import platform
import shlex
from typing import Final, Self

import msgspec

from audit.configuration.config import AuditConfig, CommandsConfig
from audit.cures.fault_cures import Cure, in_shell
from audit.reconciling.findings import CommandKind

UP_BROKER: Final = 1  # the id of the broker that `penstock up` runs in each cluster
_LONGEST: Final = 1_000
_UNITS: Final = {"loader": "penstock-load.timer"}
# Otherwise spark-sql makes one in the current folder.
_WITHOUT_METASTORE: Final = ("--conf", "spark.sql.catalogImplementation=in-memory")
_OF_A_CLUSTER: Final = frozenset({"broker", "registry"})


class ProgramCommands(msgspec.Struct, frozen=True, kw_only=True):
    """The commands of a site."""

    commands: CommandsConfig = CommandsConfig()
    clusters: tuple[str, ...] = ()  # the first has the programs with the plain names
    host: str = ""  # this audit's

    @classmethod
    def of(cls, config: AuditConfig) -> Self:
        clusters = tuple(config.all_clusters)
        return cls(commands=config.commands, clusters=clusters, host=platform.node())

    def restart(
        self, program: str, *, cluster: str = "", host: str = "", broker: int = UP_BROKER
    ) -> Cure:
        """Returns the command that restarts or starts a program. An empty `host` means that the
        program's host is unknown."""
        if self.is_of_up(host) and broker == UP_BROKER:
            name = self._name_in_up(program, cluster)
            words = ["penstock", "up", "--restart", name, "--dir", self.commands.up]
            return _cure(in_shell(words, self.commands), CommandKind.MENDS)
        location = "its host" if program != "broker" else f"the host of broker {broker}"
        command = f"systemctl restart {_UNITS.get(program, f'penstock-{program}')}"
        return _cure(
            f"{command}  # on {shlex.quote(host) if host else location}", CommandKind.MENDS
        )

    def retire_agent(self, cluster: str, host: str, agent: str, *, reason: str) -> Cure:
        """Returns the command after which nothing more is expected of one agent of a host."""
        config = ["--config", self.commands.audit] if self.commands.audit else []
        words = ["penstock", "audit", "retire", *config, "--cluster", cluster]
        words += ["--agent-id", agent, "--reason", reason, "--", host]
        return _cure(in_shell(words, self.commands), CommandKind.MENDS)

    def set_clock(self, host: str) -> Cure:
        """Returns the command that sets a host's clock and restarts its agent, because a running
        agent would follow the jump only slowly."""
        restart = self.restart("agent", host=host)
        return _cure(f"timedatectl set-ntp true && {restart.command}", CommandKind.MENDS)

    def reach_ledger(self, cluster: str) -> Cure:
        """Returns the command to run for a cluster whose brokers do not answer."""
        if self.is_of_up(""):
            return self.restart("broker", cluster=cluster)
        return _cure(
            "systemctl status penstock-broker  # on the host of each broker", CommandKind.LOOKS
        )

    def look_at_brokers(self, cluster: str) -> Cure:
        """Returns the command to run for brokers that answer, but may reject lines."""
        if self.is_of_up(""):
            log = f"{self.commands.up}/logs/{self._name_in_up('broker', cluster)}.log"
            return self.look("tail", log)
        return self.reach_ledger(cluster)

    def reach_zookeeper(self) -> Cure:
        if self.is_of_up(""):
            return self.restart("zookeeper")
        return _cure(
            "systemctl status penstock-zookeeper  # on the host of each server", CommandKind.LOOKS
        )

    def look(self, *words: str, host: str = "") -> Cure:
        """Returns a command that inspects a program on this host or another one."""
        if host and not self.is_of_up(host):
            return _cure(f"{shlex.join(words)}  # on {shlex.quote(host)}", CommandKind.LOOKS)
        is_penstock = words[0] == "penstock"
        command = in_shell(list(words), self.commands) if is_penstock else shlex.join(words)
        return _cure(command, CommandKind.LOOKS)

    def look_at_dead(self, topic: str, folder: str) -> Cure:
        """Returns two commands: one shows the dead letters in a topic, the other the reasons of the
        dead letters in a folder of Parquet files. One of the two may be empty."""
        commands: list[list[str]] = []
        if topic:
            options = ["--from", "beginning", "--to-end", "--events"]
            commands.append(["penstock", "consume", topic, *options])
        if folder:
            table = f"parquet.`{folder.replace('`', '``')}`"
            query = f"SELECT reason, detail, count(*) FROM {table} GROUP BY reason, detail"  # noqa: S608
            commands.append(["spark-sql", *_WITHOUT_METASTORE, "-e", query])
        first_command = in_shell(commands[0], self.commands)
        return _cure("; ".join([first_command, *map(shlex.join, commands[1:])]), CommandKind.LOOKS)

    def look_at_disk(self, directory: str, host: str) -> Cure:
        return self.look("df", "-h", directory, host=host)

    def is_of_up(self, host: str) -> bool:
        """Whether `penstock up` runs the programs of this host."""
        return bool(self.commands.up) and host in {"", self.host}

    def _name_in_up(self, program: str, cluster: str) -> str:
        is_first = cluster in {"", *self.clusters[:1]}
        return program if is_first or program not in _OF_A_CLUSTER else f"{cluster}-{program}"


def _cure(command: str, kind: CommandKind) -> Cure:
    return Cure(command, kind) if command.isprintable() and len(command) <= _LONGEST else Cure()
