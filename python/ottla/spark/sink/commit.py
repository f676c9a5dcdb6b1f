"""The driver's part in a batch: when its tasks are through, or when it failed (the rules are in `protocol`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import trio

from ottla.client import Cluster, Prepared, TransactionAdmin, end_transaction
from ottla.client.transactional import add_partitions, fence
from ottla.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    LocalProtocolError,
    ProducerFenced,
    RemoteProtocolError,
)
from ottla.spark.sink import hooks
from ottla.spark.sink.decisions import TIMEOUT_MS, Deciding, last_decision
from ottla.spark.sink.options import WriteOptions
from ottla.spark.sink.protocol import (
    BatchTooLong,
    Decision,
    Names,
    Report,
    Step,
    TransactionLost,
    check_same,
    contents_of,
    is_successor,
    next_step,
    orphans,
)
from ottla.spark.sink.task import Transaction

log = logging.getLogger(__name__)

GONE = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState)
"""The errors by which a coordinator tells of a transaction that is not the producer's any more: aborted, by its timeout
or by a later producer of its id.
"""
AT_ONCE = 16
"""Calls about transactions that are under way at the same time."""

T = TypeVar("T")
Reached = Callable[[str], Awaitable[None]]


async def commit(
    options: WriteOptions,
    names: Names,
    batch_id: int,
    reports: Sequence[Report],
    reached: Reached = hooks.reached,
    plan: str | None = None,
) -> None:
    """Commits a batch. May be called again for the same batch, by the same run or another one. `plan` is what the
    checkpoint says of the batch.

    Raises:
        CheckpointRolledBack, DecisionMissing, BatchTooLong, TransactionLost: as their names say.
        ProducerFenced, InvalidProducerEpoch: another driver runs this query.
        KafkaError, OSError: the cluster cannot be asked.
    """
    async with options.cluster() as cluster, Deciding(cluster, names) as deciding:
        previous = decision = await deciding.last()
        contents = contents_of(reports, plan)
        step = next_step(previous, batch_id, reports)
        if step is Step.DECIDE:
            transactions = tuple(each.transaction for each in reports if each.transaction is not None)
            await check_open(cluster, transactions, options, f"batch {batch_id}")
            await reached("before-decision")
            decision = Decision(batch_id, names.run_id, transactions, contents)
            await deciding.append(decision)
        if step is not Step.NOTHING:
            assert decision is not None
            await reached("decided")
            await finish(cluster, decision.transactions, f"batch {batch_id}", reached)
            await reached("before-done")
            await deciding.append(replace(decision, run_id=names.run_id, done=True))
        await end_orphans(cluster, names, is_successor(names, previous, batch_id, reports))
    if previous is not None and previous.batch_id == batch_id:
        # Only now: what was decided is committed, whatever comes after it.
        check_same(previous, contents, options.topic)
    await reached("committed")


async def abort(options: WriteOptions, names: Names, batch_id: int, reports: Sequence[Report]) -> None:
    """Aborts a batch that failed, unless it is decided. What cannot be aborted now ends with its timeout, or with the
    next commit.
    """
    async with options.cluster() as cluster, Deciding(cluster, names) as deciding:
        decision = await deciding.last()
        if decision is not None and decision.batch_id >= batch_id:
            return
        await abort_all(cluster, [each.transaction for each in reports if each.transaction is not None])


async def commit_all(options: WriteOptions, names: Names, reports: Sequence[Report]) -> None:
    """Commits the transactions of a job that is no query: without a decision, so that a driver that dies in between
    leaves some of them aborted.

    Raises:
        BatchTooLong: nothing was committed. TransactionLost: only some were.
    """
    transactions = tuple(each.transaction for each in reports if each.transaction is not None)
    async with options.cluster() as cluster:
        await check_open(cluster, transactions, options, "the write")
        await finish(cluster, transactions, "the write", hooks.reached)
        await end_orphans(cluster, names, others=False)


async def abort_job(options: WriteOptions, names: Names, reports: Sequence[Report]) -> None:
    """Aborts the transactions of a job that is no query."""
    async with options.cluster() as cluster:
        await abort_all(cluster, [each.transaction for each in reports if each.transaction is not None])
        await end_orphans(cluster, names, others=False)


async def check_open(cluster: Cluster, transactions: Sequence[Transaction], options: WriteOptions, what: str) -> None:
    """Adding partitions that a transaction has changes nothing, and is refused when it is not open any more.

    Raises:
        BatchTooLong: one of them is not.
    """

    async def check(each: Transaction) -> None:
        await add_partitions(cluster, _prepared(each), each.partitions)

    found = await _each(transactions, check)
    for transaction, problem in zip(transactions, found, strict=True):
        if isinstance(problem, GONE):
            seconds = time.time() - transaction.opened_s
            raise BatchTooLong(
                f"{what}: transaction {transaction.transactional_id} with {transaction.records} rows is not open any "
                f"more, {seconds:.0f} s after it was begun; kafka.transaction.timeout.ms is "
                f"{options.transaction_timeout_ms}. Nothing was committed. Make batches smaller "
                "(maxOffsetsPerTrigger) or the timeout longer"
            ) from problem
        if problem is not None:
            raise problem


async def finish(cluster: Cluster, transactions: Sequence[Transaction], what: str, reached: Reached) -> None:
    """Commits them; those that are committed stay so.

    Raises:
        TransactionLost: one was aborted meanwhile. All others are committed.
    """

    async def end(each: Transaction) -> None:
        await end_transaction(cluster, _prepared(each), commit=True)

    found = await _each(transactions[:1], end)
    await reached("between-ends")
    found += await _each(transactions[1:], end)
    lost = [each for each, problem in zip(transactions, found, strict=True) if isinstance(problem, GONE)]
    if lost:
        raise TransactionLost(
            f"{what} was decided, but {len(lost)} of its {len(transactions)} transactions were aborted before they "
            f"were committed: {sum(each.records for each in lost)} of {sum(each.records for each in transactions)} "
            f"rows are missing in the topics ({', '.join(each.transactional_id for each in lost[:5])}). They ended by "
            "kafka.transaction.timeout.ms, which must be longer than a driver may be down, or somebody fenced them. "
            "The other rows are there; write the missing ones by other means and begin with a new checkpointLocation"
        )
    for problem in found:
        if problem is not None:
            raise problem


async def abort_all(cluster: Cluster, transactions: Sequence[Transaction]) -> None:
    """Aborts them for good: their producers are fenced. Merely ended, an epoch could be used again, and `check_open`
    would open a new, empty transaction in it instead of being refused.
    """
    await _fence_all(cluster, [each.transactional_id for each in transactions])


async def _fence_all(cluster: Cluster, transactional_ids: Sequence[str]) -> None:
    async def end(transactional_id: str) -> None:
        await fence(cluster, transactional_id, timeout_ms=TIMEOUT_MS)

    for problem in await _each(transactional_ids, end):
        if problem is not None:
            raise problem


async def end_orphans(cluster: Cluster, names: Names, others: bool) -> None:
    """Ends the query's open transactions that nobody will commit: readers of committed records stop before them.

    Brokers before 3.0 cannot list transactions: there, they end by their timeout.
    """
    try:
        listed = await TransactionAdmin(cluster).list_transactions(states=["Ongoing"])
    except LocalProtocolError:
        return
    found = orphans(names, [each.transactional_id for each in listed], others)
    if not found:
        return
    log.info("ending %d transactions that no batch lists, such as %s", len(found), found[0])
    await _fence_all(cluster, found)


async def _each(things: Sequence[T], do: Callable[[T], Awaitable[None]]) -> list[Exception | None]:
    """Does it for all of them, some at the same time; gives what became of each."""
    found: list[Exception | None] = [None] * len(things)
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(index: int, thing: T) -> None:
        async with limit:
            try:
                await do(thing)
            except (KafkaError, OSError, RemoteProtocolError) as problem:
                found[index] = problem

    async with trio.open_nursery() as nursery:
        for index, thing in enumerate(things):
            nursery.start_soon(one, index, thing)
    return found


def _prepared(each: Transaction) -> Prepared:
    return Prepared(each.transactional_id, each.producer_id, each.producer_epoch, False)


async def look(options: WriteOptions, names: Names) -> Decision | None:
    """The query's last decision, as a task sees it: without fencing anybody, and without waiting."""
    async with options.cluster() as cluster:
        return await last_decision(cluster, names.key, wait=False)
