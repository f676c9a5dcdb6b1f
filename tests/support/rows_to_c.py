"""Rows that Python hands to one call into C or Rust, which line events do not see: `sorted(rows)`, `known.copy()`.

The functions of `ottla` get other code for a while: each call `f(rows)` is `__noted__(f)(rows)` there. `__noted__`
returns `f` itself unless it is one of the calls below. Items after a star (`[*rows]`) are noted too, and so is a list
in which something is looked for with `in`.

Not seen: operators on sets, dictionaries and lists (`a | b`, `a + b`), slices, `map` and `zip` that `any`, `all` and
`sum` take, and what frees many rows at once.
"""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import ottla
from ottla._core import ProduceRequest, Request
from ottla.wire import schema
from ottla.wire.schema import Message
from tests.support.largest import items_of

PACKAGE = str(Path(ottla.__file__).parent)
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
#: Where each item is compared until one is found.
SEARCHED = (list, tuple, deque)
#: Types and functions that walk over all that they are given.
TYPES = frozenset({*CONTAINERS, map, filter})
FUNCTIONS = frozenset({sorted, sum, min, max, any, all})
#: The same of the methods of containers, and of `str.join`.
METHODS = frozenset(
    [
        "update",
        "copy",
        "extend",
        "union",
        "difference",
        "intersection",
        "difference_update",
        "intersection_update",
        "issubset",
        "issuperset",
        "isdisjoint",
        "fromkeys",
        "clear",
        "sort",
        "index",
        "remove",
        "count",
        "join",
    ]
)
#: These need the frame that calls them.
WITH_A_FRAME = frozenset({"super", "locals"})

Note = Callable[[int, str], None]


@contextmanager
def noted(note: Note, under: str = PACKAGE) -> Iterator[None]:
    """`note(rows, what)` is called of each such call that a function of `ottla` makes while the block runs: one whose
    file is in the folder `under`, or is that file.
    """

    def counted(call: Any, *arguments: Any, **options: Any) -> Any:
        name = getattr(call, "__qualname__", call.__name__)
        owner = getattr(call, "__self__", None)
        rows = max([_rows(one) for one in (owner, *arguments)], default=0)
        if name.endswith(".go_on"):
            rows = schema.ITEMS_AT_ONCE
        elif call.__name__ == "encode":
            rows = max([items_of(one) for one in arguments if isinstance(one, Message)], default=0)
        result = call(*arguments, **options)
        if call.__name__ == "decode" and isinstance(result, Message):
            rows = items_of(result)
        note(max(rows, _rows(result)) if type(result) in CONTAINERS else rows, name)
        return result

    def wrapped(call: Any) -> Any:
        kind = type(call)
        if kind is BuiltinFunctionType:
            owner = type(call.__self__)
            is_ours = owner.__module__ == "ottla._core"
            if is_ours or call in FUNCTIONS or (call.__name__ in METHODS and owner in (*CONTAINERS, str, bytes, type)):
                return partial(counted, call)
        elif kind is type and call in TYPES:
            return partial(counted, call)
        return call

    def starred(rows: Any) -> Any:
        note(_rows(rows), "*")
        return rows

    def searched(rows: Any) -> Any:
        if type(rows) in SEARCHED:
            note(len(rows), "in")
        return rows

    before = {}
    added = {"__noted__": wrapped, "__starred__": starred, "__searched__": searched}
    vars(builtins).update(added)
    changed = _codes(Path(under))
    gc.unfreeze()
    for function in gc.get_objects():
        if type(function) is FunctionType and (other := changed.get(_key(function.__code__))) is not None:
            before[function] = function.__code__
            # A decorator may have set a flag (`types.coroutine`).
            function.__code__ = other.replace(co_flags=function.__code__.co_flags)
    try:
        yield
    finally:
        for function, code in before.items():
            function.__code__ = code
        for name in added:
            delattr(builtins, name)


def _rows(one: object) -> int:
    """How many items a call may walk over. Requests have a length too: in bytes, or in rows of which it takes one."""
    has_others = isinstance(one, (str, bytes, bytearray, memoryview, Request, ProduceRequest))
    return 0 if has_others else operator.length_hint(one, 0)


class _Calls(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id in WITH_A_FRAME):
            node.func = self._around("__noted__", node.func)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.Starred:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._around("__starred__", node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        self.generic_visit(node)
        for number, operation in enumerate(node.ops):
            if isinstance(operation, ast.In | ast.NotIn):
                node.comparators[number] = self._around("__searched__", node.comparators[number])
        return node

    def _around(self, name: str, inner: ast.expr) -> ast.Call:
        outer = ast.Call(ast.Name(name, ast.Load()), [inner], [])
        return ast.fix_missing_locations(ast.copy_location(outer, inner))


def _codes(under: Path) -> dict[object, CodeType]:
    """The code with noted calls of each function in these files, as far as they are imported, by the key of the code
    that it has.
    """
    imported = {module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
    files = [Path(file) for file in imported if file is not None]
    return {
        key: code
        for file in files
        if file.suffix == ".py" and file.is_relative_to(under)
        for key, code in _codes_of(file).items()
    }


@functools.cache
def _codes_of(file: Path) -> dict[object, CodeType]:
    plain = SourceFileLoader("", str(file)).get_code("")
    changed = compile(_Calls().visit(ast.parse(file.read_text())), str(file), "exec", dont_inherit=True)
    return {_key(one): other for one, other in zip(_inside(plain), _inside(changed), strict=True)}


def _inside(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _inside(inner)


def _key(code: CodeType) -> object:
    """The table of lines has columns too, so that two lambdas of one line differ."""
    return code.co_filename, code.co_qualname, code.co_firstlineno, code.co_linetable
