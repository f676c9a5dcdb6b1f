"""Every metric: its name, what it tells, and where the name comes from.

Names, types and labels of Kafka's are those that the JMX exporter gives with its widely used configuration
(`kafka-2_0_0.yml` of prometheus/jmx_exporter), so that dashboards and alerts for Kafka work here;
`tests/metrics/test_names.py` compares them with what a Kafka 2.7 with that exporter serves. Group lag has the names
of danielqsj/kafka_exporter. What neither has begins with `ottla_`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

GAUGE: Final = "gauge"
COUNTER: Final = "counter"

KAFKA: Final = "Kafka"
KAFKA_EXPORTER: Final = "kafka_exporter"
OURS: Final = "Ottla"


class Family(NamedTuple):
    """One metric. The name of a counter ends in `_total`."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str
    origin: str = KAFKA


_TOPIC = ("topic",)
_PARTITION = ("partition", "topic")
_REQUEST = ("request",)
_QUANTILES = ("quantile", "request")
_DIRECTORY = ("logDirectory",)
_CURRENT = ("consumergroup", "topic", "partition")
_ACTIVE = "told by the controller, 0 elsewhere"


def _traffic(name: str, text: str) -> Family:
    return Family(f"kafka_server_brokertopicmetrics_{name}_total", COUNTER, _TOPIC, text)


#: In the order of the counts that `ottla._core.TopicTraffic` gives.
TRAFFIC: Final = {
    "records_in": _traffic("messagesin", "Records appended."),
    "bytes_in": _traffic("bytesin", "Bytes of record batches appended, as they are stored."),
    "bytes_out": _traffic("bytesout", "Bytes of record batches sent to consumers."),
    "produce_requests": _traffic("totalproducerequests", "Partitions in Produce requests."),
    "fetch_requests": _traffic("totalfetchrequests", "Partitions in answers to Fetch requests."),
    "failed_produce_requests": _traffic(
        "failedproducerequests", "Those in Produce requests that failed for no usual reason."
    ),
    "failed_fetch_requests": _traffic(
        "failedfetchrequests", "Those in Fetch requests that failed for no usual reason."
    ),
    "produce_conversions": _traffic(
        "producemessageconversions", "Records that were stored in another format or codec than they came in."
    ),
    "fetch_conversions": _traffic(
        "fetchmessageconversions", "Records that were sent to old consumers in another format than is stored."
    ),
}


def _replicated(name: str, text: str) -> Family:
    return Family(f"kafka_server_brokertopicmetrics_{name}_total", COUNTER, (), text)


REPLICATED_IN: Final = _replicated("replicationbytesin", "Bytes of record batches fetched from leaders.")
REPLICATED_OUT: Final = _replicated("replicationbytesout", "Bytes of record batches sent to followers.")
REASSIGNED_IN: Final = _replicated("reassignmentbytesin", "Those fetched for replicas that a reassignment adds.")
REASSIGNED_OUT: Final = _replicated("reassignmentbytesout", "Those sent to replicas that a reassignment adds.")

REQUESTS: Final = Family(
    "kafka_network_requestmetrics_requests_total", COUNTER, ("request", "version"), "Requests that were answered."
)


def _time(part: str, text: str) -> tuple[Family, Family]:
    """The quantiles of a part of the time, and how often it was measured."""
    name = f"kafka_network_requestmetrics_{part}timems"
    text = f"Milliseconds {text}, over the last five to ten minutes."
    return (
        Family(name, GAUGE, _QUANTILES, text),
        Family(f"{name}_count_total", COUNTER, _REQUEST, "Requests whose answers were sent."),
    )


#: By the names of `ApiFigures`. The parts of a request's time add up to the first.
TIMES: Final = {
    "total_us": _time("total", "from when the loop found a request's connection readable until its answer was sent"),
    "request_queue_us": _time(
        "requestqueue", "of those until its handler was called: others were received and handled before it"
    ),
    "local_us": _time("local", "of those in its handler, with what a small request's reception takes"),
    "remote_us": _time(
        "remote", "of those until it was answered, if its handler did not: a flush, replicas, fetch.max.wait.ms"
    ),
    "response_queue_us": _time(
        "responsequeue", "of those until its answer was first sent of: earlier answers, a full socket"
    ),
    "response_send_us": _time("responsesend", "of those until all of its answer was in the socket's buffer"),
}
SIZE: Final = Family(
    "kafka_network_requestmetrics_requestbytes",
    GAUGE,
    _QUANTILES,
    "Bytes of requests, over the last five to ten minutes.",
)
SIZE_COUNT: Final = Family(
    "kafka_network_requestmetrics_requestbytes_count_total", COUNTER, _REQUEST, "Requests whose size was measured."
)
THROTTLE: Final = Family(
    "kafka_network_requestmetrics_throttletimems",
    GAUGE,
    _QUANTILES,
    "Milliseconds for which connections were muted with the answer, over the last five to ten minutes.",
)
THROTTLE_COUNT: Final = Family(
    "kafka_network_requestmetrics_throttletimems_count_total", COUNTER, _REQUEST, "Requests that could be throttled."
)
ERRORS: Final = Family(
    "kafka_network_requestmetrics_errors_total",
    COUNTER,
    ("error", "request"),
    "Error codes in answers and in their rows; NONE is one of them.",
)
HANDLER_IDLE: Final = Family(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    GAUGE,
    (),
    "Which part (0 to 1) of the last seconds nothing was to do for the loop, which does the work of Kafka's handlers.",
)
NETWORK_IDLE: Final = Family(
    "kafka_network_socketserver_networkprocessoravgidlepercent",
    GAUGE,
    (),
    "The same for the threads that serve connections, on average; of the loop where it serves alone.",
)
MEMORY_USED: Final = Family(
    "kafka_network_socketserver_memorypoolused", GAUGE, (), "Bytes of requests and answers in memory."
)
MEMORY_AVAILABLE: Final = Family(
    "kafka_network_socketserver_memorypoolavailable", GAUGE, (), "What is left of queued.max.request.bytes."
)

PURGATORY: Final = Family(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    GAUGE,
    ("delayedOperation",),
    "Requests that wait; of Heartbeat the timers of groups.",
)
PURGATORY_DELAYED: Final = Family(
    "kafka_server_delayedoperationpurgatory_numdelayedoperations", GAUGE, ("delayedOperation",), "The same here."
)
SESSIONS: Final = Family(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions", GAUGE, (), "Fetch sessions that are open."
)
SESSION_PARTITIONS: Final = Family(
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", GAUGE, (), "Partitions in fetch sessions."
)
SESSION_EVICTIONS: Final = Family(
    "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
    COUNTER,
    (),
    "Fetch sessions that gave way to others.",
)
BROKER_STATE: Final = Family(
    "kafka_server_kafkaserver_brokerstate", GAUGE, (), "1 starting, 3 running, 6 shutting down."
)


def _replicas(name: str, text: str) -> Family:
    return Family(f"kafka_server_replicamanager_{name}", GAUGE, (), text)


PARTITIONS: Final = _replicas("partitioncount", "Partitions of which this broker has a replica.")
LEADERS: Final = _replicas("leadercount", "Partitions that this broker leads.")
NOT_LED: Final = Family(
    "ottla_partitions_to_lead_that_are_not_led",
    GAUGE,
    (),
    "Partitions that this broker leads by its own metadata, and does not lead: nobody serves them.",
    OURS,
)
UNDER_REPLICATED: Final = _replicas(
    "underreplicatedpartitions",
    "Led partitions with fewer in-sync replicas than replicas, not counting those that a reassignment adds.",
)
UNDER_MIN_ISR: Final = _replicas(
    "underminisrpartitioncount", "Led partitions with fewer in-sync replicas than min.insync.replicas."
)
AT_MIN_ISR: Final = _replicas(
    "atminisrpartitioncount", "Led partitions with as many in-sync replicas as min.insync.replicas."
)
OFFLINE_REPLICAS: Final = _replicas("offlinereplicacount", "Replicas in log directories that are out of use.")


REASSIGNING: Final = _replicas("reassigningpartitions", "Led partitions that are moving to other replicas.")


def _isr(name: str, text: str) -> Family:
    return Family(f"kafka_server_replicamanager_{name}_total", COUNTER, (), text)


ISR_SHRINKS: Final = _isr("isrshrinks", "Times that replicas left the in-sync replicas of a led partition.")
ISR_EXPANDS: Final = _isr("isrexpands", "Times that replicas came to the in-sync replicas of a led partition.")
ISR_FAILURES: Final = _isr("failedisrupdates", "Those changes that were refused, or found the state changed already.")


def _fetchers(name: str, text: str) -> Family:
    return Family(f"kafka_server_replicafetchermanager_{name}", GAUGE, ("clientId",), text)


MAX_LAG: Final = _fetchers("maxlag", "Records below a leader's high watermark that a followed partition lacks at most.")
MIN_FETCH_RATE: Final = _fetchers(
    "minfetchrate", "Answers a second to the fetcher that gets the fewest, over the last seconds; 0 without any."
)
FAILED_PARTITIONS: Final = _fetchers(
    "failedpartitionscount",
    "Followed partitions that are fetched in vain again and again, for a reason of their own: records that are damaged "
    "or do not fit, or a log that cannot be written.",
)


def _partition(name: str, text: str) -> Family:
    return Family(f"kafka_cluster_partition_{name}", GAUGE, _PARTITION, text)


#: The metrics of each partition that this broker leads.
LED: Final = (
    _partition("replicascount", "Replicas, but for those that a reassignment adds."),
    _partition("insyncreplicascount", "In-sync replicas."),
    _partition("underreplicated", "1 if there are fewer in-sync replicas than replicas."),
    _partition("underminisr", "1 if there are fewer in-sync replicas than min.insync.replicas."),
    _partition("atminisr", "1 if there are as many in-sync replicas as min.insync.replicas."),
    _partition("laststableoffsetlag", "Records between the last stable offset and the high watermark."),
)
#: The metrics of each log, by the names of `LogFigures`.
LOGS: Final = {
    "start_offset": Family("kafka_log_log_logstartoffset", GAUGE, _PARTITION, "The first offset that can be read."),
    "end_offset": Family("kafka_log_log_logendoffset", GAUGE, _PARTITION, "The offset that the next record gets."),
    "segments": Family("kafka_log_log_numlogsegments", GAUGE, _PARTITION, "Segments."),
    "size_bytes": Family("kafka_log_log_size", GAUGE, _PARTITION, "Bytes of all segments."),
}
DIRECTORIES_OFFLINE: Final = Family(
    "kafka_log_logmanager_offlinelogdirectorycount", GAUGE, (), "Log directories that are out of use."
)
DIRECTORY_OFFLINE: Final = Family(
    "kafka_log_logmanager_logdirectoryoffline", GAUGE, _DIRECTORY, "1 if the log directory is out of use."
)
NOT_UNDERSTOOD: Final = Family(
    "ottla_topics_whose_settings_are_not_understood",
    GAUGE,
    (),
    "Topics of which nothing is deleted or compacted until their settings, or those of the broker, are mended.",
    OURS,
)
DIRTY: Final = Family(
    "kafka_log_logcleanermanager_max_dirty_percent",
    GAUGE,
    (),
    "The greatest part of a compacted log, in percent, that is not cleaned.",
)


def _controller(name: str, text: str) -> Family:
    return Family(f"kafka_controller_kafkacontroller_{name}", GAUGE, (), text)


ACTIVE_CONTROLLERS: Final = _controller("activecontrollercount", "1 if this broker is the controller.")
TOPICS: Final = _controller("globaltopiccount", f"Topics of the cluster; {_ACTIVE}.")
CLUSTER_PARTITIONS: Final = _controller("globalpartitioncount", f"Partitions of the cluster; {_ACTIVE}.")
OFFLINE_PARTITIONS: Final = _controller("offlinepartitionscount", f"Partitions without a leader that lives; {_ACTIVE}.")
IMBALANCE: Final = _controller(
    "preferredreplicaimbalancecount", f"Partitions that another than their first replica leads; {_ACTIVE}."
)
EVENTS_WAITING: Final = Family(
    "kafka_controller_controllereventmanager_eventqueuesize",
    GAUGE,
    (),
    "What waits for the controller's attention; events that say the same are one.",
)
_LATELY: Final = ", over the last five to ten minutes."


def _quantiles(name: str, measured: str, count: str) -> tuple[Family, Family]:
    return (
        Family(name, GAUGE, ("quantile",), f"Milliseconds {measured}{_LATELY}"),
        Family(f"{name}_count_total", COUNTER, (), count),
    )


EVENTS_WAITED: Final = _quantiles(
    "kafka_controller_controllereventmanager_eventqueuetimems",
    "that events waited for the controller's attention",
    "Events that had it.",
)
#: By `ottla.controller.timings.KINDS`.
EVENT_TIMES: Final = {
    kind: _quantiles(
        f"kafka_controller_controllerstats_{kind}rateandtimems", f"that the controller took for each {words}", count
    )
    for kind, words, count in (
        ("controllerchange", "beginning, or look whether it is the controller still", "How often it did."),
        (
            "leaderelection",
            "broker that came, left or changed, with all elections of leaders that this asks for",
            "How often there was such a change (several at a time are one), which is Kafka's leader election rate.",
        ),
        ("topicchange", "topic that came or grew", "How often topics did."),
        ("topicdeletion", "step of a deletion of topics", "Such steps."),
        ("partitionreassignment", "step of moves to other replicas", "Such steps."),
        ("autoleaderbalance", "look whether leaders are to go back to first replicas", "Such looks."),
        ("manualleaderbalance", "election that somebody asked for", "Such requests."),
        ("controlledshutdown", "broker that hands over its partitions to stop", "Such requests."),
        ("isrchange", "request of a leader for other in-sync replicas", "Such requests, and notifications."),
        ("leaderandisrresponsereceived", "answer of a broker to LeaderAndIsr", "Such answers."),
        ("logdirchange", "log directory of a broker that failed", "Such notifications."),
        ("uncleanleaderelectionenable", "look for unclean elections that are allowed now", "Such looks."),
        ("topicuncleanleaderelectionenable", "such look for one topic", "Such looks."),
    )
}
CHANNELS_WAITING: Final = Family(
    "kafka_controller_controllerchannelmanager_totalqueuesize",
    GAUGE,
    (),
    "Requests of the controller to brokers that were not answered yet.",
)
CHANNEL_WAITING: Final = Family(
    "kafka_controller_controllerchannelmanager_queuesize", GAUGE, ("broker_id",), "Those of them to one broker."
)
UNCLEAN_ELECTIONS: Final = Family(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    COUNTER,
    (),
    "Leaders that were not in sync when this broker, as the controller, elected them.",
)

GROUPS: Final = Family(
    "kafka_coordinator_group_groupmetadatamanager_numgroups", GAUGE, (), "Groups that this broker coordinates."
)
#: by the state's name in lower case
GROUPS_IN_STATE: Final = {
    state: Family(
        f"kafka_coordinator_group_groupmetadatamanager_numgroups{state}", GAUGE, (), f"Those of them that are {words}."
    )
    for state, words in (
        ("preparingrebalance", "waiting for members to join"),
        ("completingrebalance", "waiting for their leader's assignment"),
        ("stable", "stable"),
        ("dead", "dead"),
        ("empty", "empty"),
    )
}
OFFSETS: Final = Family(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets", GAUGE, (), "Offsets that groups here have committed."
)


def _group(name: str, labels: tuple[str, ...], text: str) -> Family:
    return Family(f"kafka_consumergroup_{name}", GAUGE, labels, text, KAFKA_EXPORTER)


LAG: Final = _group(
    "lag", _CURRENT, "Records between a group's committed offset and the high watermark, where this broker leads."
)
COMMITTED: Final = _group("current_offset", _CURRENT, "A group's committed offset.")
LAG_SUM: Final = _group("lag_sum", ("consumergroup", "topic"), "A group's lag over the partitions of a topic.")
MEMBERS: Final = _group("members", ("consumergroup",), "Members of a group.")


def _ours(name: str, kind: str, labels: tuple[str, ...], text: str) -> Family:
    return Family(f"ottla_{name}", kind, labels, text, OURS)


BUILD: Final = _ours("build_info", GAUGE, ("version",), "Always 1; the version of Ottla.")
READY: Final = _ours("ready", GAUGE, (), "1 if /readyz says so.")
CONNECTIONS: Final = _ours("connections", GAUGE, ("listener",), "Connections that are open.")
ACCEPTED: Final = _ours("connections_accepted_total", COUNTER, (), "Connections that were accepted.")
AUTHENTICATED: Final = _ours(
    "successful_authentication_total",
    COUNTER,
    ("listener",),
    "Clients that said who they are, by a TLS handshake or SASL; Kafka's successful-authentication-total.",
)
NOT_AUTHENTICATED: Final = _ours(
    "failed_authentication_total",
    COUNTER,
    ("listener",),
    "Clients that could not: the handshake failed, or SASL did; Kafka's failed-authentication-total.",
)
AUTHENTICATED_AGAIN: Final = _ours(
    "successful_reauthentication_total", COUNTER, ("listener",), "Clients that said again who they are (KIP-368)."
)
NOT_AUTHENTICATED_AGAIN: Final = _ours(
    "failed_reauthentication_total", COUNTER, ("listener",), "Clients that were to say it again, and could not."
)
WITHOUT_AGAIN: Final = _ours(
    "successful_authentication_no_reauth_total", COUNTER, ("listener",), "Clients that are too old to say it again."
)
AUDITED: Final = _ours("audit_lines_total", COUNTER, (), "Lines that were written to the audit log.")
NOT_AUDITED: Final = _ours(
    "audit_lines_lost_total", COUNTER, (), "Lines of the audit log that its disk did not take, or not in time."
)
THROTTLED: Final = _ours(
    "replication_throttled_bytes_total",
    COUNTER,
    ("side",),
    "Bytes of throttled replicas that were sent (leader) or fetched (follower).",
)
BUSY: Final = _ours("loop_busy_seconds_total", COUNTER, (), "Seconds in which requests were handled and answers sent.")
FREE: Final = _ours("log_directory_free_bytes", GAUGE, _DIRECTORY, "What the log directory's disk has left for us.")
DISK: Final = _ours("log_directory_disk_bytes", GAUGE, _DIRECTORY, "The size of the log directory's disk.")
LEFT_OUT: Final = _ours(
    "consumergroup_offsets_left_out", GAUGE, (), "Committed offsets whose lag is not told, because there are too many."
)

FAMILIES: Final = (
    *TRAFFIC.values(),
    REPLICATED_IN,
    REPLICATED_OUT,
    REASSIGNED_IN,
    REASSIGNED_OUT,
    REQUESTS,
    *(family for both in TIMES.values() for family in both),
    SIZE,
    SIZE_COUNT,
    THROTTLE,
    THROTTLE_COUNT,
    ERRORS,
    HANDLER_IDLE,
    NETWORK_IDLE,
    MEMORY_USED,
    MEMORY_AVAILABLE,
    PURGATORY,
    PURGATORY_DELAYED,
    SESSIONS,
    SESSION_PARTITIONS,
    SESSION_EVICTIONS,
    BROKER_STATE,
    PARTITIONS,
    LEADERS,
    NOT_LED,
    UNDER_REPLICATED,
    UNDER_MIN_ISR,
    AT_MIN_ISR,
    OFFLINE_REPLICAS,
    REASSIGNING,
    ISR_SHRINKS,
    ISR_EXPANDS,
    ISR_FAILURES,
    MAX_LAG,
    MIN_FETCH_RATE,
    FAILED_PARTITIONS,
    THROTTLED,
    *LED,
    *LOGS.values(),
    NOT_UNDERSTOOD,
    DIRECTORIES_OFFLINE,
    DIRECTORY_OFFLINE,
    DIRTY,
    ACTIVE_CONTROLLERS,
    TOPICS,
    CLUSTER_PARTITIONS,
    OFFLINE_PARTITIONS,
    IMBALANCE,
    UNCLEAN_ELECTIONS,
    EVENTS_WAITING,
    *EVENTS_WAITED,
    *(family for both in EVENT_TIMES.values() for family in both),
    CHANNELS_WAITING,
    CHANNEL_WAITING,
    GROUPS,
    *GROUPS_IN_STATE.values(),
    OFFSETS,
    LAG,
    COMMITTED,
    LAG_SUM,
    MEMBERS,
    BUILD,
    READY,
    CONNECTIONS,
    ACCEPTED,
    AUTHENTICATED,
    NOT_AUTHENTICATED,
    AUTHENTICATED_AGAIN,
    NOT_AUTHENTICATED_AGAIN,
    WITHOUT_AGAIN,
    AUDITED,
    NOT_AUDITED,
    BUSY,
    FREE,
    DISK,
    LEFT_OUT,
)
"""In the order in which they are told."""
