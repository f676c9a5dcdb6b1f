"""A small server that speaks ZooKeeper's protocol over the embedded tree, for brokers that are processes.

It is for laptops and tests, and listens on 127.0.0.1 only: one process, no replicas, nobody logs in, and every node is
open to everybody. Clients of ZooKeeper use it as they are: kazoo, Java's, and so brokers of Apache Kafka.

| module     | part                                                                                     |
|------------|------------------------------------------------------------------------------------------|
| `frames`   | bytes of requests, answers and events                                                    |
| `sessions` | how long a session lives, and which connection has it; no I/O, no clock                  |
| `nodes`    | the file, which data in it are empty and not null, and what nodes were like when made   |
| `requests` | what each request does in the file, and the watches; no I/O, no clock                    |
| `listener` | connections, the clock, and one commit for all that came together                        |

The nodes are in the file of `ottla.coordination.database`, so they are found again after a restart. Sessions are not:
a restart ends all of them with their ephemeral nodes, as it does for the embedded tree.

It differs from ZooKeeper in this:

- There are no access rules: a node with others than `world:anyone` is refused (InvalidACL), and so is each login.
- There are no quotas, containers, nodes with a time to live, persistent watches, and no node /zookeeper. Requests for
  them are answered with Unimplemented, as are getEphemerals and getAllChildrenNumber; the connection goes on.

Source: zookeeper.jute and the package org.apache.zookeeper.server of Apache ZooKeeper (PrepRequestProcessor,
FinalRequestProcessor, DataTree.setWatches, NIOServerCnxn).
"""
