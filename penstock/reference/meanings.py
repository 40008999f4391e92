"""What the fields of a struct mean: the text under each of them in the source.

Python keeps the docstring of a class and forgets the text under a field, so the source is read.
"""

import ast
import inspect
import sys
from collections.abc import Mapping
from itertools import pairwise

import msgspec


def meanings(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """By name, on one line each. A field that nothing is said about is not in it."""
    tree = ast.parse(inspect.getsource(sys.modules[struct.__module__]))
    (body,) = (
        each.body
        for each in tree.body
        if isinstance(each, ast.ClassDef) and each.name == struct.__name__
    )
    found = {}
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                found[name] = " ".join(said.split())
    return found


def about(struct: type[msgspec.Struct]) -> str:
    """What the struct itself is, on one line."""
    return " ".join((struct.__doc__ or "").split())
