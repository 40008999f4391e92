"""Sockets that a program listens on, and what to tell whoever cannot have one."""

import errno
import socket

from serving.ports import who_listens


class CannotListen(Exception):
    """The address is taken, not this machine's, or not allowed."""


def listen(host: str, port: int, *, backlog: int, keys: tuple[str, str]) -> socket.socket:
    """A listening socket that does not block. `keys` are those of host and port in the file."""
    host_key, port_key = keys
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address, family=family, backlog=backlog)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            owner = who_listens(port) or "another process"
            advice = f"{owner} does already: stop it, or choose another `{port_key}`"
        elif error.errno == errno.EACCES:
            advice = f"{reason}: choose a `{port_key}` above 1023"
        else:
            advice = f"{reason}: `{host_key}` must be an address of this machine"
        raise CannotListen(f"cannot listen on {host}:{port}: {advice}") from None
    listener.setblocking(False)
    return listener
