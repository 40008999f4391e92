#!/usr/bin/python
"""Documents the action of the same name, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_holds
short_description: Check that the release folder contains everything that hosts will need
description:
  - Fails with a message that names the folder, all missing or damaged files, and the command that
    builds them. Connects to no host, and changes nothing.
  - Compares the needed files with C(penstock-VERSION.SHA256SUMS). The hosts' Python versions and
    processors are not known yet, so one wheelhouse and one agent's archive suffice.
  - Warns if the collection came with another release.
options:
  source: {description: The release folder on the controller., type: path, required: true}
  version: {description: The release's version., type: str, required: true}
  extras:
    description: The programs of all hosts together.
    type: list
    elements: str
    default: []
  jars: {description: Whether a host runs ZooKeeper., type: bool, default: false}
  bundle: {description: Whether a host runs an agent from its bundle., type: bool, default: false}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Check the release before anything changes
  penstock.pipeline.release_holds:
    source: "{{ penstock_release_dir }}"
    version: "{{ penstock_release }}"
    extras: [broker, registry, audit]
    jars: true
    bundle: true
"""
