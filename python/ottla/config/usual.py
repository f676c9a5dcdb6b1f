"""The settings of clusters on one machine, as processes and inside a program."""


def usual_settings(count: int) -> dict[str, str]:
    """The settings of the brokers of a cluster of this size, unless the user says otherwise: three replicas of
    everything, of which one may be missing, as far as there are brokers for it.
    """
    replicas, in_sync = str(min(3, count)), str(2 if count >= 3 else 1)
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
    }
