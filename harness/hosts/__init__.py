"""Hosts that boot systemd, and Ansible."""
