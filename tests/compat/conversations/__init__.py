"""Things that a client might say to a broker, and seldom says: each conversation is held with Apache Kafka and with us,
and the answers must be alike (`test_same_answers`). Each names its topics, groups and transactional ids for itself
alone.

Left out is where Kafka 2.7 answers a senseless request with UNKNOWN_SERVER_ERROR or closes the connection, and we say
what is wrong; and what later releases of Kafka check, and so do we: that a transaction was begun (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable

from tests.compat.conversations import groups, records, settings, topics, transactions, twice
from tests.compat.talk import Talk

CONVERSATIONS: list[Callable[[Talk], None]] = [
    groups.join_refused,
    groups.one_member,
    groups.old_join,
    groups.static_members,
    groups.several_members,
    groups.static_rebalances,
    groups.full_group,
    groups.silence,
    groups.offsets,
    groups.old_offsets,
    groups.coordinators,
    transactions.producer_ids,
    transactions.transactions,
    transactions.transactional_offsets,
    transactions.fences,
    transactions.markers,
    transactions.sequences,
    transactions.timeouts,
    topics.create_topics,
    topics.create_topics_on_brokers,
    topics.create_topics_with_settings,
    topics.delete_topics,
    topics.create_partitions,
    topics.metadata,
    records.fetches,
    records.fetch_limits,
    records.session_order,
    records.sessions,
    records.produces,
    records.list_offsets,
    records.old_formats,
    records.unwilling,
    records.times,
    records.delete_records,
    settings.describe_configs,
    settings.incremental_alter_configs,
    settings.alter_configs,
    settings.log_dirs,
    settings.elections,
    settings.reassignments,
    settings.quotas,
    settings.scram,
    settings.features,
    settings.security,
    twice.twice_in_records,
    twice.twice_in_topics,
    twice.twice_in_settings,
    twice.twice_in_groups,
    twice.twice_in_transactions,
]
