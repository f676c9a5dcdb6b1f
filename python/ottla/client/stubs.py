"""Signatures of the classes that are made of those under trio, taken from the source of those: `sync_stub` and
`aio_stub` write them.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.client.facade import is_wrapped

#: Classes that nobody makes but others of them.
MADE_BY_OTHERS = {"Receipt"}


@dataclass
class Stub:
    """A file of signatures for these classes under trio."""

    head: str
    kinds: Collection[type]
    imports: Collection[str]
    """The imports that `block` and the renamed types need."""
    block: str
    """The methods of an object that is opened and closed."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Types that are others here."""
    is_async: bool = False
    """Coroutines remain coroutines."""

    @property
    def own_names(self) -> set[str]:
        """The classes that the file has."""
        return {kind.__name__ for kind in self.kinds}

    def render(self) -> str:
        """The text of the file, before it is formatted."""
        classes: list[str] = []
        imports = set(self.imports)
        for kind in self.kinds:
            tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
            found = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)
            made = self._class(found)
            names = {each.id for each in ast.walk(made) if isinstance(each, ast.Name)}
            imports |= set(_imports(kind.__module__, tree, names - self.own_names))
            classes.append(ast.unparse(made))
        return "\n".join([self.head, "", *sorted(imports), "", *classes, ""])

    def _class(self, found: ast.ClassDef) -> ast.ClassDef:
        """Public methods and attributes, without bodies."""
        bases = [each for each in found.bases if isinstance(each, ast.Name) and each.id in self.own_names]
        body: list[ast.stmt] = []
        has_block = any(getattr(each, "name", "") == "__aenter__" for each in found.body)
        for statement in found.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                body += self._methods(statement, found.name, is_derived=bool(bases))
        if has_block or not (bases or self.is_async):
            body += ast.parse(self.block).body
        return ast.ClassDef(found.name, bases=list(bases), keywords=[], body=body, decorator_list=[])

    def _methods(
        self, method: ast.FunctionDef | ast.AsyncFunctionDef, name: str, *, is_derived: bool
    ) -> Iterator[ast.stmt]:
        """Writes one method of the class of this name."""
        if method.name == "__init__":
            yield from self._attributes(method)
        if is_derived and _is_passed_on(method):
            return  # the base has its signature
        if method.name == "__init__" and name in MADE_BY_OTHERS:
            return
        if method.name == "__init__" or is_wrapped(method.name):
            yield self._method(method)
        elif method.name == "__aiter__":
            yield self._method(method, "__aiter__" if self.is_async else "__iter__")

    def _attributes(self, init: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.stmt]:
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
        for name, kind in found.items():
            yield from ast.parse(f"@property\ndef {name}(self) -> {ast.unparse(self._type(kind))}: ...").body

    def _method(self, method: ast.FunctionDef | ast.AsyncFunctionDef, name: str = "") -> ast.stmt:
        decorators = [ast.unparse(each) for each in method.decorator_list]
        is_property = any(each in ("property", "cached_property") for each in decorators)
        is_block = "asynccontextmanager" in decorators
        block = "asynccontextmanager" if self.is_async else "contextmanager"
        is_coroutine = self.is_async and isinstance(method, ast.AsyncFunctionDef) and not is_block
        kind = ast.AsyncFunctionDef if is_coroutine else ast.FunctionDef
        return kind(
            name or method.name,
            args=_without_values(method.args),
            body=[ast.Expr(ast.Constant(...))],
            decorator_list=[ast.Name("property")] if is_property else [ast.Name(block)] if is_block else [],
            returns=None if method.returns is None else self._type(method.returns),
            lineno=0,
        )

    def _type(self, annotation: ast.expr) -> ast.expr:
        others = self.names

        class Names(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.Name:
                return ast.Name(others.get(node.id, node.id))

        found: ast.expr = Names().visit(annotation)
        return found


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


def _is_passed_on(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return method.name != "__init__" and method.args.vararg is not None and method.args.kwarg is not None


def _is_public(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
        and not target.attr.startswith("_")
    )


def _without_values(arguments: ast.arguments) -> ast.arguments:
    """Default values are not part of a stub's business, and would need imports of their own."""
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [None if each is None else ast.Constant(...) for each in arguments.kw_defaults]
    return arguments


def formatted(text: str, file: Path) -> str:
    """As `ruff` leaves it."""
    for command in (["check", "--quiet", "--fix", "--select", "I,F401"], ["format", "--quiet"]):
        ruff = [str(Path(sys.executable).with_name("ruff")), *command, "--stdin-filename", str(file), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text
