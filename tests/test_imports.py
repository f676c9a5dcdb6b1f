"""Modules import each other in one direction, also for types alone; and what is declared twice agrees."""

import graphlib

import grimp

from ottla import wire
from ottla.broker.requests import MODULES

#: Imports that close a circle, of modules that know each other's classes. Each is made for types alone or inside a
#: function. Take away from here what is mended; nothing is added.
CLOSE_A_CIRCLE = {
    ("ottla.broker.admin", "ottla.broker.broker"),
    ("ottla.broker.connection_limits", "ottla.broker.broker"),
    ("ottla.broker.groups", "ottla.broker.broker"),
    ("ottla.broker.internal_topics", "ottla.broker.broker"),
    ("ottla.broker.reconfiguration", "ottla.broker.broker"),
    ("ottla.broker.requests", "ottla.broker.broker"),
    ("ottla.broker.transactions", "ottla.broker.broker"),
    ("ottla.config.checks", "ottla.config.broker"),
    ("ottla.config.security", "ottla.config.broker"),
    ("ottla.config.warnings", "ottla.config.broker"),
    ("ottla.controller.orders", "ottla.controller.controller"),
    ("ottla.pipelines.tables.table", "ottla.pipelines.tables.delta"),
    ("ottla.pipelines.tables.table", "ottla.pipelines.tables.iceberg"),
    ("ottla.pipelines.tables.table", "ottla.pipelines.tables.manifest"),
    ("ottla.replication.internal_topic", "ottla.replication.replicas"),
    ("ottla.replication.moves", "ottla.replication.log_manager"),
    ("ottla.replication.moves", "ottla.replication.replicas"),
    ("ottla.replication.turn", "ottla.replication.replicas"),
}


def test_no_module_is_in_a_new_circle_of_imports() -> None:
    graph = grimp.build_graph("ottla")
    imports = {module: graph.find_modules_directly_imported_by(module) - {module} for module in graph.modules}
    for module, other in CLOSE_A_CIRCLE:
        assert other in imports[module], f"{module} does not import {other} any more: take the pair out of the list"
        imports[module].discard(other)
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as circle:
        raise AssertionError(f"a circle of imports: {' <- '.join(circle.args[1])}") from None


def test_a_broker_serves_the_versions_that_its_messages_have() -> None:
    declared = {key: wire.api(key).versions for key in MODULES}
    assert {key: module.VERSIONS for key, module in MODULES.items()} == declared
