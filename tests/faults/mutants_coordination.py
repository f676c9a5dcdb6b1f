"""What a client of the tree promises about reading many nodes by one request."""

from tests.faults.mutants import Mutant

_PIECES = "tests/coordination/test_multi_read.py::test_pieces_fit_a_request"
_OLD_SERVER = "tests/coordination/test_multi_read.py::test_to_ask_an_old_server_costs_no_request"

MUTANTS = (
    Mutant(
        "coordination.request-of-too-many-nodes",
        "python/ottla/coordination/multi_read.py",
        "at - begin == NODES_MAX or size + cost",
        "size + cost",
        pytest=(_PIECES,),
    ),
    Mutant(
        "coordination.request-too-large",
        "python/ottla/coordination/multi_read.py",
        "at - begin == NODES_MAX or size + cost > _PATHS_BYTES_MAX",
        "at - begin == NODES_MAX",
        pytest=(_PIECES,),
    ),
    Mutant(
        "coordination.last-piece-is-not-read",
        "python/ottla/coordination/multi_read.py",
        "    if paths:\n        yield paths[begin:]\n",
        "    if begin == 0 and paths:\n        yield paths\n",
        pytest=(_PIECES,),
    ),
    Mutant(
        "coordination.answer-to-other-paths",
        "python/ottla/coordination/multi_read.py",
        "        if _HEADER.unpack_from(buffer, at)[1] != 1:\n",
        "        if _HEADER.unpack_from(buffer, at)[1] > 1:\n",
        pytest=("tests/coordination/test_multi_read.py::test_an_answer_to_other_paths_is_an_error",),
    ),
    Mutant(
        "coordination.old-server-is-asked-beside-other-requests",
        "python/ottla/coordination/zookeeper.py",
        "        if self._multi_reads is _MultiReads.UNKNOWN and self._in_flight:\n            return False\n",
        "",
        pytest=(_OLD_SERVER,),
    ),
    Mutant(
        "coordination.old-server-is-asked-for-ever",
        "python/ottla/coordination/zookeeper.py",
        "            self._multi_reads = _MultiReads.REFUSED\n",
        "",
        pytest=(_OLD_SERVER,),
    ),
    Mutant(
        "coordination.lost-read-fails",
        "python/ottla/coordination/zookeeper.py",
        "elif is_lost and request.kind is not _Kind.WRITE and self._took_back(request):",
        "elif is_lost and request.kind is _Kind.READ and self._took_back(request):",
        pytest=("tests/coordination/test_multi_read.py::test_a_lost_connection_loses_no_node",),
    ),
)
