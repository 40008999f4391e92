"""What keeps a demonstration from its end. That numbers differ is no error: it is what it shows."""


class DemoFailed(Exception):
    """One line says why, and where to look."""


class Stopped(Exception):
    """Somebody wants it to end: Ctrl-C, SIGTERM."""
