import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.peers.ports import BLOCK, CONTROLLER, KEPT, Ports, free_port


@pytest.fixture
def ports() -> Iterator[Ports]:
    with closing(Ports()) as ports:
        yield ports


def test_all_differ_in_one_process_and_in_several() -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(closing(Ports())) for _ in range(10)]
        drawn = [port for each in processes for port in [each.free() for _ in range(5 * BLOCK)]]
        assert len(set(drawn)) == len(drawn)


def test_a_process_that_draws_on_and_on_keeps_few(ports: Ports) -> None:
    drawn = [ports.free() for _ in range(30 * BLOCK)]
    assert len(ports._reserved) == KEPT
    recent = drawn[-(KEPT - 1) * (BLOCK - 1) :]
    assert len(set(recent)) == len(recent)


def test_what_somebody_listens_on_is_passed_over(ports: Ports) -> None:
    first = ports.free()
    with socket.create_server(("127.0.0.1", first + 1)), socket.create_server(("127.0.0.1", first + 2 + CONTROLLER)):
        assert ports.free() == first + 3


def test_a_block_that_is_full_is_followed_by_another(ports: Ports) -> None:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", ports.free()))) for _ in range(BLOCK - 1)]
        numbers = [each.getsockname()[1] for each in taken]
        assert ports.free() not in range(min(numbers), max(numbers) + 1)


def test_a_port_is_free() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass
