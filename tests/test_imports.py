"""Modules import each other in one direction, also for types alone. `make lint` runs this file without pytest."""

import graphlib
from importlib.util import find_spec

import grimp


def test_no_module_is_in_a_circle_of_imports() -> None:
    graph = grimp.build_graph("ottla")
    imports = {module: graph.find_modules_directly_imported_by(module) - {module} for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as circle:
        raise AssertionError(f"a circle of imports: {' <- '.join(circle.args[1])}") from None


#: They run a broker: as a process, and on a thread of a program.
RUN_A_BROKER = {"ottla.broker.serve", "ottla.embedded.thread"}


def test_handlers_name_what_they_need_of_the_broker() -> None:
    """The whole of it is known to those who run it; all others use `ottla.broker.rooms` and the like."""
    graph = grimp.build_graph("ottla")
    assert graph.find_modules_that_directly_import("ottla.broker.broker") == RUN_A_BROKER
    for module in graph.find_descendants("ottla.broker.api"):
        used = graph.find_modules_directly_imported_by(module)
        has_none = "rooms: object" in find_spec(module).loader.get_source(module)
        assert ("ottla.broker.rooms" in used) is not has_none, module


if __name__ == "__main__":
    test_no_module_is_in_a_circle_of_imports()
    test_handlers_name_what_they_need_of_the_broker()
