"""Writes `sync.pyi`: the signatures of the blocking classes, taken from the source of those under trio.

`python -m ottla.client.sync_stub` writes the file, which a test compares with what would be written.
"""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla.client import sync
from ottla.client.facade import FACADES, is_wrapped

FILE = Path(sync.__file__).with_suffix(".pyi")
HEAD = '''"""Written by `python -m ottla.client.sync_stub`."""'''
#: What a blocking method gives where the other one gives something to await or to iterate over.
BLOCKING = {"AsyncIterator": "Iterator", "AsyncIterable": "Iterable"}
#: Classes that nobody makes but others of them.
MADE_BY_OTHERS = {"Receipt"}


def render() -> str:
    """The text of the file, before it is formatted."""
    classes: list[str] = []
    imports = {
        "from collections.abc import Iterator",
        "from contextlib import contextmanager",
        "from types import TracebackType",
        "from typing import Self",
    }
    for kind in FACADES:
        tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
        found = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)
        made = _class(found)
        names = {each.id for each in ast.walk(made) if isinstance(each, ast.Name)}
        imports |= set(_imports(kind.__module__, tree, names - _own_names()))
        classes.append(ast.unparse(made))
    return "\n".join([HEAD, "", *sorted(imports), "", *classes, ""])


def _imports(module: str, tree: ast.Module, names: set[str]) -> Iterator[str]:
    """Where a source has these names from: an import, or that they are made there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if alias.name in names and alias.asname is None:
                    yield f"from {node.module} import {alias.name}"
        elif isinstance(node, ast.Import):
            yield from (f"import {alias.name}" for alias in node.names if alias.name in names)
    for statement in tree.body:
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        made = {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            made.add(statement.name)
        yield from (f"from {module} import {name}" for name in made & names)


def _class(found: ast.ClassDef) -> ast.ClassDef:
    """The blocking form: public methods and attributes, without bodies."""
    bases = [each for each in found.bases if isinstance(each, ast.Name) and each.id in _own_names()]
    body: list[ast.stmt] = []
    has_more = any(getattr(each, "name", "") == "__aenter__" for each in found.body)
    for statement in found.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name == "__init__":
                body += _attributes(statement)
            if bases and _is_passed_on(statement):
                continue  # the base has its signature
            if statement.name == "__init__" and found.name in MADE_BY_OTHERS:
                continue
            if statement.name == "__init__" or is_wrapped(statement.name):
                body.append(_method(statement))
            elif statement.name == "__aiter__":
                body.append(_method(statement, "__iter__"))
    if has_more or not bases:
        body += ast.parse(
            "def __enter__(self) -> Self: ...\n"
            "def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, "
            "trace: TracebackType | None) -> None: ...\n"
            "def close(self) -> None: ...\n"
        ).body
    return ast.ClassDef(found.name, bases=list(bases), keywords=[], body=body, decorator_list=[])


def _own_names() -> set[str]:
    return {kind.__name__ for kind in FACADES}


def _is_passed_on(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return method.name != "__init__" and method.args.vararg is not None and method.args.kwarg is not None


def _attributes(init: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The public attributes that `__init__` sets, as properties of the type that can be seen."""
    types = {each.arg: each.annotation for each in [*init.args.args, *init.args.kwonlyargs]}
    found: dict[str, ast.expr] = {}
    for node in ast.walk(init):
        if isinstance(node, ast.AnnAssign) and _is_public(node.target):
            found[ast.unparse(node.target).removeprefix("self.")] = node.annotation
        if isinstance(node, ast.Assign):
            for target in node.targets:
                kind: ast.expr | None = None
                if isinstance(node.value, ast.Name):
                    kind = types.get(node.value.id)
                elif isinstance(node.value, ast.Constant) and node.value.value is not None:
                    kind = ast.Name(type(node.value.value).__name__)
                if _is_public(target) and kind is not None:
                    found[ast.unparse(target).removeprefix("self.")] = kind
    return [
        stub
        for name, kind in found.items()
        for stub in ast.parse(f"@property\ndef {name}(self) -> {ast.unparse(_blocking(kind))}: ...").body
    ]


def _is_public(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
        and not target.attr.startswith("_")
    )


def _method(method: ast.FunctionDef | ast.AsyncFunctionDef, name: str = "") -> ast.FunctionDef:
    decorators = [ast.unparse(each) for each in method.decorator_list]
    is_property = any(each in ("property", "cached_property") for each in decorators)
    is_block = "asynccontextmanager" in decorators
    return ast.FunctionDef(
        name or method.name,
        args=_without_values(method.args),
        body=[ast.Expr(ast.Constant(...))],
        decorator_list=[ast.Name("property")] if is_property else [ast.Name("contextmanager")] if is_block else [],
        returns=None if method.returns is None else _blocking(method.returns),
        lineno=0,
    )


def _without_values(arguments: ast.arguments) -> ast.arguments:
    """Default values are not part of a stub's business, and would need imports of their own."""
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [None if each is None else ast.Constant(...) for each in arguments.kw_defaults]
    return arguments


def _blocking(annotation: ast.expr) -> ast.expr:
    class Names(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return ast.Name(BLOCKING.get(node.id, node.id))

    found: ast.expr = Names().visit(annotation)
    return found


def formatted(text: str) -> str:
    """As `ruff` leaves it."""
    for command in (["check", "--quiet", "--fix", "--select", "I,F401"], ["format", "--quiet"]):
        ruff = [str(Path(sys.executable).with_name("ruff")), *command, "--stdin-filename", str(FILE), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    FILE.write_text(formatted(render()))
