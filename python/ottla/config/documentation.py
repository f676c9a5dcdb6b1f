"""What every setting does, in a sentence or two: the words to the rows of `table.py`.

DescribeConfigs, `docs/settings.md` and error messages take their text from here. It is a file of its own because most
starts of a broker never read a word of it. Kafka's own documentation of the same names is at kafka.apache.org; the
words here are ours.
"""

from __future__ import annotations

from ottla.config.table import OUR_DEFAULTS, TOPIC_SETTINGS


def topic_documentation(name: str) -> str:
    """What a setting of topics does. Raises KeyError for a name that no setting of topics has."""
    return _TOPIC[name]


def broker_documentation(name: str) -> str:
    """What a setting of the broker does. Raises KeyError for a name that no setting has."""
    if name in _BROKER:
        text = _BROKER[name]
    else:
        topic_name = next(topic.name for topic in TOPIC_SETTINGS.values() if topic.broker_name == name)
        text = f"For topics that do not set {topic_name} themselves: {_TOPIC[topic_name]}"
    if name in OUR_DEFAULTS:
        text += f" Ottla's default differs from Kafka's: {OUR_DEFAULTS[name][1]}."
    return text


_TOPIC = {
    "cleanup.policy": (
        "What happens to old segments: delete removes them by age and size, compact keeps the last record of each "
        "key; both together do both."
    ),
    "compression.type": (
        "How record batches are stored. producer keeps what the producer chose, uncompressed undoes compression, a "
        "codec's name compresses again with it."
    ),
    "delete.retention.ms": (
        "How long a tombstone (a record with a key and no value) stays in a compacted topic, so that slow readers "
        "still see the deletion."
    ),
    "file.delete.delay.ms": (
        "How long a deleted segment's files stay on disk under a .deleted name, for readers that still have them open."
    ),
    "flush.messages": (
        "After how many records the log is forced to disk. The default leaves it to the operating system and to "
        "replicas."
    ),
    "flush.ms": (
        "After how long at most records are forced to disk. The default leaves it to the operating system and to "
        "replicas."
    ),
    "follower.replication.throttled.replicas": (
        "The replicas whose fetching is slowed to follower.replication.throttled.rate: * for all, or pairs of "
        "partition and broker."
    ),
    "index.interval.bytes": (
        "After how many bytes of records the offset index gets another entry. Fewer bytes find an offset faster "
        "and need a larger index."
    ),
    "leader.replication.throttled.replicas": (
        "The replicas whose being fetched is slowed to leader.replication.throttled.rate: * for all, or pairs of "
        "partition and broker."
    ),
    "max.compaction.lag.ms": "How long a record may stay uncompacted at most. Only for compacted topics.",
    "max.message.bytes": "The largest record batch, after compression, that a producer may write.",
    "message.downconversion.enable": (
        "Whether batches are rewritten in an older format for consumers that need it; if not, such consumers get "
        "an error."
    ),
    "message.format.version": (
        "The newest record format to store, by Kafka's version. Producers' batches in a newer format are rewritten "
        "to it."
    ),
    "message.timestamp.difference.max.ms": (
        "How far a record's own time may be from the broker's before the record is refused. Only with CreateTime."
    ),
    "message.timestamp.type": (
        "Which time a record carries: CreateTime is the producer's, LogAppendTime is the broker's when it wrote "
        "the record."
    ),
    "min.cleanable.dirty.ratio": (
        "Which part of a log must be uncompacted before it is compacted. Less saves space and costs more work."
    ),
    "min.compaction.lag.ms": "How long a record stays uncompacted at least. Only for compacted topics.",
    "min.insync.replicas": (
        "With acks=all: how many replicas, the leader among them, must be in sync for a write to be taken."
    ),
    "preallocate": "Whether a new segment's file gets its full size on disk at once.",
    "retention.bytes": "How large a partition may become before its oldest segments are deleted; -1 is without limit.",
    "retention.ms": "How long records are kept before their segment is deleted; -1 is for ever.",
    "segment.bytes": (
        "How large a segment's file becomes before the next one is begun. Deletion and compaction work on whole "
        "segments."
    ),
    "segment.index.bytes": "How large a segment's index may become; when it is full, the next segment is begun.",
    "segment.jitter.ms": (
        "By how much at most segment.ms is shortened, at random, so that not all partitions begin a segment at once."
    ),
    "segment.ms": (
        "After how long a new segment is begun even if the last one is not full, so that its records can be "
        "deleted or compacted."
    ),
    "unclean.leader.election.enable": (
        "Whether a replica that is not in sync may lead when no other is left. It keeps the partition available "
        "and loses records."
    ),
}

_BROKER = {
    # Who this broker is, and where its data is
    "broker.id": (
        "The number of this broker in its cluster. With -1 it is the one its data directory was used with before, "
        "or a new one."
    ),
    "broker.id.generation.enable": "Whether a broker without an id makes one up, above reserved.broker.max.id.",
    "broker.rack": "Where the broker stands (a rack, a zone). Replicas of a partition are spread over racks.",
    "log.dir": "The directory for logs if log.dirs has none.",
    "log.dirs": "The directories for logs, separated by commas. Without it: log.dir.",
    "reserved.broker.max.id": (
        "The largest id that an installation may give a broker itself; ids that are made up begin above it."
    ),
    # Listeners and connections
    "advertised.host.name": (
        "Only without advertised.listeners: the host that clients are told to connect to. Use advertised.listeners."
    ),
    "advertised.listeners": (
        "The addresses that clients and other brokers are told, as NAME://HOST:PORT, where they differ from "
        "listeners: behind address translation, in containers. Without it: listeners."
    ),
    "advertised.port": (
        "Only without advertised.listeners: the port that clients are told to connect to. Use advertised.listeners."
    ),
    "connections.max.idle.ms": "A connection on which nothing happened for this long is closed. Negative is never.",
    "control.plane.listener.name": (
        "The listener that is kept for what the controller sends to brokers: memory is reserved for its requests. "
        "Without it they use the inter-broker listener."
    ),
    "host.name": (
        "Only without listeners: the address to listen on; empty is every address of the machine. Use listeners."
    ),
    "inter.broker.accepted.listener.names": (
        "Further listeners on which brokers and controllers are heard, beside that of inter.broker.listener.name and "
        "that of control.plane.listener.name: both, the former and the next, while a cluster goes from one to another."
    ),
    "inter.broker.listener.name": (
        "The listener through which brokers talk to each other. Without it: the one with the protocol of "
        "security.inter.broker.protocol."
    ),
    "listener.security.protocol.map": (
        "How each listener is secured, as NAME:PROTOCOL pairs, so that several listeners can share a protocol."
    ),
    "listeners": (
        "Where to listen, as NAME://HOST:PORT separated by commas. An empty host, 0.0.0.0 or [::] is every address of "
        "the machine, IPv4 and IPv6."
    ),
    "max.connection.creation.rate": (
        "How many connections a second the broker (or, with a listener's prefix, one listener) accepts."
    ),
    "max.connections": (
        "How many connections the broker (or, with a listener's prefix, one listener) has at once. All listeners"
        " together have at most half of RLIMIT_NOFILE, less a quarter of that (64 at most): files need descriptors."
        " From there on a new connection takes the place of an idle one, the longest idle of the address with the most."
    ),
    "max.connections.per.ip": "How many connections one client address may have at once.",
    "max.connections.per.ip.overrides": "Other limits for some addresses, as ADDRESS:COUNT pairs.",
    "port": "Only without listeners: the port to listen on. Use listeners.",
    "security.inter.broker.protocol": (
        "How connections between brokers are secured, if inter.broker.listener.name does not say it."
    ),
    "socket.connection.setup.timeout.max.ms": (
        "How long setting up a connection to another broker may take at most, after the time doubled with each failure."
    ),
    "socket.connection.setup.timeout.ms": "How long setting up a connection to another broker may take at first.",
    "socket.receive.buffer.bytes": "SO_RCVBUF of the server's sockets; -1 leaves it to the operating system.",
    "socket.request.max.bytes": "The largest request that is read; a larger one closes its connection.",
    "socket.send.buffer.bytes": "SO_SNDBUF of the server's sockets; -1 leaves it to the operating system.",
    # Requests and their queues
    "background.threads": "How many threads Kafka's background tasks share.",
    "delete.records.purgatory.purge.interval.requests": (
        "After how many requests Kafka drops finished ones from those that wait for DeleteRecords."
    ),
    "fetch.max.bytes": (
        "The most bytes that one fetch is answered with, whatever it asks for; the first batch is sent even if it "
        "is larger."
    ),
    "fetch.purgatory.purge.interval.requests": (
        "After how many requests Kafka drops finished ones from the fetches that wait for data."
    ),
    "max.incremental.fetch.session.cache.slots": "How many incremental fetch sessions are remembered (KIP-227).",
    "num.io.threads": "How many threads work on requests in Kafka.",
    "num.network.threads": "How many threads serve connections, one for each processor at most; 1 to 3 if not set.",
    "producer.purgatory.purge.interval.requests": (
        "After how many requests Kafka drops finished ones from the produce requests that wait for replicas."
    ),
    "queued.max.request.bytes": (
        "How many bytes of requests are held at once before no more are read; -1 is without limit. While they are"
        " short, connections that hold some and do nothing with them are closed. Unsent answers may hold a quarter as"
        " much."
    ),
    "queued.max.requests": "How many requests are held at once before no more are read.",
    "request.timeout.ms": "How long a request from this broker to another waits for its answer.",
    # Topics and their logs
    "auto.create.topics.enable": "Whether a topic comes into being when a client asks for its metadata.",
    "delete.topic.enable": "Whether topics can be deleted; if not, deleting one is refused.",
    "log.flush.interval.ms": (
        "For topics that do not set flush.ms themselves: after how long at most records are forced to disk. "
        "Without it: log.flush.scheduler.interval.ms."
    ),
    "log.flush.offset.checkpoint.interval.ms": (
        "How often it is written down up to where logs are known to be on disk; recovery begins there."
    ),
    "logging.format": (
        "The form of the broker's own log lines on stderr: text for people, or json: one object a line with time, "
        "level, logger, message and the fields that it is about. Values are cut after 300 characters; of each kind of "
        "line 100 are written at once and then one a second, which says how many more there were."
    ),
    "audit.log.allowed": "Whether the audit log also says what was allowed, and who has said who it is.",
    "audit.log.file": (
        "The file to which the broker writes who was denied what, and who could not say who it is: docs/audit.md. "
        "Without it there is no audit log."
    ),
    "audit.log.files": "How many files of the audit log there are at most: the one that is written, and older ones.",
    "audit.log.max.bytes": "From which size on the audit log begins a new file.",
    "metrics.listener": (
        "HOST:PORT at which /metrics (for Prometheus), /healthz and /readyz are served over HTTP; port 0 takes a free "
        "one, and :PORT alone is that of 127.0.0.1. unix:PATH is a socket of the file system. Needs the packages of "
        "the extra `metrics`. Without metrics.listener nothing is measured. docs/metrics.md lists the metrics."
    ),
    "metrics.password.file": "The file whose first line is the password of metrics.user.",
    "metrics.security.protocol": (
        "How metrics.listener is secured: PLAINTEXT, or SSL with a certificate that listener.name.metrics.ssl.* or "
        "ssl.* name."
    ),
    "metrics.user": (
        "The name that /metrics is only given to, with the password in metrics.password.file (HTTP basic "
        "authentication). /healthz and /readyz need none."
    ),
    "security.settings.ignored": (
        "Settings that ask for protection which Ottla does not have, and which are to be ignored instead of refused. "
        "Only names that are refused otherwise are possible. Each one that is ignored is a warning at every start."
    ),
    "log.flush.on.acks.all": (
        "Whether a write with acks=all to a partition with a single replica is answered only when it is on disk "
        "(fdatasync, shared by all writes that wait). There is no other copy that could survive a power cut. The same "
        "holds for a leader that is the only replica in sync; when the others leave, it shows consumers nothing more "
        "until its disk has what its log has then. false is Kafka's behaviour."
    ),
    "log.flush.scheduler.interval.ms": "How often the broker looks for logs whose time to be flushed has come.",
    "log.flush.start.offset.checkpoint.interval.ms": (
        "How often it is written down where logs begin, so that deleted records stay deleted."
    ),
    "log.retention.check.interval.ms": "How often the broker looks for segments to delete.",
    "log.retention.hours": (
        "For topics that do not set retention.ms themselves: how many hours records are kept, if log.retention.ms "
        "and log.retention.minutes do not say it."
    ),
    "log.retention.minutes": (
        "For topics that do not set retention.ms themselves: how many minutes records are kept, if "
        "log.retention.ms does not say it. Without it: log.retention.hours."
    ),
    "log.roll.hours": (
        "For topics that do not set segment.ms themselves: after how many hours a new segment is begun, if "
        "log.roll.ms does not say it."
    ),
    "log.roll.jitter.hours": (
        "For topics that do not set segment.jitter.ms themselves: by how many hours at most that is shortened, if "
        "log.roll.jitter.ms does not say it."
    ),
    "num.partitions": "How many partitions a topic gets if whoever creates it does not say.",
    "num.recovery.threads.per.data.dir": ("How many threads open and recover the logs of one directory at start."),
    # Log compaction
    "log.cleaner.backoff.ms": "How long the cleaner rests when there is nothing to compact.",
    "log.cleaner.dedupe.buffer.size": "How many bytes all cleaner threads together have for the keys of one pass.",
    "log.cleaner.enable": "Whether topics are compacted at all. The internal topic of group offsets needs it.",
    "log.cleaner.io.buffer.load.factor": "How full the buffer for keys may become, as a part of 1.",
    "log.cleaner.io.buffer.size": "How many bytes all cleaner threads together have for reading and writing.",
    "log.cleaner.io.max.bytes.per.second": "How many bytes a second the cleaner reads and writes on average at most.",
    "log.cleaner.threads": "How many threads compact logs.",
    # Replication and the controller
    "auto.leader.rebalance.enable": "Whether the controller gives leadership back to the replicas named first.",
    "broker.early.removal.enable": (
        "Whether other Ottla brokers are replaced before their ZooKeeper sessions end, if their processes are surely "
        "gone: their machine has closed a connection and refuses others."
    ),
    "group.max.bytes": (
        "How many bytes one group keeps of its members, in all: what they offer in a join, and their assignments. A "
        "member that is too much is refused with GROUP_MAX_SIZE_REACHED, an assignment with UNKNOWN_SERVER_ERROR."
    ),
    "group.max.pending.members": (
        "How many ids a group may have given to members that have not joined with them yet. One that asks for an id "
        "then gets COORDINATOR_NOT_AVAILABLE, and asks again. An id lives as long as a session."
    ),
    "group.member.metadata.max.bytes": (
        "How many bytes the protocols of one member may have in a join, with their names. A join with more is refused "
        "with INVALID_REQUEST."
    ),
    "queued.max.request.percent.per.ip": (
        "What part of the memory for requests (queued.max.request.bytes) one client address may have, in percent, once "
        "half of it is taken and while other addresses want some. An address that many clients share, such as a "
        "proxy's, needs more."
    ),
    "sasl.oauthbearer.client.credentials.client.id": (
        "The name by which the authorization server knows this broker, if sasl.jaas.config has no clientId. As in "
        "Kafka 4.1."
    ),
    "sasl.oauthbearer.client.credentials.client.secret": (
        "The secret that goes with it, if sasl.jaas.config has no clientSecret. As in Kafka 4.1."
    ),
    "sasl.oauthbearer.clock.skew.seconds": (
        "By how much the clock of the server that makes tokens may differ, in seconds. As in Kafka 3.1."
    ),
    "sasl.oauthbearer.expected.audience": (
        "For whom tokens must be: one of these. Without it nobody looks. As in Kafka 3.1."
    ),
    "sasl.oauthbearer.expected.issuer": "Who must have made tokens. Without it nobody looks. As in Kafka 3.1.",
    "sasl.oauthbearer.header.urlencode": (
        "Name and secret are encoded as in a form before the authorization server gets them (RFC 6749, 2.3.1). As in "
        "Kafka 3.9."
    ),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (
        "How often the keys that sign tokens are read, in ms. As in Kafka 3.1."
    ),
    "sasl.oauthbearer.jwks.endpoint.url": (
        "Where the keys are that sign tokens, a JSON Web Key Set: https://, http:// or file://. As in Kafka 3.1, which "
        "takes no file."
    ),
    "sasl.oauthbearer.scope": (
        "The scope of the tokens that this broker asks for, if sasl.jaas.config has none. As in Kafka 4.1."
    ),
    "sasl.oauthbearer.scope.claim.name": "The claim of a token that has its scopes. As in Kafka 3.1.",
    "sasl.oauthbearer.sub.claim.name": "The claim of a token that is the user's name. As in Kafka 3.1.",
    "sasl.oauthbearer.token.endpoint.url": (
        "Where this broker has the tokens from with which it comes in at others: the address of an authorization "
        "server (https://, http://), or a file (file://). As in Kafka 3.1."
    ),
    "unclean.start.wait.ms": (
        "How long nobody may lead a partition before a replica does that may have lost records with the power of its "
        "machine, where other replicas that were in sync do not say what they have. One whose log is "
        "gone waits for their answers without a limit. With 0 such replicas lead like any other."
    ),
    "zookeeper.sasl.jaas.config": (
        "Who to be at ZooKeeper, as Kafka's JAAS files say it, on one line: "
        'org.apache.zookeeper.server.auth.DigestLoginModule required username="..." password="..."; Without it: '
        "the entry Client of the JAAS file that the variable KAFKA_OPTS names, if there is one."
    ),
    "controlled.shutdown.enable": "Whether a broker that stops hands its partitions to other leaders first.",
    "controlled.shutdown.max.retries": "How often that is tried.",
    "controlled.shutdown.retry.backoff.ms": "How long the broker waits between two tries.",
    "controller.socket.timeout.ms": "How long the controller waits for a broker's answer.",
    "default.replication.factor": "How many replicas a topic gets that came into being by itself.",
    "follower.replication.throttled.rate": (
        "How many bytes a second this broker fetches for throttled replicas. It can only be set while brokers run."
    ),
    "inter.broker.protocol.version": (
        "The version of the protocol between brokers. In a mixed cluster all brokers have the oldest one's."
    ),
    "leader.imbalance.check.interval.seconds": (
        "How often the controller looks whether leadership is spread as intended."
    ),
    "leader.imbalance.per.broker.percentage": (
        "How many per cent of a broker's partitions may be led by others before leadership is given back."
    ),
    "leader.replication.throttled.rate": (
        "How many bytes a second this broker sends for throttled replicas. It can only be set while brokers run."
    ),
    "num.replica.alter.log.dirs.threads": (
        "How many threads move replicas between directories. Without it: one for each directory."
    ),
    "num.replica.fetchers": "How many fetchers copy from each other broker.",
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "How many bytes a second are moved between directories of one broker. It can only be set while brokers run."
    ),
    "replica.fetch.backoff.ms": "How long a follower waits after a fetch that failed.",
    "replica.fetch.max.bytes": (
        "How many bytes a follower asks for from each partition; a first batch that is larger is sent all the same."
    ),
    "replica.fetch.min.bytes": (
        "How many bytes a leader waits for before it answers a follower, up to replica.fetch.wait.max.ms."
    ),
    "replica.fetch.response.max.bytes": (
        "How many bytes a follower asks for in one fetch; a first batch that is larger is sent all the same."
    ),
    "replica.fetch.wait.max.ms": (
        "How long a leader keeps a follower's fetch waiting for bytes. It must be below replica.lag.time.max.ms."
    ),
    "replica.high.watermark.checkpoint.interval.ms": (
        "How long after a high watermark moved it is written down at the latest."
    ),
    "replica.lag.time.max.ms": "A follower that did not reach the leader's end for this long is no longer in sync.",
    "replica.selector.class": (
        "How a leader chooses the replica that a consumer reads from (KIP-392). Without it consumers read from the "
        "leader. Only Kafka's own is possible, org.apache.kafka.common.replica.RackAwareReplicaSelector: a consumer "
        "that sets client.rack reads from a replica in sync on a broker with that broker.rack."
    ),
    "replica.socket.receive.buffer.bytes": "SO_RCVBUF of the sockets that copy from leaders.",
    "replica.socket.timeout.ms": (
        "How long a follower waits for the answer to a fetch. It must be at least replica.fetch.wait.max.ms."
    ),
    # The coordination tree in ZooKeeper
    "zookeeper.clientCnxnSocket": "The Java class for TLS connections to ZooKeeper.",
    "zookeeper.connect": (
        "The ZooKeeper servers, as HOST:PORT,HOST:PORT/chroot; the chroot is the part of their tree that the "
        "cluster has for itself."
    ),
    "zookeeper.connection.timeout.ms": (
        "How long connecting to ZooKeeper may take at start. Without it: zookeeper.session.timeout.ms."
    ),
    "zookeeper.max.in.flight.requests": "How many requests to ZooKeeper may be unanswered at once.",
    "zookeeper.session.timeout.ms": (
        "How long ZooKeeper may hear nothing from this broker before the others take it for dead."
    ),
    "zookeeper.set.acl": (
        "Whether what this broker creates in ZooKeeper may be changed only by who it is there: its user "
        "(zookeeper.sasl.jaas.config) or its certificate (zookeeper.ssl.keystore.location). Users' passwords and the "
        "settings of brokers can then be read only by it, too."
    ),
    "zookeeper.ssl.cipher.suites": "The TLS cipher suites for ZooKeeper. Without it: Java's.",
    "zookeeper.ssl.client.enable": "Whether connections to ZooKeeper use TLS.",
    "zookeeper.ssl.crl.enable": "Whether revocation lists are looked up for ZooKeeper's certificates.",
    "zookeeper.ssl.enabled.protocols": "The TLS versions for ZooKeeper. Without it: the one of zookeeper.ssl.protocol.",
    "zookeeper.ssl.endpoint.identification.algorithm": (
        "Whether ZooKeeper's host must be the one in its certificate: HTTPS, or empty for no."
    ),
    "zookeeper.ssl.keystore.location": "The file with the broker's own certificate for ZooKeeper.",
    "zookeeper.ssl.keystore.password": "The password of that file.",
    "zookeeper.ssl.keystore.type": "The format of that file. Without it: by its ending.",
    "zookeeper.ssl.ocsp.enable": "Whether OCSP servers are asked about ZooKeeper's certificates.",
    "zookeeper.ssl.protocol": "The TLS version to begin with.",
    "zookeeper.ssl.truststore.location": "The file with the certificates that ZooKeeper may have.",
    "zookeeper.ssl.truststore.password": "The password of that file.",
    "zookeeper.ssl.truststore.type": "The format of that file. Without it: by its ending.",
    "zookeeper.sync.time.ms": "How far a ZooKeeper server may be behind its leader. Kafka reads it no more.",
    # Groups and their offsets
    "group.initial.rebalance.delay.ms": (
        "How long a new group waits for more members before it spreads partitions the first time."
    ),
    "group.max.session.timeout.ms": "The longest session timeout that a member may ask for.",
    "group.max.size": "How many members a group may have.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member may ask for.",
    "offset.metadata.max.bytes": "How long the note may be that a consumer keeps with an offset.",
    "offsets.commit.required.acks": "The acks with which offsets are written. The default should stay.",
    "offsets.commit.timeout.ms": "How long the replicas may take to store committed offsets.",
    "offsets.load.buffer.size": (
        "How many bytes are read at a time when offsets are loaded into memory; a larger batch is read all the same."
    ),
    "offsets.retention.check.interval.ms": "How often the broker looks for offsets that are no longer kept.",
    "offsets.retention.minutes": "How long a group's offsets are kept after its last member left.",
    "offsets.topic.compression.codec": (
        "The codec of the offsets topic, by its number: 0 is none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    ),
    "offsets.topic.num.partitions": (
        "How many partitions the offsets topic gets. It must not be changed later: it decides which broker serves "
        "a group."
    ),
    "offsets.topic.replication.factor": (
        "How many replicas the offsets topic gets; it is not created while there are fewer brokers. A broker "
        "without ZooKeeper is alone, and 1 is its default."
    ),
    "offsets.topic.segment.bytes": (
        "The segment size of the offsets topic: small, so that it is compacted and loaded fast."
    ),
    # Transactions
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "How often the broker looks for transactions whose time is over, to abort them."
    ),
    "transaction.max.timeout.ms": "The longest transaction that a producer may ask for.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often the broker looks for transactional ids to forget."
    ),
    "transaction.state.log.load.buffer.size": (
        "How many bytes are read at a time when transactions are loaded into memory; a larger batch is read all "
        "the same."
    ),
    "transaction.state.log.min.isr": (
        "min.insync.replicas of the topic of transactions. A broker without ZooKeeper is alone, and 1 is its default."
    ),
    "transaction.state.log.num.partitions": (
        "How many partitions the topic of transactions gets. It must not be changed later."
    ),
    "transaction.state.log.replication.factor": (
        "How many replicas the topic of transactions gets; it is not created while there are fewer brokers. A "
        "broker without ZooKeeper is alone, and 1 is its default."
    ),
    "transaction.state.log.segment.bytes": (
        "The segment size of the topic of transactions: small, so that it is compacted and loaded fast."
    ),
    "transactional.id.expiration.ms": "How long a transactional id that is not used is remembered.",
    # Quotas
    "alter.log.dirs.replication.quota.window.num": (
        "How many samples are kept to measure how fast replicas move between directories."
    ),
    "alter.log.dirs.replication.quota.window.size.seconds": "How long each of these samples is.",
    "client.quota.callback.class": "A Java class that decides which quota a client has.",
    "controller.quota.window.num": "How many samples are kept to measure how fast topics are created and deleted.",
    "controller.quota.window.size.seconds": "How long each of these samples is.",
    "quota.consumer.default": (
        "How many bytes a second a client id may fetch from this broker, if nothing else is set for it while "
        "brokers run."
    ),
    "quota.producer.default": (
        "How many bytes a second a client id may produce to this broker, if nothing else is set for it while "
        "brokers run."
    ),
    "quota.window.num": "How many samples are kept to measure how much clients send and get.",
    "quota.window.size.seconds": "How long each of these samples is.",
    "replication.quota.window.num": "How many samples are kept to measure throttled replication.",
    "replication.quota.window.size.seconds": "How long each of these samples is.",
    # Who may do what
    "alter.config.policy.class.name": "A Java class that may refuse changes of settings.",
    "authorizer.class.name": (
        "What decides who may do what: kafka.security.authorizer.AclAuthorizer has access rules do it (docs/acls.md). "
        "Empty lets everybody do everything."
    ),
    "connection.failed.authentication.delay.ms": (
        "How long a connection stays open after it could not prove who it is, to slow guessing."
    ),
    "connections.max.reauth.ms": "After how long a SASL connection must prove again who it is; 0 is never.",
    "create.topic.policy.class.name": "A Java class that may refuse new topics.",
    "principal.builder.class": "A Java class that makes a principal of what a connection proved.",
    "security.providers": "Java classes that offer security algorithms.",
    # TLS
    "ssl.cipher.suites": "The cipher suites that are offered. Empty is all that are safe.",
    "ssl.client.auth": "Whether clients need a certificate: required, requested (they may have one) or none.",
    "ssl.enabled.protocols": "The TLS versions that are offered.",
    "ssl.endpoint.identification.algorithm": (
        "Whether another broker's host must be the one in its certificate: https, or empty for no."
    ),
    "ssl.engine.factory.class": "A Java class that makes TLS engines.",
    "ssl.key.password": "The password of the private key.",
    "ssl.keymanager.algorithm": "The Java name of the algorithm that manages keys.",
    "ssl.keystore.certificate.chain": "The broker's certificate and those that signed it, in PEM.",
    "ssl.keystore.key": "The broker's private key, in PEM.",
    "ssl.keystore.location": "The file with the broker's own certificate and key.",
    "ssl.keystore.password": "The password of that file; PEM has none.",
    "ssl.keystore.type": "The format of that file: JKS, PKCS12 or PEM.",
    "ssl.principal.mapping.rules": (
        "How the name in a client's certificate becomes a principal's name: rules tried in order, or DEFAULT for "
        "the name as it is."
    ),
    "ssl.protocol": "The TLS version to make a context with; the enabled ones decide what is used.",
    "ssl.provider": "The Java security provider for TLS.",
    "ssl.secure.random.implementation": "The Java name of the random number generator for TLS.",
    "ssl.trustmanager.algorithm": "The Java name of the algorithm that manages trust.",
    "ssl.truststore.certificates": "The certificates to trust, in PEM.",
    "ssl.truststore.location": "The file with the certificates to trust.",
    "ssl.truststore.password": "The password of that file; without it, its integrity is not checked.",
    "ssl.truststore.type": "The format of that file: JKS, PKCS12 or PEM.",
    # SASL
    "sasl.client.callback.handler.class": "A Java class that answers what the client's side of a mechanism asks.",
    "sasl.enabled.mechanisms": "The mechanisms with which clients may prove who they are.",
    "sasl.jaas.config": (
        "Who the broker is, and whom it knows, for a mechanism; with a listener's and a mechanism's prefix."
    ),
    "sasl.kerberos.kinit.cmd": "Where kinit is.",
    "sasl.kerberos.min.time.before.relogin": (
        "How long at least passes between two renewals of the Kerberos ticket, in ms."
    ),
    "sasl.kerberos.principal.to.local.rules": "How a Kerberos principal becomes a short name: rules tried in order.",
    "sasl.kerberos.service.name": "The service part of the brokers' Kerberos principal.",
    "sasl.kerberos.ticket.renew.jitter": "Which part of the time until renewal is left to chance.",
    "sasl.kerberos.ticket.renew.window.factor": "After which part of its life the Kerberos ticket is renewed.",
    "sasl.login.callback.handler.class": "A Java class that answers what a login asks.",
    "sasl.login.class": "A Java class that logs in.",
    "sasl.login.refresh.buffer.seconds": (
        "How long before the end of its life a credential is renewed at the latest. OAUTHBEARER only."
    ),
    "sasl.login.refresh.min.period.seconds": "How long at least passes between two renewals. OAUTHBEARER only.",
    "sasl.login.refresh.window.factor": "After which part of its life a credential is renewed. OAUTHBEARER only.",
    "sasl.login.refresh.window.jitter": "Which part of the time until then is left to chance. OAUTHBEARER only.",
    "sasl.mechanism.inter.broker.protocol": "The mechanism with which brokers prove to each other who they are.",
    "sasl.server.callback.handler.class": "A Java class that answers what the server's side of a mechanism asks.",
    # Delegation tokens
    "delegation.token.expiry.check.interval.ms": "How often the broker looks for tokens that are no longer valid.",
    "delegation.token.expiry.time.ms": "How long a token is valid without being renewed.",
    "delegation.token.master.key": (
        "The secret that tokens are made with; the same on all brokers. Without it there are no tokens."
    ),
    "delegation.token.max.lifetime.ms": "How long a token is valid at most, however often it is renewed.",
    # Passwords kept in dynamic settings
    "password.encoder.cipher.algorithm": (
        "The cipher for passwords among the settings that are changed while brokers run."
    ),
    "password.encoder.iterations": "How many rounds it takes to make the key from the secret.",
    "password.encoder.key.length": "How long that key is, in bits.",
    "password.encoder.keyfactory.algorithm": "How that key is made. Without it: the best one there is.",
    "password.encoder.old.secret": (
        "The secret before this one, to read what was written with it, once, at the next start."
    ),
    "password.encoder.secret": "The secret that the key for such passwords is made from.",
    # Metrics
    "kafka.metrics.polling.interval.secs": "How often Kafka's own metrics reporters look.",
    "kafka.metrics.reporters": "Java classes that report Kafka's older metrics.",
    "metric.reporters": "Java classes that report metrics.",
    "metrics.num.samples": "How many samples a metric is made of.",
    "metrics.recording.level": "Which metrics are kept: INFO, or DEBUG for more.",
    "metrics.sample.window.ms": "How long each of these samples is.",
}
