"""Mutants of what people have around the broker: extras, the version, the service manager, completion, the image."""

from tests.faults.mutants import Mutant

EXTRAS = "python/ottla/extras.py"
VERSION = "python/ottla/cli/_version.py"
COMPLETION = "python/ottla/cli/_completion.py"

VERSIONS = "tests/cli/test_version.py"
SYSTEMD = "tests/cli/test_systemd.py"
COMPLETIONS = "tests/cli/test_completion.py"
CONTAINER = "tests/packaging/test_container.py"

MUTANTS = (
    Mutant(
        "packaging.the-extra-is-not-named",
        EXTRAS,
        "'ottla[{extra}]'",
        "ottla",
        pytest=("tests/broker/watching/test_watching.py::test_a_missing_package_is_said_with_its_extra",),
    ),
    Mutant(
        "packaging.the-commit-of-another-work-tree",
        VERSION,
        'if (root / ".git").exists()',
        "if True",
        pytest=(f"{VERSIONS}::test_nobody_knows_the_commit_of_other_packages",),
    ),
    Mutant(
        "packaging.a-changed-tree-is-not-dirty",
        VERSION,
        ', "--dirty"]',
        "]",
        pytest=(f"{VERSIONS}::test_a_work_tree_asks_git",),
    ),
    Mutant(
        "packaging.the-manager-hears-nothing-of-the-end",
        "python/ottla/broker/serve.py",
        "                    readiness.stopping()\n                    stopping()\n",
        "                    readiness.stopping()\n",
        pytest=(f"{SYSTEMD}::test_it_says_ready_and_stopping",),
    ),
    Mutant(
        "packaging.a-manager-that-is-gone-ends-the-broker",
        "python/ottla/cli/_systemd.py",
        "except OSError as error:",
        "except ValueError as error:",
        pytest=(f"{SYSTEMD}::test_a_manager_that_is_gone_is_a_warning",),
    ),
    Mutant(
        "packaging.a-stopped-cluster-is-nobodys",
        "python/ottla/cli/cluster.py",
        ", if_absent=start_again",
        "",
        pytest=("tests/cli/test_cluster.py::test_a_cluster_that_is_stopped_says_how_it_is_started",),
    ),
    Mutant(
        "completion.an-error-in-the-line",
        COMPLETION,
        "except Exception:",
        "except ValueError:",
        pytest=(f"{COMPLETIONS}::test_the_cluster_is_the_one_that_the_line_names",),
    ),
    Mutant(
        "completion.internal-topics",
        COMPLETION,
        "INTERNAL_TOPICS if not incomplete else ()",
        "()",
        pytest=(f"{COMPLETIONS}::test_what_was_typed_is_not_offered_again_nor_what_is_internal",),
    ),
    Mutant(
        "completion.names-with-another-beginning",
        COMPLETION,
        "if name.startswith(incomplete) and name not in given",
        "if name not in given",
        pytest=(f"{COMPLETIONS}::test_names_of_groups",),
    ),
    Mutant(
        "packaging.an-ill-broker-is-healthy",
        "packaging/container/healthy.py",
        'sys.exit(f"{sys.argv[1]}: {problem}")',
        'print(f"{sys.argv[1]}: {problem}")',
        pytest=(f"{CONTAINER}::test_the_health_check_says_how_the_broker_is",),
    ),
    Mutant(
        "packaging.a-metric-that-nobody-exports",
        "packaging/grafana/ottla.json",
        "ottla_log_directory_free_bytes",
        "ottla_log_directory_bytes_free",
        pytest=("tests/packaging/test_dashboard.py::test_what_a_panel_names_is_exported",),
    ),
)
