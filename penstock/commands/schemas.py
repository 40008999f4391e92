"""`penstock schemas`: one module for each of its commands."""

import click

from penstock.lazy_group import Lazy, LazyGroup


@click.group(
    cls=LazyGroup,
    sections={
        "Commands": {
            "list": Lazy("penstock.commands.schemas_list", "All subjects."),
            "show": Lazy("penstock.commands.schemas_show", "One schema."),
            "new": Lazy("penstock.commands.schemas_new", "A first schema for a topic, as a file."),
            "check": Lazy(
                "penstock.commands.schemas_check", "May a schema be registered? If not, why?"
            ),
            "register": Lazy("penstock.commands.schemas_register", "Register a schema."),
            "apply": Lazy("penstock.commands.schemas_apply", "Register what changed in a folder."),
            "diff": Lazy("penstock.commands.schemas_diff", "What changed between two versions."),
            "config": Lazy("penstock.commands.schemas_config", "Levels of compatibility."),
            "delete": Lazy("penstock.commands.schemas_delete", "Delete a subject, or a version."),
        }
    },
)
def command() -> None:
    """Schemas: what a registry holds, and changes to it. Works with Confluent's registry too.

    \b
    Example:
        penstock schemas new page_views
        penstock schemas check page_views-value.avsc
        penstock schemas register page_views-value.avsc
    """
