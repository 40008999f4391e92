"""What is said besides where nobody answers at the usual address. Pure.

Whoever named an address knows of another; whoever did not may have nothing that runs yet, or have
it at other ports.
"""


def what_to_do(address: str, usual: str, option: str, variable: str) -> str:
    """To be put behind what went wrong; empty for an address that was named."""
    if address != usual:
        return ""
    return (
        f": `penstock up` starts everything on this machine; what runs elsewhere is found with "
        f"{option}, or {variable}"
    )
