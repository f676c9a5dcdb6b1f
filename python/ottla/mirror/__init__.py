"""Mirroring between clusters: `ottla mirror FILE`, after the model of Kafka's MirrorMaker 2 (KIP-382).

| file             | what                                                                            |
|------------------|---------------------------------------------------------------------------------|
| `config.py`      | MirrorMaker 2's properties, or TOML with the same keys                          |
| `expressions.py` | names that expressions of Java's choose                                         |
| `providers.py`   | values that the file takes from elsewhere                                       |
| `naming.py`      | what topics are called in the other cluster, and which never go back            |
| `topics.py`      | which topics are mirrored; their mirrors are made, grown and given settings     |
| `copying.py`     | the records                                                                     |
| `verifying.py`   | whether a partition of the source is the one that was copied                    |
| `syncs.py`       | which offset of a mirror is which in the source                                 |
| `checkpoints.py` | where groups go on in the target                                                |
| `formats.py`     | the records of heartbeats, offset syncs and checkpoints                         |
| `notes.py`       | the topics that have those                                                      |
| `daemon.py`      | all flows of a file in one process                                              |
| `status.py`      | how far a flow is                                                               |
| `metrics.py`     | what an instance tells Prometheus                                               |
"""
