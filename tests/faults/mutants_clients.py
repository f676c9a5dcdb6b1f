"""What our own clients promise: the sink that each row is there once, connections that nobody listens or pretends."""

from tests.faults.mutants import Mutant

ONCE = "tests/spark/test_exactly_once.py"
SECURITY = "tests/client/test_security.py"
SECURED = "tests/client/test_secured.py"
PROTOCOL = "python/ottla/spark/sink/protocol.py"
COMMIT = "python/ottla/spark/sink/commit.py"
SASL = "python/ottla/client/sasl.py"
TLS = "python/ottla/client/tls.py"
BATCHES = "python/ottla/client/batches.py"
ORDER = "tests/client/test_producer_batches.py"
PRODUCER = "python/ottla/client/producer.py"
FACADE = "python/ottla/client/facade.py"
SYNC = "tests/client/test_sync.py"
PRODUCING = "tests/client/test_producer.py"

MUTANTS = (
    Mutant(
        "sink.a-decision-is-not-finished",
        PROTOCOL,
        "        return Step.NOTHING if decision.done else Step.FINISH\n",
        "        return Step.NOTHING\n",
        pytest=(f"{ONCE}::test_a_driver_is_killed",),
    ),
    Mutant(
        "sink.a-decided-batch-is-written-again",
        PROTOCOL,
        "    if decision is None or decision.batch_id < batch_id:\n",
        "    if decision is None or decision.batch_id <= batch_id:\n",
        pytest=(f"{ONCE}::test_a_driver_is_killed",),
    ),
    Mutant(
        "sink.an-old-checkpoint-goes-on",
        PROTOCOL,
        "    if decision.batch_id > batch_id:\n",
        "    if decision.batch_id < batch_id:\n",
        pytest=(f"{ONCE}::test_a_checkpoint_is_rolled_back",),
    ),
    Mutant(
        "sink.a-skipped-batch-needs-no-decision",
        PROTOCOL,
        "    if any(report.skipped for report in reports):\n",
        "    if all(not report.skipped for report in reports) and not reports:\n",
        pytest=(f"{ONCE}::test_a_checkpoint_is_rolled_back",),
    ),
    Mutant(
        "sink.ends-its-successors-transactions",
        PROTOCOL,
        "    return previous.run_id != names.run_id and not is_late\n",
        "    return previous.run_id != names.run_id or is_late\n",
        pytest=(f"{ONCE}::test_a_driver_lives_on_beside_its_successor",),
    ),
    Mutant(
        "sink.leaves-failed-attempts-open",
        PROTOCOL,
        "    return [each for each in open_ids if each.startswith(begin) and each != names.decision]\n",
        "    return [each for each in open_ids if each.startswith(begin) and each == names.decision]\n",
        pytest=(f"{ONCE}::test_two_attempts_of_a_task",),
    ),
    Mutant(
        "sink.decides-without-looking-at-the-transactions",
        COMMIT,
        '            await check_open(cluster, transactions, options, f"batch {batch_id}")\n',
        "",
        pytest=(f"{ONCE}::test_a_batch_takes_longer_than_its_transactions",),
    ),
    Mutant(
        "sink.commits-before-it-decides",
        COMMIT,
        "            await deciding.append(decision)\n        if step",
        "        if step",
        pytest=(f"{ONCE}::test_a_driver_is_killed",),
    ),
    Mutant(
        "sink.aborts-what-is-decided",
        COMMIT,
        "        if decision is not None and decision.batch_id >= batch_id:\n            return\n",
        "",
        pytest=(f"{ONCE}::test_a_batch_is_aborted_unless_it_is_decided",),
    ),
    Mutant(
        "sink.lost-rows-are-not-told",
        COMMIT,
        "    if lost:\n",
        "    if len(lost) == len(transactions) + 1:\n",
        pytest=(f"{ONCE}::test_rows_that_were_decided_are_lost",),
    ),
    Mutant(
        "client.any-broker-knows-the-password",
        SASL,
        '    if not hmac.compare_digest(_decoded(server_final.get("v", ""), who), signature):\n',
        '    if not hmac.compare_digest(_decoded(server_final.get("v", ""), who)[:0], signature[:0]):\n',
        pytest=(f"{SECURITY}::test_broker_that_does_not_know_the_password",),
    ),
    Mutant(
        "client.a-scram-answer-to-somebody-else",
        SASL,
        " or not both.startswith(nonce) or both == nonce:\n",
        " or both == nonce:\n",
        pytest=(f"{SECURITY}::test_scram_with_a_broker_that_does_not_keep_to_it",),
    ),
    Mutant(
        "client.few-iterations-will-do",
        SASL,
        "not SCRAM_ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:\n",
        "not 1 <= int(iterations) <= ITERATIONS_MAX:\n",
        pytest=(f"{SECURITY}::test_scram_with_a_broker_that_does_not_keep_to_it",),
    ),
    Mutant(
        "client.passwords-are-printed",
        "python/ottla/client/security.py",
        "    key_password: str | None = field(default=None, repr=False)\n",
        "    key_password: str | None = field(default=None)\n",
        pytest=(f"{SECURITY}::test_passwords_travel_but_are_not_printed",),
    ),
    Mutant(
        "client.misspelled-security-is-none",
        "python/ottla/client/security.py",
        "        _check_names(settings)\n",
        "",
        pytest=(f"{SECURITY}::test_misspelled_names_are_refused_without_a_protocol_too",),
    ),
    Mutant(
        "client.any-certificate-is-trusted",
        TLS,
        "    made.check_hostname = security.checks_name\n",
        "    made.check_hostname = False\n    made.verify_mode = ssl.CERT_NONE\n",
        pytest=(f"{SECURED}::test_certificate_of_a_stranger",),
    ),
    Mutant(
        "client.any-name-is-right",
        TLS,
        "    made.check_hostname = security.checks_name\n",
        "    made.check_hostname = False\n",
        pytest=(f"{SECURED}::test_certificate_for_another_host",),
    ),
    Mutant(
        "client.any-suite-will-do",
        TLS,
        "    if suites and chosen not in suites and chosen not in map(_name, suites):\n",
        "    if suites and not chosen:\n",
        pytest=(f"{SECURED}::test_one_suite",),
    ),
    Mutant(
        "producer.a-lost-answer-makes-a-new-batch",
        BATCHES,
        "        if batch.is_numbered and batch.sequence is None:\n",
        "        if batch.is_numbered:\n",
        pytest=(f"{ORDER}::test_what_comes_back_goes_again_in_order_and_as_it_was",),
    ),
    Mutant(
        "producer.others-overtake-what-comes-back",
        BATCHES,
        "        if not self.waiting or self._back or now < self.retry_at:\n",
        "        if not self.waiting or now < self.retry_at:\n",
        pytest=(f"{ORDER}::test_what_comes_back_goes_again_in_order_and_as_it_was",),
    ),
    Mutant(
        "producer.another-leader-is-sent-to-at-once",
        BATCHES,
        "        if not self.waiting[0].is_numbered or self.place != place or self.identity != identity:\n",
        "        if not self.waiting[0].is_numbered:\n",
        pytest=(f"{ORDER}::test_several_are_under_way_in_order",),
    ),
    Mutant(
        "producer.a-leader-that-knows-nothing-takes-the-second",
        BATCHES,
        "        return self._known == (place, identity)\n",
        "        return True\n",
        pytest=(f"{ORDER}::test_the_first_is_alone_until_it_is_acknowledged",),
    ),
    Mutant(
        "producer.begins-again-before-what-was-before-is-decided",
        BATCHES,
        "        return self.flying[0] is batch and all(each.number > batch.number for each in self._back)\n",
        "        return batch in self.flying\n",
        pytest=(f"{ORDER}::test_a_partition_begins_again_where_the_first_is_not_known",),
    ),
    Mutant(
        "producer.a-gap-is-an-error",
        PRODUCER,
        "    _may_begin_again = True\n",
        "    _may_begin_again = False\n",
        pytest=(f"{PRODUCING}::test_a_refused_batch_between_others[ottla]",),
    ),
    Mutant(
        "producer.keeps-its-epoch",
        PRODUCER,
        "                self.producer_epoch += 1\n",
        "                pass\n",
        pytest=(f"{PRODUCING}::test_a_refused_batch_between_others[ottla]",),
    ),
    Mutant(
        "producer.answers-that-are-lost-double",
        PRODUCER,
        "Batch(to, self._new_builder(to), is_numbered=self.idempotent)",
        "Batch(to, self._new_builder(to), is_numbered=False)",
        pytest=(f"{PRODUCING}::test_answers_are_lost[ottla]",),
    ),
    Mutant(
        "sync.the-end-loses-what-was-taken",
        FACADE,
        "                self.call(block.close)\n",
        "                pass\n",
        pytest=(f"{SYNC}::test_the_interpreters_end_delivers",),
    ),
    Mutant(
        "sync.callbacks-run-anywhere",
        FACADE,
        "        if call is None:\n            return await trio",
        "        if True:\n            return await trio",
        pytest=(f"{SYNC}::test_callbacks_run_in_the_callers_thread_and_may_block",),
    ),
    Mutant(
        "sync.ctrl-c-leaves-the-work-running",
        FACADE,
        "            self._token.run_sync_soon(call.scope.cancel)\n            raise\n",
        "            raise\n",
        pytest=(f"{SYNC}::test_ctrl_c_ends_a_call",),
    ),
    Mutant(
        "clients.what-cannot-be-read-is-read-again-in-silence",
        "python/ottla/client/consumer.py",
        "                self._damaged[partition] = self.positions[partition], problem\n",
        "                pass\n",
        pytest=("tests/client/test_damaged_batches.py::test_nothing_is_committed_past_it",),
    ),
    Mutant(
        "clients.one-damaged-batch-stops-the-others",
        "python/ottla/client/consumer.py",
        "                problems.append(problem)\n",
        "                raise\n",
        pytest=("tests/client/test_damaged_batches.py::test_arrow_batches_around_it_are_given_first",),
    ),
)
