"""Whose the records in a folder are, and what a replica without a log may do."""

from tests.faults.mutants import Mutant

_NOTES, _NOTES_TEST = "python/ottla/replication/log_notes.py", "tests/replication/test_log_notes.py"
_ASIDE, _ASIDE_TEST = "python/ottla/replication/aside.py", "tests/replication/test_aside.py"
_BELONGING, _BELONGING_TEST = "python/ottla/replication/belonging.py", "tests/replication/test_belonging.py"
_START, _WITHOUT_TEST = "python/ottla/replication/unclean_start.py", "tests/replication/test_without_log.py"
_MANAGER, _BOOTS_TEST = "python/ottla/replication/log_manager.py", "tests/replication/test_boots.py"
_REPLICAS = "python/ottla/replication/replicas.py"
_TAKING_BACK = "python/ottla/replication/taking_back.py"
_DELETED = f"{_BELONGING_TEST}::test_a_replica_that_moved_is_deleted_on_proof_alone"
_ROLES = f"{_BELONGING_TEST}::test_a_role_is_taken_with_the_topics_own_log_alone"
_LAST = f"{_WITHOUT_TEST}::test_the_last_in_sync_without_a_log_asks_those_that_were_not"

MUTANTS = (
    Mutant(
        "belonging.another-trees-note-speaks",
        _NOTES,
        "if note is None or not note.is_of_tree(topic):",
        "if note is None:",
        pytest=(_NOTES_TEST,),
    ),
    Mutant(
        "belonging.a-tree-is-its-clusters-id",
        _NOTES,
        "return self.cluster_id, self.cluster_czxid, self.cluster_ctime_ms",
        "return self.cluster_id, 0, 0",
        pytest=(_NOTES_TEST,),
    ),
    Mutant(
        "belonging.a-tree-that-is-behind-is-believed",
        _BELONGING,
        "        await self._tree.sync()\n",
        "",
        pytest=(f"{_BELONGING_TEST}::test_without_an_answer_no_role_is_taken_for_which_there_is_a_folder",),
    ),
    Mutant(
        "belonging.a-tree-that-is-silent-is-not-needed",
        _BELONGING,
        "                taken.errors[topic, index] = StorageError(",
        "                _ = StorageError(",
        pytest=(f"{_BELONGING_TEST}::test_without_an_answer_no_role_is_taken_for_which_there_is_a_folder",),
    ),
    Mutant(
        "belonging.deleted-though-in-sync",
        _BELONGING,
        "if node is not None and self._broker_id not in PartitionState.decode(path, node.data).isr:",
        "if node is not None:",
        pytest=(_DELETED,),
    ),
    Mutant(
        "belonging.deleted-before-the-controller-says-so",
        _BELONGING,
        "            if topic in leaving:\n",
        "            if not leaving:\n",
        pytest=(_DELETED,),
    ),
    Mutant(
        "belonging.deleted-without-a-note",
        _BELONGING,
        "                    unknown[key] = topic\n",
        "                    unknown[key] = topic\n                    own.append(key)\n",
        pytest=(_DELETED,),
    ),
    Mutant(
        "belonging.only-looked-at-when-a-broker-starts",
        _REPLICAS,
        "before_roles([key for key in roles if key not in self.partitions])",
        "before_roles([])",
        pytest=(_ROLES,),
    ),
    Mutant(
        "belonging.what-was-put-aside-is-no-loss",
        _REPLICAS,
        "for key in taken.put_aside.difference(new):",
        "for key in ():",
        pytest=(_ROLES,),
    ),
    Mutant(
        "belonging.a-new-log-gets-no-note",
        _MANAGER,
        "    if note is not None:\n        for log in created:\n",
        "    if note is None:\n        for log in created:\n",
        pytest=(f"{_BELONGING_TEST}::test_a_log_of_a_topic_that_was_made_anew_is_put_aside",),
    ),
    Mutant(
        "belonging.the-note-leaves-first",
        _ASIDE,
        "names = [name for name in os.listdir(folder) if name != log_notes.FILE]",
        "names = os.listdir(folder)",
        pytest=(f"{_ASIDE_TEST}::test_a_log_that_was_half_put_aside_is_put_aside",),
    ),
    Mutant(
        "belonging.what-a-start-made-replaces-what-is-aside",
        _ASIDE,
        "        if target.exists():\n",
        "        if not source.exists():\n",
        pytest=(f"{_ASIDE_TEST}::test_a_log_that_was_half_put_aside_is_put_aside",),
    ),
    Mutant(
        "belonging.taken-back-without-a-note",
        _ASIDE,
        "        log_notes.write(coming, aside.note)\n",
        "",
        pytest=(f"{_ASIDE_TEST}::test_a_log_that_was_half_taken_back_is_taken_back",),
    ),
    Mutant(
        "belonging.taken-back-over-another-log",
        _TAKING_BACK,
        "            if not replace:\n",
        "            if False:\n",
        pytest=(f"{_ASIDE_TEST}::test_the_log_that_is_there_is_replaced_only_when_asked",),
    ),
    Mutant(
        "without-log.leads-when-nobody-answers",
        _START,
        "wait_s = inf if after.is_without_log else self._wait_s",
        "wait_s = self._wait_s",
        pytest=(f"{_WITHOUT_TEST}::test_it_waits_for_every_answer_however_long_that_takes",),
    ),
    Mutant(
        "without-log.leads-as-the-last-in-sync",
        _START,
        "is_last = state.isr == (self._broker_id,) and not suspect.is_without_log",
        "is_last = state.isr == (self._broker_id,)",
        pytest=(_LAST,),
    ),
    Mutant(
        "without-log.nobody-elects-who-has-most",
        _START,
        "                elect.append(key)\n",
        "                pass\n",
        pytest=(_LAST,),
    ),
    Mutant(
        "without-log.a-new-replica-is-a-loss",
        _START,
        "        for key in new:\n",
        "        for key in ():\n",
        pytest=(f"{_WITHOUT_TEST}::test_one_without_a_log_is_refused_unless_it_is_out_alone_or_new",),
    ),
    Mutant(
        "without-log.a-new-directory-is-known-by-its-mark",
        _MANAGER,
        "            boots.note_new(directory, self._boot_id)\n",
        "            pass\n",
        pytest=(f"{_BOOTS_TEST}::test_a_directory_is_new_until_it_is_known_what_it_lacks",),
    ),
    Mutant(
        "without-log.forgotten-by-the-next-start",
        _MANAGER,
        "boots.note(directory, keys, self._boot_id, without_log)",
        "boots.note(directory, keys, self._boot_id)",
        pytest=(f"{_BOOTS_TEST}::test_what_is_gone_stays_known",),
    ),
)
