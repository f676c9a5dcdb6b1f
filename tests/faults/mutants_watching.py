"""What operators are told of a cluster, by metrics and by the doctor: each broken once."""

from tests.faults.mutants import Mutant

TIMINGS = "tests/controller/test_timings.py"
REPLICAS = "tests/metrics/test_replicas.py"
FOLLOWING = "tests/replication/test_following.py"
DOCTOR = "tests/doctor/test_doctor.py"

ACCESS = "tests/broker/watching/test_access.py"

MUTANTS = (
    Mutant(
        "watching.metrics-for-any-password",
        "python/ottla/metrics/doors.py",
        "return hmac.compare_digest(hashlib.sha256(given).digest(), self._digest) and scheme",
        "return scheme",
        pytest=(f"{ACCESS}::test_metrics_need_tls_and_the_password",),
    ),
    Mutant(
        "watching.the-socket-of-a-broker-that-runs-is-taken",
        "python/ottla/metrics/doors.py",
        "        asking.setblocking(False)\n        try:\n            asking.connect(path)\n",
        "        asking.setblocking(False)\n        try:\n            raise ConnectionRefusedError\n",
        pytest=(f"{ACCESS}::test_a_socket_of_the_file_system",),
    ),
    Mutant(
        "watching.a-certificate-that-is-no-good-is-taken",
        "python/ottla/broker/watching/access.py",
        '                logger.error("%s; new connections get the certificate of before", error)\n',
        "                raise\n",
        pytest=(f"{ACCESS}::test_a_renewed_certificate_is_taken",),
    ),
    Mutant(
        "watching.events-wait-from-when-they-were-put-in-last",
        "python/ottla/controller/events.py",
        "self._with(event).setdefault(event, self._timings.now())",
        "self._with(event)[event] = self._timings.now()",
        pytest=(f"{TIMINGS}::test_an_event_waits_from_when_it_was_put_in_first",),
    ),
    Mutant(
        "watching.old-times-are-told-for-ever",
        "python/ottla/controller/timings.py",
        "self._older = self._younger if is_next else Counter()",
        "self._older += self._younger",
        pytest=(f"{TIMINGS}::test_what_is_told_is_of_the_last_five_to_ten_minutes",),
    ),
    Mutant(
        "watching.replicas-that-are-added-are-missed",
        "python/ottla/broker/watching/metrics.py",
        " - len(state.adding)",
        "",
        pytest=(f"{REPLICAS}::test_gauges_of_replicas_follow_what_the_controller_says",),
    ),
    Mutant(
        "watching.leaders-that-died-are-online",
        "python/ottla/broker/watching/metrics.py",
        "offline += leader not in cluster.brokers",
        "offline += leader == -1",
        pytest=(f"{REPLICAS}::test_what_the_controller_counts_follows_who_lives",),
    ),
    Mutant(
        "watching.moves-are-fetched-as-anything",
        "python/ottla/replication/following.py",
        "terms = one.partition.adds(self._broker_id), one.is_agreed",
        "terms = False, one.is_agreed",
        pytest=(f"{FOLLOWING}::test_a_replica_that_is_added_is_fetched_as_one_until_its_move_is_over",),
    ),
    Mutant(
        "watching.what-was-not-appended-was-fetched",
        "rust/replication/fetcher.rs",
        "if matches!(outcome, Outcome::Taken { .. }) {",
        "if true {",
        cargo=("replication::tests::fetching::what_was_fetched_is_counted_and_apart_for_replicas_that_are_added",),
    ),
    Mutant(
        "watching.the-doctor-praises-a-loopback",
        "python/ottla/doctor/brokers.py",
        'if reach.is_loopback(known) else ""',
        'if False else ""',
        pytest=(f"{DOCTOR}::test_an_advertised_loopback_is_reached_from_this_machine_only",),
    ),
    Mutant(
        "watching.the-doctor-wants-all-leaders",
        "python/ottla/doctor/partitions.py",
        "most < led.total() * (1 + 1 / brokers) / 2",
        "most < led.total()",
        pytest=(f"{DOCTOR}::test_a_broker_that_leads_nearly_everything",),
    ),
    Mutant(
        "watching.the-doctor-forgets-who-is-gone",
        "python/ottla/doctor/partitions.py",
        "        if broker not in there\n",
        "        if broker < 0\n",
        pytest=(f"{DOCTOR}::test_brokers_that_are_gone",),
    ),
    Mutant(
        "watching.an-alert-names-what-nobody-exports",
        "python/ottla/metrics/alerts.py",
        '"max by (job) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0"',
        '"max by (job) (kafka_controller_kafkacontroller_offlinepartitions) > 0"',
        pytest=("tests/metrics/test_alerts.py::test_what_an_alert_names_is_exported",),
    ),
)
