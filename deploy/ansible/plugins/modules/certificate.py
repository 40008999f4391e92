#!/usr/bin/python
"""Documents the action of the same name, which runs on the controller."""

DOCUMENTATION = r"""
module: certificate
short_description: Have a program's certificate signed on the controller
description:
  - Signs a certificate if there is none, if it expires soon, or if it lacks one of the hosts. The
    file stays on the controller; its content is not returned.
options:
  name: {description: The file's name without C(.pem)., type: str, required: true}
  hosts: {description: Names and addresses of the program., type: list, elements: str, default: []}
  source: {description: "authority, files or command.", type: str, default: authority}
  directory: {description: The authority's or certificates' folder., type: path, required: true}
  authority_name: {description: The name of a new authority., type: str, default: Penstock}
  penstock: {description: The controller's command penstock., type: list, elements: str}
  issue: {description: "A command that prints a key and a certificate.", type: list, elements: str}
  days: {description: The certificate's lifetime., type: int, default: 365}
  renew_days: {description: Sign again if it expires within this time., type: int, default: 30}
  try_command:
    description: In check mode, also fail unless the controller has the command that would sign.
    type: bool
    default: false
  renew: {description: Sign again in any case., type: bool, default: false}
author: The Penstock authors
"""

EXAMPLES = r"""
- name: Sign a broker's certificate
  penstock.pipeline.certificate:
    name: broker-dc1-a
    hosts: [dc1-a.example, 10.0.0.11]
    directory: authority
"""
