"""`penstock demo`."""

import tempfile
from pathlib import Path

import click

from client.errors import ClientError
from penstock.demo import DemoFailed, demonstrate
from penstock.failures import Failed


@click.command()
@click.option(
    "--messages", type=click.IntRange(1), default=20_000, show_default=True, help="How many."
)
def command(*, messages: int) -> None:
    """Show a broker at work on this machine, and whether it keeps its word.

    Starts a ZooKeeper and a broker in a temporary directory, writes messages, kills the broker,
    starts it again and reads the messages back. Exit code 0 only if each is there, once.

    \b
    Example:
        penstock demo --messages 1000000
    """
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as directory:
        try:
            demonstrate(Path(directory), messages, click.echo)
        except (DemoFailed, ClientError) as error:
            raise Failed(str(error)) from None
    click.echo(f"\nAll {messages:,} messages arrived, each once and in order.")
