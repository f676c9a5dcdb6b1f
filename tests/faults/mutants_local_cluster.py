"""Local clusters: each promise broken once."""

from tests.faults.mutants import Mutant

_PORTS = "tests/local_cluster/test_ports.py::"

MUTANTS = (
    Mutant(
        "local-cluster.two-starts-choose-one-port",
        "python/ottla/local_cluster/ports.py",
        '        holder.bind(f"\\0ottla-local-cluster-port-{port}")\n',
        "        pass\n",
        pytest=(f"{_PORTS}test_starts_at_the_same_moment_choose_different_ports",),
    ),
    Mutant(
        "local-cluster.a-start-takes-the-port-of-another-program",
        "python/ottla/local_cluster/ports.py",
        "        if not is_free(port):\n",
        "        if False:\n",
        pytest=(f"{_PORTS}test_a_port_of_another_program_is_not_claimed",),
    ),
)
