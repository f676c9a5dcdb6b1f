"""Brokers for tests: the fixtures of pytest (`pytest_ottla`), under a name of this package.

Pytest finds the fixtures by itself. Where plugins are not looked for (`-p no:ottla`, PYTEST_DISABLE_PLUGIN_AUTOLOAD),
`pytest_plugins = ["ottla.testing"]` in a conftest.py has them.
"""

from pytest_ottla import ottla_broker, ottla_settings, ottla_topic, pytest_runtest_teardown

__all__ = ["ottla_broker", "ottla_settings", "ottla_topic", "pytest_runtest_teardown"]
