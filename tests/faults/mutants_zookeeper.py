"""Who a session with ZooKeeper is, and what is kept for it there: each promise broken once."""

from tests.faults.mutants import Mutant

ACCESS = "python/ottla/broker/zookeeper_access.py"
LOGIN = "python/ottla/coordination/login.py"
LOGINS = "tests/coordination/test_login.py"
SETTINGS = "tests/broker/connections/test_zookeeper_access.py"

MUTANTS = (
    Mutant(
        "tls.zookeeper-hears-plain-text",
        ACCESS,
        "Access(zookeeper_tls.of_settings(config), _user(config), config.get_bool(SECURES))",
        "Access(None, _user(config), config.get_bool(SECURES))",
        pytest=("tests/broker/connections/test_zookeeper_tls.py::test_a_broker_joins",),
    ),
    Mutant(
        "zookeeper.everybody-reads-secrets",
        "python/ottla/coordination/rules.py",
        "return SECRET if path.startswith(SECRET_PATHS) else READABLE",
        "return READABLE",
        pytest=("tests/coordination/test_rules.py::test_secrets_are_for_their_creator_alone",),
    ),
    Mutant(
        "zookeeper.nodes-are-made-open",
        "python/ottla/coordination/zookeeper.py",
        "return rules_of(path) if self._secures else OPEN",
        "return OPEN",
        pytest=(f"{LOGINS}::test_nodes_are_kept_for_the_user",),
    ),
    Mutant(
        "zookeeper.a-transaction-makes-nodes-open",
        "python/ottla/coordination/zookeeper.py",
        "KazooCreate(self._client.chroot + path, data or None, self._rules(path), flags)",
        "KazooCreate(self._client.chroot + path, data or None, OPEN, flags)",
        pytest=(f"{LOGINS}::test_nodes_are_kept_for_the_user",),
    ),
    Mutant(
        "zookeeper.rules-of-nobody-mean-none",
        ACCESS,
        "if access.secures and not access.is_somebody:",
        "if False:",
        pytest=(f"{SETTINGS}::test_rules_of_nobody_are_refused_with_both_ways_to_be_somebody",),
    ),
    Mutant(
        "zookeeper.kerberos-is-nobody",
        ACCESS,
        "    if module in _KERBEROS:\n        raise",
        "    if module in _KERBEROS:\n        return None\n        raise",
        pytest=(f"{SETTINGS}::test_jaas_files_that_cannot_be_followed",),
    ),
    Mutant(
        "zookeeper.the-first-connection-alone-is-logged-in",
        LOGIN,
        "if state in _CONNECTED:",
        "if state in _CONNECTED and not self._succeeded:",
        pytest=(f"{LOGINS}::test_each_connection_is_logged_in",),
    ),
    Mutant(
        "zookeeper.a-later-refusal-is-the-end",
        LOGIN,
        "            if self._succeeded:\n",
        "            if False:\n",
        pytest=(f"{LOGINS}::test_a_later_refusal_is_told_once_and_tried_again",),
    ),
    Mutant(
        "zookeeper.any-server-is-believed",
        "python/ottla/coordination/digest_md5.py",
        "if not hmac.compare_digest(",
        "if last is None and not hmac.compare_digest(",
        pytest=("tests/coordination/test_digest_md5.py::test_a_server_that_does_not_know_the_password",),
    ),
    Mutant(
        "zookeeper.others-nodes-are-taken-for-ours",
        "python/ottla/coordination/zookeeper.py",
        "except (BadVersion, NoNode):",
        "except (BadVersion, NoNode, NotAllowed):",
        pytest=(f"{LOGINS}::test_nodes_are_kept_for_the_user",),
    ),
    Mutant(
        "zookeeper.commands-make-nodes-open",
        ACCESS,
        "return access._replace(secures=access.is_somebody)",
        "return access",
        pytest=(f"{SETTINGS}::test_a_line_of_the_settings",),
    ),
    Mutant(
        "zookeeper.nodes-left-open-are-not-named",
        "python/ottla/broker/tree.py",
        "            if access.secures:\n                await _tell_left_open(tree)\n",
        "",
        pytest=(f"{SETTINGS}::test_what_was_made_before_is_named",),
    ),
)
