"""Plans that change where replicas are: how they are shown, agreed to, carried out and waited for."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli._ask import agreed, plan_options
from ottla.cli._client import with_cluster
from ottla.cli._interrupts import end_interrupted
from ottla.cli._output import ROWS_MAX, columns, counted, print_json, sized
from ottla.cli._progress import progress
from ottla.cli._settings import INT64_MAX

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.cluster_admin import ClusterAdmin, Overview
    from ottla.client.placement import Replicas
    from ottla.errors import KafkaError
    from ottla.kafka import TopicPartition

POLL_S = 0.25
VISIBLE_S = 10.0
"""How long brokers may take to tell clients what the controller has done."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class How:
    """The options of `moving_options`."""

    throttle: int | None
    wait: bool
    dry_run: bool
    yes: bool
    undo: str | None
    as_json: bool


@dataclass(slots=True)
class Change:
    """A plan: the replicas of the partitions that change, the first the preferred leader, and why others do not.

    `elect` are partitions whose first replica is to lead in the end. `sizes` are the bytes of partitions as far as they
    are known.
    """

    before: dict[TopicPartition, Replicas]
    after: dict[TopicPartition, Replicas]
    stuck: dict[TopicPartition, str] = field(default_factory=dict)
    elect: list[TopicPartition] = field(default_factory=list)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def copies(self) -> list[tuple[TopicPartition, int]]:
        """Which partition gets a replica on which broker."""
        from ottla.client.placement import copies

        return copies(self.before, self.after)


def moving_options(function: Function) -> Function:
    """Adds the options of a command that moves something. It gets them as `how`."""
    for option in reversed(
        (
            click.option(
                "--throttle",
                type=click.IntRange(1, INT64_MAX),
                metavar="BYTES",
                help="What each broker may send, and receive, of the copies in a second (KIP-73); taken back at the "
                "end.",
            ),
            click.option("--wait/--no-wait", default=True, help="Return when all is copied, or at once. Default: wait"),
            click.option(
                "--undo",
                type=click.Path(dir_okay=False),
                metavar="FILE",
                help="Before, write the present replicas here: `ottla topic reassign --plan FILE` brings them back.",
            ),
            plan_options,
            click.option("--json", "as_json", is_flag=True, help="The plan as one JSON object."),
        )
    ):
        function = option(function)
    return function


async def measured(admin: ClusterAdmin, overview: Overview, change: Change) -> Change:
    """Adds how large the partitions are that are copied, by what their leaders say."""
    led = overview.leaders()
    asked: dict[int, list[TopicPartition]] = {}
    for name in sorted({name for name, _ in change.copies}):
        asked.setdefault(led[name], []).append(name)
    found = await admin.sizes(asked)
    change.sizes = {name: size for sizes in found.values() for name, size in sizes.items()}
    return change


def settle(change: Change, how: How, doing: str, bootstrap: str, timeout_ms: int) -> None:
    """Shows the plan, asks where it has to, carries it out and says what came of it.

    doing: e.g. "cannot drain broker 3". Raises click.ClickException if some of it cannot be done.
    """
    is_empty = not change.after and not change.elect
    if how.as_json:
        print_json(as_json(change))
    else:
        click.echo(as_text(change))
    if is_empty and how.throttle is not None and not how.dry_run:
        click.echo("nothing is copied, and so nothing is held back", err=True)
    if not is_empty and agreed(*_question(change), yes=how.yes, dry_run=how.dry_run):
        _carry_out(change, how, doing, bootstrap, timeout_ms)
    if change.stuck and not how.dry_run:
        raise click.ClickException(f"{doing}: {of_each(change.stuck, 'partition stays', 'partitions stay')}")


def _carry_out(change: Change, how: How, doing: str, bootstrap: str, timeout_ms: int) -> None:
    if how.undo is not None:
        before = {name: change.before[name] for name in change.after}
        try:
            Path(how.undo).write_text(json.dumps(as_plan(before)) + "\n")
        except OSError as error:
            raise click.ClickException(f"{doing}: {how.undo}: {error.strerror}") from None

    async def work(cluster: Cluster) -> dict[TopicPartition, str]:
        return await _move(cluster, change, how)

    try:
        problems = with_cluster(doing, bootstrap, timeout_ms, work)
    except click.Abort:
        raise end_interrupted(goes_on(how)) from None
    _say(_done(change, how, problems), how)
    if problems:
        raise click.ClickException(f"{doing}: {of_each(problems, 'partition failed', 'partitions failed')}")


async def _move(cluster: Cluster, change: Change, how: How) -> dict[TopicPartition, str]:
    """Returns what went wrong, by partition."""
    from ottla.client.admin import Admin
    from ottla.client.cluster_admin import ClusterAdmin
    from ottla.client.throttles import involved, limit, remove

    admin = ClusterAdmin(cluster)
    if how.throttle is not None and change.copies:
        await limit(Admin(cluster), how.throttle, change.before, change.after)
    refused = await admin.reassign(change.after) if change.after else {}
    problems = {name: _words(problem) for name, problem in refused.items()}
    targets = {name: target for name, target in change.after.items() if name not in problems}
    if not how.wait and change.copies:
        return problems
    await wait_for(admin, targets, change.sizes)
    if how.throttle is not None:
        held = involved({name: change.before[name] for name in change.after}, change.after)
        await remove(Admin(cluster), {name.topic for name in change.after}, held)
    problems |= await elect(admin, [name for name in change.elect if name not in problems])
    wanted = {name: (change.before | targets)[name][0] for name in change.elect if name not in problems}
    return problems | await _seen(admin, targets, wanted)


def _words(problem: KafkaError) -> str:
    return f"{problem} ({problem.name})"


async def wait_for(
    admin: ClusterAdmin, targets: Mapping[TopicPartition, Replicas], sizes: Mapping[TopicPartition, int]
) -> None:
    """Returns when none of these partitions moves any more; a bar shows how far the copies are."""
    adding = {name: move.adding for name, move in (await admin.moves()).items() if name in targets}
    waited = set(adding)
    total = sum(sizes.get(name, 0) * len(brokers) for name, brokers in adding.items())
    text = f"of {counted(len(waited), 'partition')}"
    with progress("moving", total or None, unit="bytes", counted=text, is_shown=bool(waited)) as advance:
        import trio

        done_bytes = done = 0
        while moving := set(await admin.moves()) & waited:
            await trio.sleep(POLL_S)
            found = await admin.sizes(_by_broker({name: adding[name] for name in moving}))
            there = sum(sizes.get(name, 0) * len(brokers) for name, brokers in adding.items() if name not in moving)
            there += sum(min(size, sizes.get(name, size)) for each in found.values() for name, size in each.items())
            advance(there - done_bytes, len(waited) - len(moving) - done)
            done_bytes, done = there, len(waited) - len(moving)


async def elect(admin: ClusterAdmin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    """Has the first replica of these partitions lead, and returns what went wrong. What it leads already is well."""
    from ottla.errors import ElectionNotNeeded

    results = await admin.elect(partitions) if partitions else {}
    return {
        name: _words(problem)
        for name, problem in results.items()
        if problem is not None and not isinstance(problem, ElectionNotNeeded)
    }


async def _seen(
    admin: ClusterAdmin, targets: Mapping[TopicPartition, Replicas], wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, str]:
    """Returns when clients are told of the new replicas and leaders; with those partitions that have others even after
    a while, since somebody else changed them too.
    """
    import trio

    deadline = trio.current_time() + VISIBLE_S
    while True:
        overview = await admin.overview()
        replicas, led = overview.replicas(), overview.leaders()
        others = {
            name: f"it has the replicas {','.join(map(str, replicas[name]))} now: somebody else changed it"
            for name, target in targets.items()
            if name in replicas and replicas[name] != tuple(target)
        }
        others |= {
            name: f"broker {led[name]} leads it, and not {first}"
            for name, first in wanted.items()
            if name in led and led[name] != first
        }
        if not others or trio.current_time() > deadline:
            return others
        await trio.sleep(POLL_S)


def _by_broker(adding: Mapping[TopicPartition, Iterable[int]]) -> dict[int, list[TopicPartition]]:
    asked: dict[int, list[TopicPartition]] = {}
    for name, brokers in adding.items():
        for broker in brokers:
            asked.setdefault(broker, []).append(name)
    return asked


def as_plan(targets: Mapping[TopicPartition, Replicas]) -> dict[str, object]:
    """The form of Kafka's tool."""
    rows = [
        {"topic": name.topic, "partition": name.partition, "replicas": list(replicas)}
        for name, replicas in sorted(targets.items())
    ]
    return {"version": 1, "partitions": rows}


def as_json(change: Change) -> dict[str, object]:
    """The plan for programs."""
    return {
        "moves": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "from": list(change.before[name]),
                "to": list(target),
                "size_bytes": change.sizes.get(name),
            }
            for name, target in sorted(change.after.items())
        ],
        "elections": [{"topic": name.topic, "partition": name.partition} for name in sorted(change.elect)],
        "stuck": [
            {"topic": name.topic, "partition": name.partition, "why": why} for name, why in sorted(change.stuck.items())
        ],
    }


def as_text(change: Change) -> str:
    """The plan for people: a row for each partition that changes, and what it costs."""
    names = sorted({*change.after, *change.elect})
    if not names:
        return "nothing to be done"
    copied = {name for name, _ in change.copies}
    rows = [
        (
            name.topic,
            name.partition,
            ",".join(map(str, change.before[name])),
            ",".join(map(str, change.after.get(name, change.before[name]))),
            _copied_text(change, name) if name in copied else "no copy",
        )
        for name in names[:ROWS_MAX]
    ]
    lines = [columns(rows, ("topic", "partition", "from", "to", ""))]
    if len(names) > ROWS_MAX:
        lines.append(f"... and {counted(len(names) - ROWS_MAX, 'more partition')}")
    count = len(change.copies)
    total = sum(change.sizes.get(name, 0) for name, _ in change.copies)
    costs = f"{counted(count, 'replica')} to copy ({sized(total)})" if count else "nothing to copy"
    lines.append(f"{counted(len(names), 'partition')}, {costs}")
    return "\n".join(lines)


def _copied_text(change: Change, name: TopicPartition) -> str:
    size = change.sizes.get(name)
    return "copied" if size is None else sized(size)


def _question(change: Change) -> tuple[str, str]:
    """What is asked, and what would be done."""
    if change.after and change.copies:
        replicas = counted(len(change.copies), "replica")
        return f"Copy {replicas}?", f"{replicas} would be copied"
    partitions = counted(len({*change.after, *change.elect}), "partition")
    return f"Change {partitions}?", f"{partitions} would be changed"


def of_each(problems: Mapping[TopicPartition, str], one: str, many: str) -> str:
    """`2 partitions failed:`, and a line for each as far as they are not too many."""
    rows = [f"{name}: {why}" for name, why in sorted(problems.items())]
    if len(rows) > ROWS_MAX:
        rows[ROWS_MAX:] = [f"... and {len(rows) - ROWS_MAX:,} more"]
    return f"{counted(len(problems), one, many)}:" + "".join(f"\n  {row}" for row in rows)


def goes_on(how: How) -> str:
    """What becomes of moves that nobody waits for, and what can be done with them."""
    throttled = " and takes the throttle back" if how.throttle is not None else ""
    return (
        "the moves go on without this command: `ottla cluster status` shows them, `ottla topic reassign --resume` "
        f"waits for them{throttled}, `ottla topic reassign --cancel` ends them"
    )


def _done(change: Change, how: How, problems: Collection[TopicPartition]) -> str:
    if not how.wait and change.copies:
        return goes_on(how)
    count = len({*change.after, *change.elect} - set(problems))
    return f"changed {counted(count, 'partition')}"


def _say(line: str, how: How) -> None:
    click.echo(line, err=how.as_json)
