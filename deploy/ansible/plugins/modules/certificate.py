#!/usr/bin/python
"""What the action of the same name takes: everything is done on the controller."""

DOCUMENTATION = r"""
module: certificate
short_description: A certificate of a program, on the controller
description:
  - Has a certificate signed, or signed anew, where there is none that is good for long enough and
    for these hosts. Its file stays on the controller; nothing of its content is returned.
options:
  name: {description: Whose it is., type: str, required: true}
  hosts: {description: As which others reach it., type: list, elements: str, default: []}
  source: {description: "authority, files or command.", type: str, default: authority}
  directory: {description: "The authority, or where certificates are.", type: path, required: true}
  authority_name: {description: What a new authority is called., type: str, default: Penstock}
  penstock: {description: The command penstock of the controller., type: list, elements: str}
  issue: {description: "A command that prints a key and a certificate.", type: list, elements: str}
  days: {description: For how long., type: int, default: 365}
  renew_days: {description: It is signed anew when less is left., type: int, default: 30}
  try_command:
    description: In check mode, also fail unless the command that would sign is on the controller.
    type: bool
    default: false
  renew: {description: It is signed anew in any case., type: bool, default: false}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: A broker's
  penstock.pipeline.certificate:
    name: broker-dc1-a
    hosts: [dc1-a.example, 10.0.0.11]
    directory: authority
"""
