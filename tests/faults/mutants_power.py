"""What power losses must not cost: who may have lost records does not lead while another in sync could."""

from tests.faults.mutants import Mutant

_BOOTS, _BOOTS_TEST = "python/ottla/replication/boots.py", "tests/replication/test_boots.py"
_START, _START_TEST = "python/ottla/replication/unclean_start.py", "tests/replication/test_unclean_start.py"
_REPLICAS = "python/ottla/replication/replicas.py"
_LOG_ENDS = "python/ottla/controller/log_ends.py"
_CONTROLLER, _CONTROLLER_TEST = (
    "python/ottla/controller/partition_states.py",
    "tests/controller/test_unclean_brokers.py",
)

MUTANTS = (
    Mutant(
        "power.a-machine-that-starts-anew-lost-nothing",
        _BOOTS,
        "(last is None or not boot or last.boot_id != boot)",
        "last is None",
        pytest=(f"{_BOOTS_TEST}::test_a_machine_that_starts_anew_may_have_lost_something",),
    ),
    Mutant(
        "power.a-clean-stop-makes-sure",
        _BOOTS,
        "set(last.suspects) & set(logs)",
        "set()",
        pytest=(f"{_BOOTS_TEST}::test_a_machine_that_starts_anew_may_have_lost_something",),
    ),
    Mutant(
        "power.who-is-in-sync-is-trusted",
        _START,
        "        suspect.is_known_since_s = None\n        return True\n",
        "        suspect.is_known_since_s = None\n        return False\n",
        pytest=(
            f"{_START_TEST}::test_a_replica_in_sync_is_refused_and_one_that_is_not_is_trusted",
            "tests/replication/test_cluster_model.py::test_what_nobody_in_sync_has_lost_survives_power_losses",
        ),
    ),
    Mutant(
        "power.who-was-taken-out-is-not-asked",
        _START,
        "                self.suspects[key].in_sync = frozenset(state.isr)\n",
        "                self.suspects[key].in_sync = frozenset()\n",
        pytest=(f"{_START_TEST}::test_those_whom_a_controller_took_out_are_asked_all_the_same",),
    ),
    Mutant(
        "power.nobody-is-waited-for",
        _START,
        "return None not in others.values() or waited_s >= wait_s",
        "return True",
        pytest=(f"{_START_TEST}::test_one_that_cannot_know_waits_and_then_leads",),
    ),
    Mutant(
        "power.nobody-leads-for-ever",
        _START,
        "return None not in others.values() or waited_s >= wait_s",
        "return None not in others.values()",
        pytest=(f"{_START_TEST}::test_one_that_cannot_know_waits_and_then_leads",),
    ),
    Mutant(
        "power.who-has-less-is-offered",
        _START,
        "if any(other is not None and (other, -number) > (end, -broker) for number, other in others.items()):",
        "if any(other is not None and other.offset > end.offset for number, other in others.items()):",
        pytest=(f"{_START_TEST}::test_who_has_most_is_offered",),
    ),
    Mutant(
        "power.an-epoch-without-a-record-counts",
        _START,
        "for epoch, start in epochs if start < end_offset)",
        "for epoch, start in epochs)",
        pytest=(f"{_START_TEST}::test_an_epoch_without_a_record_says_nothing",),
    ),
    Mutant(
        "power.an-offer-holds-for-ever",
        _START,
        "suspect.offered_until_s = now_s + OFFER_S",
        'suspect.offered_until_s = float("inf")',
        pytest=(f"{_START_TEST}::test_an_offer_does_not_hold_for_long",),
    ),
    Mutant(
        "power.an-order-for-another-epoch",
        _START,
        "(node.leader, node.leader_epoch) == (self._broker_id, states[key].leader_epoch)",
        "node.leader == self._broker_id",
        pytest=(f"{_START_TEST}::test_an_operators_order_is_in_the_tree",),
    ),
    Mutant(
        "power.a-controller-that-does-not-elect",
        _START,
        "            await self._cluster.register_anew()\n",
        "            pass\n",
        pytest=(f"{_START_TEST}::test_a_controller_that_hears_and_does_not_elect",),
    ),
    Mutant(
        "power.refused-and-leads",
        _REPLICAS,
        "        for key in refused:\n            del roles[key]\n",
        "        for key in refused:\n",
        pytest=(f"{_START_TEST}::test_a_refused_replica_is_there_without_a_role",),
    ),
    Mutant(
        "power.whose-log-is-not-here-never-had-records",
        _START,
        "return NOTHING if end is None and self.is_without_log(key) else end",
        "return NOTHING if end is None else end",
        pytest=(f"{_START_TEST}::test_where_its_log_ends_is_told_whatever_its_role",),
    ),
    Mutant(
        "power.who-is-offline-has-no-log",
        "python/ottla/broker/surroundings.py",
        "return key in self._logs.failures",
        "return False",
        pytest=(f"{_START_TEST}::test_where_its_log_ends_is_told_whatever_its_role",),
    ),
    Mutant(
        "power.elected-before-it-answers",
        _CONTROLLER,
        "online = [broker for broker in online if not cluster.is_unheard(name, broker)]",
        "pass",
        pytest=(f"{_CONTROLLER_TEST}::test_an_unclean_replica_waits_for_one_that_is_not",),
    ),
    Mutant(
        "power.leads-on-before-it-answers",
        _CONTROLLER,
        "if cluster.is_unheard(name, state.leader):",
        "if False:",
        pytest=(f"{_CONTROLLER_TEST}::test_a_leader_that_lost_power_does_not_take_the_others_out",),
    ),
    Mutant(
        "power.a-registration-is-proof-enough",
        "python/ottla/controller/model.py",
        "for broker in self.brokers.keys() & partition.state.isr:",
        "for broker in unclean & set(partition.state.isr):",
        pytest=(f"{_CONTROLLER_TEST}::test_a_registration_is_no_proof_of_life",),
    ),
    Mutant(
        "power.answers-for-its-former-life",
        "python/ottla/broker/broker.py",
        "        await self.registration.made()\n",
        "",
        pytest=(
            "tests/broker/control/test_control_requests.py::test_a_request_for_the_former_life_is_not_taken_for_ones_own",
        ),
    ),
    Mutant(
        "power.others-lead-while-it-finds-out",
        _CONTROLLER,
        "unclean=name.topic in unclean and not cluster.suspected(name),",
        "unclean=name.topic in unclean,",
        pytest=(f"{_CONTROLLER_TEST}::test_where_unclean_elections_are_allowed_the_last_in_sync_is_waited_for",),
    ),
    Mutant(
        "power.a-newer-epoch-has-more",
        _LOG_ENDS,
        "broker not in asked or _goes_on(common.get(broker), best)",
        "True",
        pytest=(
            f"{_CONTROLLER_TEST}::test_a_newer_epoch_leads_by_order_only_with_what_was_in_sync",
            "tests/replication/test_cluster_model.py::test_a_newer_epoch_says_nothing_of_what_was_committed",
        ),
    ),
    Mutant(
        "power.to-know-the-epoch-is-enough",
        _LOG_ENDS,
        "known.epoch == best.epoch and known.offset >= best.offset",
        "known.epoch == best.epoch",
        pytest=(f"{_CONTROLLER_TEST}::test_a_newer_epoch_leads_by_order_only_with_what_was_in_sync",),
    ),
    Mutant(
        "power.a-newer-epoch-never-counts",
        _LOG_ENDS,
        "broker not in asked or _goes_on(common.get(broker), best)",
        "broker not in asked",
        pytest=(f"{_CONTROLLER_TEST}::test_a_newer_epoch_that_goes_on_leads_by_order",),
    ),
    Mutant(
        "power.an-order-without-a-mark",
        "python/ottla/controller/decisions.py",
        "    return msgspec.structs.replace(chosen, extra={**chosen.extra, ORDERED: True})\n",
        "    return chosen\n",
        pytest=(f"{_CONTROLLER_TEST}::test_the_last_in_sync_leads_by_order",),
    ),
)
