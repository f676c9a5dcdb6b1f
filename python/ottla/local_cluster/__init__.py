"""A cluster on this machine, to try things out: brokers as processes of their own, and a coordination tree as another
where no ZooKeeper is given.

| module       | part                                                                                              |
|--------------|---------------------------------------------------------------------------------------------------|
| `state`      | the file that says what belongs to a cluster: ports, settings, and the processes that were started |
| `processes`  | starting a process, knowing it again by its number and its start, ending it                       |
| `tree`       | the coordination tree, where no ZooKeeper is given                                                 |
| `running`    | start, stop, and what runs                                                                         |
| `demo`       | `make cluster`: three brokers, one of which is killed                                              |

Everything of a cluster is in one directory, in which it can be started again:

    cluster.json            the state
    broker-1/data           log.dirs of broker 1
    broker-1/log.txt        what it said
    tree/                   the same of a tree of its own
"""


class LocalClusterError(Exception):
    """It cannot be done; the message says why, and what to do."""
