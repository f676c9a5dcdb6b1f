"""Who may do what: each rule of access rules broken once."""

from tests.faults.mutants import Mutant

_PARTS = "python/ottla/broker/authorization/"
_API = "python/ottla/broker/api/"
_TESTS = "tests/broker/authorization/"
SNAPSHOT = f"{_TESTS}test_snapshot.py"
STORE = f"{_TESTS}test_store.py"
TOLD = f"{_TESTS}test_conversations.py"
WAITING = f"{_TESTS}test_waiting_fetches.py"
LEASED = "tests/broker/leases/test_leased_rights.py"


def _told(name: str) -> tuple[str, ...]:
    return (f"{TOLD}::test_as_kafka_answers[{name}]",)


MUTANTS = (
    Mutant(
        "authorization.the-first-rule-decides",
        f"{_PARTS}snapshot.py",
        "                    allowed = Binding(pattern, entry)\n",
        "                    return Decision(True, Binding(pattern, entry))\n",
        pytest=(f"{SNAPSHOT}::test_who_may_read",),
    ),
    Mutant(
        "authorization.denial-implies",
        f"{_PARTS}snapshot.py",
        "entry.operation in DENYING[operation]",
        "entry.operation in ALLOWING[operation]",
        pytest=(f"{SNAPSHOT}::test_implied_operations",),
    ),
    Mutant(
        "authorization.hosts-do-not-matter",
        f"{_PARTS}snapshot.py",
        "if entry.host not in (host, ANY_HOST):",
        "if False:",
        pytest=(f"{SNAPSHOT}::test_who_may_read",),
    ),
    Mutant(
        "authorization.damaged-rules-are-none",
        f"{_PARTS}snapshot.py",
        "        if any(self._rules[pattern] is None for pattern in patterns):\n            return _NONE\n",
        "        patterns = [pattern for pattern in patterns if self._rules[pattern] is not None]\n",
        pytest=(f"{SNAPSHOT}::test_a_damaged_pattern_denies",),
    ),
    Mutant(
        "authorization.decisions-are-kept-for-ever",
        f"{_PARTS}snapshot.py",
        "            if self._kept >= DECISIONS_MAX:\n                self._forget()\n",
        "",
        pytest=(f"{SNAPSHOT}::test_decisions_that_are_kept_are_bounded",),
    ),
    Mutant(
        "authorization.a-type-is-no-part-of-a-principal",
        f"{_PARTS}snapshot.py",
        'self._decide(f"User:{principal}", host',
        'self._decide(principal if ":" in principal else f"User:{principal}", host',
        pytest=(f"{SNAPSHOT}::test_super_users_may_do_everything",),
    ),
    Mutant(
        "authorization.rules-are-written-over",
        f"{_PARTS}store.py",
        "first = Set(path, data, node.stat.version)",
        "first = Set(path, data)",
        pytest=(f"{STORE}::test_a_node_that_others_change_all_the_time",),
    ),
    Mutant(
        "authorization.nobody-is-told",
        f"{_PARTS}store.py",
        "    return [first, change]\n",
        "    return [first]\n",
        pytest=(f"{STORE}::test_rules_are_there_after_a_start_and_heard_of",),
    ),
    Mutant(
        "authorization.a-new-session-reads-nothing",
        f"{_PARTS}store.py",
        "Place(parent, CHANGE_PREFIX), heard, self.load)",
        "Place(parent, CHANGE_PREFIX), heard, trio.lowlevel.checkpoint)",
        pytest=(f"{STORE}::test_everything_is_read_in_a_new_session",),
    ),
    Mutant(
        "authorization.the-gate-is-open",
        "python/ottla/broker/requests.py",
        "        if serving.authorizer is not None:\n",
        "        if False:\n",
        pytest=_told("leader and isr"),
    ),
    Mutant(
        "authorization.the-second-need-is-not-asked-for",
        f"{_PARTS}gate.py",
        "    return found\n\n\ndef guarded",
        "    return found[:1]\n\n\ndef guarded",
        pytest=_told("add offsets to txn"),
    ),
    Mutant(
        "authorization.followers-read-as-consumers",
        "python/ottla/broker/fetch/context.py",
        "        if self.is_follower:\n            return self.may_follow\n",
        "",
        pytest=_told("fetch of a broker"),
    ),
    Mutant(
        "authorization.leases-serve-everybody",
        "python/ottla/broker/broker.py",
        "            self.leases.ask_for_rights()\n",
        "",
        pytest=(f"{LEASED}::test_who_may_read_is_asked_once",),
    ),
    Mutant(
        "authorization.leases-outlive-rules",
        f"{_PARTS}served_before.py",
        "            self._leases.end_of(topic)\n",
        "            pass\n",
        pytest=(f"{LEASED}::test_a_right_that_goes_is_gone_at_once",),
    ),
    Mutant(
        "authorization.prefixes-concern-their-own-name",
        f"{_PARTS}served_before.py",
        "if topic.startswith(pattern.name)",
        "if topic == pattern.name",
        pytest=(f"{LEASED}::test_a_prefix_concerns_what_begins_so",),
    ),
    Mutant(
        "authorization.the-clusters-rules-concern-no-topic",
        f"{_PARTS}served_before.py",
        "pattern is None or pattern.resource is Resource.CLUSTER",
        "pattern is None",
        pytest=(f"{LEASED}::test_producer_ids_are_a_right_of_their_own",),
    ),
    Mutant(
        "authorization.numbers-come-again",
        f"{_PARTS}authorizer.py",
        "next(self._next_number)",
        "len(self._numbers) + 1",
        pytest=(f"{LEASED}::test_no_number_is_given_twice",),
    ),
    Mutant(
        "authorization.writers-may-have-producer-ids",
        f"{_PARTS}authorizer.py",
        "writes_idempotently=may_be_idempotent",
        "writes_idempotently=True",
        pytest=(f"{LEASED}::test_producer_ids_are_a_right_of_their_own",),
    ),
    Mutant(
        "authorization.waiting-fetches-keep-their-rights",
        f"{_PARTS}served_before.py",
        "                partition.waiting_fetches.look_again(partition)\n",
        "                pass\n",
        pytest=(WAITING,),
    ),
    Mutant(
        "authorization.resting-sessions-keep-their-rights",
        "python/ottla/replication/waiting_fetches.py",
        "                fetch.advanced(partition)\n                fetch.expire()\n",
        "                fetch.expire()\n",
        pytest=(f"{WAITING}::test_a_session_hears_without_news_of_the_partition",),
    ),
    Mutant(
        "authorization.hidden-topics-are-unknown",
        f"{_API}k03_metadata.py",
        "            if rights is not None and not rights.may(Operation.DESCRIBE, Resource.TOPIC, topic.name):",
        "            if rights is not None and topic.name in cache.topics and not rights.may(\n"
        "                Operation.DESCRIBE, Resource.TOPIC, topic.name\n            ):",
        pytest=_told("metadata"),
    ),
    Mutant(
        "authorization.whoever-asks-creates",
        f"{_API}k03_metadata.py",
        "if allowed and rights is not None and not _may_create(rights, name):",
        "if False:",
        pytest=_told("metadata that creates"),
    ),
    Mutant(
        "authorization.producer-ids-are-anybodys",
        "python/ottla/broker/verification.py",
        "    if rights.might(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER) or not _has_producers(produce):",
        "    if True:",
        pytest=_told("produce idempotent"),
    ),
    Mutant(
        "authorization.old-brokers-get-prefixes",
        f"{_API}k30_create_acls.py",
        "if kind is PatternType.PREFIXED and not takes_prefixes:",
        "if False:",
        pytest=(f"{_TESTS}test_old_protocol.py::test_prefixes_are_refused",),
    ),
    Mutant(
        "authorization.first-rules-replace-others",
        f"{_PARTS}first_rules.py",
        "    return before | more\n",
        "    return more\n",
        pytest=("tests/cli/test_acl.py::test_rules_from_the_first_start_on",),
    ),
    Mutant(
        "authorization.every-class-is-kafkas",
        "python/ottla/config/security.py",
        '(config.get_str("authorizer.class.name") or "").strip() in AUTHORIZERS',
        '(config.get_str("authorizer.class.name") or "").strip() != ""',
        pytest=(f"{_TESTS}test_settings.py::test_a_class_of_others_may_be_ignored",),
    ),
    Mutant(
        "authorization.lists-show-one-name",
        "python/ottla/cli/acl.py",
        "PatternType.PREFIXED if about.prefixed else PatternType.MATCH",
        "about.kind",
        pytest=("tests/cli/test_acl.py::test_rules_are_listed",),
    ),
    Mutant(
        "authorization.why-looks-at-one-name",
        "python/ottla/cli/acl.py",
        "PatternFilter(kind, asked.name, PatternType.MATCH)",
        "PatternFilter(kind, asked.name, PatternType.LITERAL)",
        pytest=("tests/cli/test_acl.py::test_why",),
    ),
    Mutant(
        "authorization.all-groups-are-listed",
        f"{_API}k16_list_groups.py",
        "if is_shown is not None and not is_shown(group_id):",
        "if False:",
        pytest=_told("list groups"),
    ),
)
