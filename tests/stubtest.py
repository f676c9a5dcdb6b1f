"""mypy's stubtest for `ottla._core`: `python -m tests.stubtest`.

The parts of its stub are no modules at run time, and stubtest leaves out of `__init__.pyi` whatever a part describes.
So each part gets a module here, with what the extension module has of the names that it describes.
"""

import ast
import sys
from pathlib import Path
from types import ModuleType

from mypy import stubtest

from ottla import _core


def names(stub: Path) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [node.name for node in ast.parse(stub.read_text()).body if isinstance(node, kinds)]


def add_parts() -> None:
    for stub in Path(_core.__file__).with_name("_core").glob("_[a-z]*.pyi"):
        part = ModuleType(f"{_core.__name__}.{stub.stem}")
        part.__dict__.update({name: getattr(_core, name) for name in names(stub) if hasattr(_core, name)})
        sys.modules[part.__name__] = part


if __name__ == "__main__":
    add_parts()
    sys.argv[1:] = [_core.__name__]
    sys.exit(stubtest.main())
