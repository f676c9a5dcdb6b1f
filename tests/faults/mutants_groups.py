"""What members of a group are promised, and who waits for replicas in sync: each promise broken once."""

from tests.faults.mutants import Mutant

LIVES = ("tests/group/test_state_model.py::test_random_lives_of_a_group",)
GROUPS = "tests/broker/coordinators/test_groups.py"
STATE = "python/ottla/group/state.py"

MUTANTS = (
    Mutant(
        "group.a-commit-that-fails-takes-an-older-one-along",
        "python/ottla/group/offsets.py",
        "            self.pending.take(partition, commit)\n",
        "            self.pending.pop(partition, None)\n",
        pytest=("tests/group/test_offsets.py",),
    ),
    Mutant(
        "group.a-commit-of-a-transaction-that-fails-takes-an-older-one-along",
        "python/ottla/group/offsets.py",
        "            transaction.pending.take(partition, commit)\n",
        "            transaction.pending.pop(partition, None)\n            transaction.placed.pop(partition, None)\n",
        pytest=("tests/group/test_offsets.py",),
    ),
    Mutant(
        "group.members-of-an-old-generation-commit",
        STATE,
        "        if generation != self.generation:\n            return IllegalGeneration.code\n"
        "        if self.state is COMPLETING:\n",
        "        if self.state is COMPLETING:\n",
        pytest=LIVES,
    ),
    Mutant(
        "group.commits-while-partitions-are-given-out",
        STATE,
        "        if self.state is COMPLETING:\n            return RebalanceInProgress.code\n        # While",
        "        # While",
        pytest=(f"{GROUPS}::test_who_was_not_given_partitions_yet_commits_nothing",),
    ),
    Mutant(
        "group.replaced-members-go-on",
        "python/ottla/group/roster.py",
        "        return known is not None and known != member_id\n",
        "        return False\n",
        pytest=(f"{GROUPS}::test_a_static_member_comes_back_without_a_rebalance",),
    ),
    Mutant(
        "group.a-generation-has-no-number-of-its-own",
        STATE,
        "        self.generation = self.generation % GENERATION_MAX + 1\n",
        "        self.generation = max(1, self.generation)\n",
        pytest=LIVES,
    ),
    Mutant(
        "group.generations-have-no-end",
        STATE,
        "        self.generation = self.generation % GENERATION_MAX + 1\n",
        "        self.generation += 1\n",
        pytest=("tests/group/test_coordinator.py::test_after_the_largest_generation_they_begin_anew",),
    ),
    Mutant(
        "group.an-assignment-of-an-earlier-rebalance-is-given-out",
        STATE,
        "        if self.state is not COMPLETING or store.generation != self.generation:\n",
        "        if self.state is not COMPLETING:\n",
        pytest=LIVES,
    ),
    Mutant(
        "group.an-assignment-that-was-not-stored-is-given-out",
        STATE,
        "        if error:\n            self._fail_syncs(now, error)\n",
        "        if error < 0:\n            self._fail_syncs(now, error)\n",
        pytest=LIVES,
    ),
    Mutant(
        "group.nobody-is-given-up",
        STATE,
        "                elif subject.is_new or (subject.join_token is None and subject.sync_token is None):\n",
        "                elif subject.is_new:\n",
        pytest=LIVES,
    ),
    Mutant(
        "group.who-waits-is-forgotten-when-the-group-goes",
        STATE,
        "            self._release(member, error, member.member_id)\n",
        "            pass\n",
        pytest=("tests/group/test_coordinator.py::test_who_waits_is_answered_when_the_partition_is_lost",),
    ),
    Mutant(
        "insync.acks-all-with-too-few-replicas",
        "python/ottla/broker/api/k00_produce.py",
        "        if acks == ACKS_ALL and not partition.has_enough_replicas:\n",
        "        if acks == ACKS_ALL and not partition.is_leader:\n",
        pytest=("tests/broker/produce/test_produce_fetch.py::test_acks_all_needs_min_insync_replicas",),
    ),
    Mutant(
        "insync.the-topics-number-does-not-matter",
        "python/ottla/replication/replicas.py",
        '            min_insync_replicas=settings.get_int("min.insync.replicas"),\n',
        "            min_insync_replicas=1,\n",
        pytest=("tests/broker/produce/test_produce_fetch.py::test_acks_all_needs_min_insync_replicas",),
    ),
    Mutant(
        "groups.offsets-in-a-transaction-are-not-refused-by-who-does-not-coordinate",
        "python/ottla/broker/api/k28_txn_offset_commit.py",
        "rooms.groups.missing(asked.group_id) or _verify(rooms, asked)",
        "_verify(rooms, asked)",
        pytest=(
            "tests/broker/coordinators/test_coordinator_codes.py::test_offsets_in_a_transaction_where_neither_is_coordinated",
        ),
    ),
    Mutant(
        "groups.refused-for-good-by-a-broker-that-was-replaced",
        "python/ottla/transaction/coordinator.py",
        "        if self._may_be_replaced():\n",
        "        if False:\n",
        pytest=(
            "tests/broker/coordinators/test_coordinator_codes.py::test_a_broker_that_does_not_hear_the_tree_refuses_for_now",
        ),
    ),
)
