"""What Prometheus scrapes, by what the inventory has: values in, values out."""

from __future__ import annotations

from ansible_collections.penstock.pipeline.plugins.filter.inventory import (
    address_of,
    host_and_port,
)

# Groups are penstock_PROGRAM. What a job is called behind the cluster's name, and where pages are.
PROGRAMS = {
    "broker": ("", "penstock_broker_http_port", 9095),
    "registry": ("-registries", "penstock_registry_port", 8081),
    "mirror": ("-mirrors", "penstock_mirror_http_port", 9466),
    "audit": ("-audit", "penstock_audit_port", 8090),
    "agent": ("-agents", "penstock_agent_http_port", 9464),
}


def targets(host: dict, program: str, variable: str, port: int) -> list:
    """Of one host: more than one where it has several brokers."""
    several = host.get(f"penstock_{program}_instances") or [{}]
    ports = (each.get("http_port") or host.get(variable) or port for each in several)
    return [host_and_port(address_of(host), each) for each in ports]


def scrape_configs(
    groups: dict, hostvars: dict, cluster: str = "penstock", options: dict | None = None
) -> list:
    """A job for each program of each cluster, in order of their names: to the alerts about brokers
    a job is a cluster. `options` are of every job (`all`), or of those of a program."""
    options = options or {}
    jobs: dict = {}
    for program, (ending, variable, port) in PROGRAMS.items():
        for name in groups.get(f"penstock_{program}") or ():
            host = hostvars[name]
            job = f"{host.get('penstock_cluster') or cluster}{ending}"
            found = jobs.setdefault((job, program), [])
            found += targets(host, program, variable, port)
    return [
        {
            "job_name": job,
            **(options.get("all") or {}),
            **(options.get(program) or {}),
            "static_configs": [{"targets": sorted(set(found))}],
        }
        for (job, program), found in sorted(jobs.items())
    ]


class FilterModule:
    def filters(self) -> dict:
        return {"scrape_configs": scrape_configs}
