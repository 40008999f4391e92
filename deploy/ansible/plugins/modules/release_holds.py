#!/usr/bin/python
"""The documentation of the action of this name, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_holds
short_description: Check that a release folder on the controller holds what hosts will need
description:
  - Fails with one message that names the folder, each file that is missing or damaged, and the
    command that makes it. No host is asked, and nothing is changed.
  - Compares each file that is needed with C(SHA256SUMS). The Python and processor of each host are
    not known yet, so one wheelhouse and one agent suffice.
options:
  source: {description: The release folder on the controller., type: path, required: true}
  version: {description: Which release., type: str, required: true}
  extras:
    description: The programs of all hosts together.
    type: list
    elements: str
    default: []
  jars: {description: Whether a host runs ZooKeeper., type: bool, default: false}
  bundle: {description: Whether a host runs an agent by its bundle., type: bool, default: false}
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
