"""Prometheus' scrape configuration, from the inventory. Pure."""

from __future__ import annotations

from ansible_collections.penstock.pipeline.plugins.filter.inventory import (
    address_of,
    host_and_port,
)

# By program (its group is penstock_PROGRAM): the suffix of the job's name, and the port of its
# metrics as (variable, default).
PROGRAMS = {
    "broker": ("", "penstock_broker_http_port", 9095),
    "registry": ("-registries", "penstock_registry_port", 8081),
    "mirror": ("-mirrors", "penstock_mirror_http_port", 9466),
    "audit": ("-audit", "penstock_audit_port", 8090),
    "agent": ("-agents", "penstock_agent_http_port", 9464),
}


def targets(host: dict, program: str, variable: str, port: int) -> list:
    """Returns a host's targets: one for each instance of the program."""
    instances = host.get(f"penstock_{program}_instances") or [{}]
    ports = (instance.get("http_port") or host.get(variable) or port for instance in instances)
    return [host_and_port(address_of(host), port) for port in ports]


def scrape_configs(
    groups: dict, hostvars: dict, cluster: str = "penstock", options: dict | None = None
) -> list:
    """Returns a job for each program of each cluster, sorted by name: the brokers' alerts treat a
    job as a cluster. `options` has settings for every job (`all`) and by program."""
    options = options or {}
    jobs: dict = {}
    for program, (suffix, variable, port) in PROGRAMS.items():
        for name in groups.get(f"penstock_{program}") or ():
            host = hostvars[name]
            job = f"{host.get('penstock_cluster') or cluster}{suffix}"
            jobs.setdefault((job, program), []).extend(targets(host, program, variable, port))
    return [
        {
            "job_name": job,
            **(options.get("all") or {}),
            **(options.get(program) or {}),
            "static_configs": [{"targets": sorted(set(addresses))}],
        }
        for (job, program), addresses in sorted(jobs.items())
    ]


class FilterModule:
    def filters(self) -> dict:
        return {"scrape_configs": scrape_configs}
