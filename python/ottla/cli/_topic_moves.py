"""`ottla topic reassign` and `ottla topic elect`: which brokers have a topic's replicas, and which of those leads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli._ask import agreed, plan_options
from ottla.cli._client import client_options, with_cluster
from ottla.cli._completion import topics as complete_topics
from ottla.cli._errors import explained
from ottla.cli._interrupts import end_interrupted
from ottla.cli._moves import (
    Change,
    How,
    goes_on,
    measured,
    moving_options,
    of_each,
    settle,
    wait_for,
)
from ottla.cli._moves import (
    as_json as plan_as_json,
)
from ottla.cli._moves import (
    elect as elect_preferred,
)
from ottla.cli._output import columns, counted, print_json
from ottla.cli._settings import INT16_MAX, INT32_MAX, at_most_one

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.cluster_admin import ClusterAdmin, Move, Overview
    from ottla.client.placement import Replicas
    from ottla.kafka import TopicPartition


def _ids(text: str, option: str) -> tuple[int, ...]:
    """`1,2,3`. Raises click.BadParameter."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) <= INT32_MAX for part in parts):
        raise click.BadParameter(f"{text!r} is no list of brokers such as 1,2,3", param_hint=option)
    ids = tuple(map(int, parts))
    if len(set(ids)) != len(ids):
        raise click.BadParameter(f"{text!r} names a broker twice", param_hint=option)
    return ids


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topics)
@click.option("--to", metavar="ID,...", help="Spread the topics' replicas evenly over these brokers, and no others.")
@click.option(
    "-r",
    "--replicas",
    type=click.IntRange(1, INT16_MAX),
    metavar="N",
    help="So many replicas for each partition; over all brokers, or those of --to.",
)
@click.option(
    "--assign",
    multiple=True,
    metavar="PARTITION=ID,...",
    help="The replicas of a partition of the one topic NAME, the preferred leader first; may be repeated.",
)
@click.option(
    "--plan",
    type=click.Path(),
    metavar="FILE",
    help="What a file says, in the JSON of kafka-reassign-partitions.",
)
@click.option("--cancel", is_flag=True, help="End moves that go on, of these topics or all: back to what was before.")
@click.option(
    "--resume",
    is_flag=True,
    help="Wait for moves that go on, of these topics or all, with another --throttle if there is one, and take idle "
    "throttles back.",
)
@moving_options
@client_options
def reassign(
    names: tuple[str, ...],
    to: str | None,
    replicas: int | None,
    assign: tuple[str, ...],
    plan: str | None,
    cancel: bool,
    resume: bool,
    throttle: int | None,
    wait: bool,
    dry_run: bool,
    yes: bool,
    undo: str | None,
    as_json: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Move the replicas of topics to other brokers, while clients go on (KIP-455).

    The plan is shown first. With --to and --replicas, what is there already stays as far as an even spread allows.
    """
    at_most_one(
        {
            "--to or --replicas": to is not None or replicas is not None,
            "--assign": bool(assign),
            "--plan": plan is not None,
            "--cancel": cancel,
            "--resume": resume,
        }
    )
    at_most_one({"--resume": resume, "--dry-run": dry_run})
    how = How(throttle, wait, dry_run, yes, undo, as_json)
    if resume:
        _resume(names, how, bootstrap, timeout_ms)
        return
    if cancel:
        _cancel(names, how, bootstrap, timeout_ms)
        return
    brokers = None if to is None else _ids(to, "--to")
    wanted = _wanted(names, plan, assign, is_spread=to is not None or replicas is not None)
    doing = f"cannot reassign {', '.join(names) or plan}"

    async def work(cluster: Cluster) -> Change:
        from ottla.cli._names import check_topics
        from ottla.client.cluster_admin import ClusterAdmin

        admin = ClusterAdmin(cluster)
        await check_topics(cluster, names or sorted({name.topic for name in wanted or ()}))
        overview = await admin.overview_after_moves()
        before = overview.replicas()
        targets = dict(wanted) if wanted is not None else _spread(overview, names, brokers, replicas, doing)
        _check(targets, overview, doing)
        changed = {name: target for name, target in targets.items() if target != before[name]}
        led = overview.leaders()
        # Who leads is left to the controller, except where the user said who is to come first.
        elect = [name for name in changed if led[name] >= 0 and led[name] != changed[name][0]]
        return await measured(admin, overview, Change(before, changed, elect=sorted(elect)))

    settle(with_cluster(doing, bootstrap, timeout_ms, work), how, doing, bootstrap, timeout_ms)


def _wanted(
    names: tuple[str, ...], plan: str | None, assign: tuple[str, ...], *, is_spread: bool
) -> dict[TopicPartition, Replicas] | None:
    """The replicas of each partition, as the user said them; None where they are to be spread evenly."""
    if plan is not None:
        if names:
            raise click.UsageError("--plan says which topics: leave NAME out")
        return _read(plan)
    if assign:
        if len(names) != 1:
            raise click.UsageError("--assign is about the partitions of one topic: name it")
        return _assigned(names[0], assign)
    if not is_spread:
        raise click.UsageError("say what to do: --to, --replicas, --assign, --plan, --cancel or --resume")
    if not names:
        raise click.UsageError("name the topics; `ottla broker balance` is about all of them")
    return None


def _spread(
    overview: Overview, names: Sequence[str], brokers: Sequence[int] | None, replicas: int | None, doing: str
) -> dict[TopicPartition, Replicas]:
    from ottla.client.placement import spread

    chosen = overview.brokers if brokers is None else brokers
    _check_brokers(chosen, overview, doing)
    racks = {broker: overview.brokers[broker].rack for broker in chosen}
    theirs = {name: have for name, have in overview.replicas().items() if name.topic in names}
    with explained(doing, ValueError):
        return spread(theirs, racks, replicas)


def _check(targets: Mapping[TopicPartition, Sequence[int]], overview: Overview, doing: str) -> None:
    """Raises click.ClickException for a partition or broker that is not there."""
    known = overview.replicas()
    for name, target in sorted(targets.items()):
        if name not in known:
            count = sum(each.topic == name.topic for each in known)
            raise click.ClickException(
                f"{doing}: {name.topic} has no partition {name.partition}, but {count} from 0 on"
            )
        # A replica that it has already may be of a broker that is not there.
        _check_brokers([each for each in target if each not in known[name]], overview, doing)


def _check_brokers(brokers: Sequence[int] | Mapping[int, Any], overview: Overview, doing: str) -> None:
    for broker in brokers:
        if broker not in overview.brokers:
            there = ", ".join(map(str, overview.brokers))
            raise click.ClickException(f"{doing}: broker {broker} is not there; known are {there}")


def _assigned(topic: str, assign: Sequence[str]) -> dict[TopicPartition, Replicas]:
    """The targets of PARTITION=ID,... options. Raises click.BadParameter."""
    from ottla.kafka import TopicPartition

    found: dict[TopicPartition, Replicas] = {}
    for text in assign:
        number, equals, ids = text.partition("=")
        if not equals or not number.strip().isdecimal():
            raise click.BadParameter(f"{text!r} is not PARTITION=ID,... such as 0=1,2,3", param_hint="--assign")
        name = TopicPartition(topic, int(number))
        if name in found:
            raise click.BadParameter(f"partition {number} is given twice", param_hint="--assign")
        found[name] = _ids(ids, "--assign")
    return found


def _read(path: str) -> dict[TopicPartition, Replicas]:
    """The targets of a file. Raises click.BadParameter, for a file that cannot be read too."""
    from ottla.kafka import TopicPartition

    try:
        content = json.loads(Path(path).read_text())
        found = {}
        for row in content["partitions"]:
            name = TopicPartition(str(row["topic"]), int(row["partition"]))
            if isinstance(row["replicas"], str):
                raise TypeError
            replicas = tuple(int(each) for each in row["replicas"])
            if name in found:
                raise ValueError(f"{name} is in it twice")
            if not replicas or len(set(replicas)) != len(replicas):
                raise ValueError(f"{name} has no replicas, or one twice")
            found[name] = replicas
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--plan") from None
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, KeyError):
            why = f"{error.args[0]!r} is missing"
        elif isinstance(error, TypeError):
            why = (
                'it is JSON of another shape than {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
            )
        elif isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            why = f"it is not JSON ({error})"
        else:
            why = str(error)
        raise click.BadParameter(
            f"{path} is no plan of kafka-reassign-partitions: {why}", param_hint="--plan"
        ) from None
    return found


async def _moves_of(cluster: Cluster, admin: ClusterAdmin, names: Sequence[str]) -> dict[TopicPartition, Move]:
    """The moves of these topics that go on, or all."""
    from ottla.cli._names import check_topics

    await check_topics(cluster, names)
    return {name: move for name, move in (await admin.moves()).items() if not names or name.topic in names}


def _resume(names: Sequence[str], how: How, bootstrap: str, timeout_ms: int) -> None:
    async def work(cluster: Cluster) -> tuple[int, list[str], list[int]]:
        from ottla.client.admin import Admin
        from ottla.client.cluster_admin import ClusterAdmin
        from ottla.client.throttles import involved, limit, remove

        admin = ClusterAdmin(cluster)
        moves = await _moves_of(cluster, admin, names)
        overview = await admin.overview()
        before = {name: move.origin for name, move in moves.items()}
        change = await measured(admin, overview, Change(before, {name: move.target for name, move in moves.items()}))
        if how.throttle is not None:
            await limit(Admin(cluster), how.throttle, change.before, change.after)
        if not how.wait:
            return len(moves), [], []
        await wait_for(admin, change.after, change.sizes)
        # Moves that ended before have left throttles, too.
        topics = names or [topic.name for topic in overview.topics]
        held = involved(change.before, change.after) if how.throttle is not None else ()
        return len(moves), *await remove(Admin(cluster), topics, held)

    try:
        count, topics, brokers = with_cluster("cannot wait for the moves", bootstrap, timeout_ms, work)
    except click.Abort:
        raise end_interrupted(goes_on(how)) from None
    if not how.wait:
        click.echo(goes_on(how) if count else "nothing moves")
        return
    click.echo(f"{counted(count, 'partition')} moved" if count else "nothing moves")
    if topics or brokers:
        freed = [f"topic {', '.join(topics)}"] if topics else []
        freed += [f"broker {', '.join(map(str, brokers))}"] if brokers else []
        click.echo(f"took throttles back: {'; '.join(freed)}")


def _cancel(names: Sequence[str], how: How, bootstrap: str, timeout_ms: int) -> None:
    doing = "cannot cancel the moves"

    async def look(cluster: Cluster) -> dict[TopicPartition, Move]:
        from ottla.client.cluster_admin import ClusterAdmin

        return await _moves_of(cluster, ClusterAdmin(cluster), names)

    moves = with_cluster(doing, bootstrap, timeout_ms, look)
    replicas = {name: move.replicas for name, move in moves.items()}
    back = {name: move.origin for name, move in moves.items()}
    if how.as_json:
        print_json(plan_as_json(Change(replicas, back)))
    elif moves:
        rows = [
            (name.topic, name.partition, *(",".join(map(str, each)) for each in (move.target, back[name])))
            for name, move in sorted(moves.items())
        ]
        click.echo(columns(rows, ("topic", "partition", "was to get", "goes back to")))
    else:
        click.echo("nothing moves")
    cancelled = counted(len(moves), "move")
    if not moves or not agreed(
        f"Cancel {cancelled}?", f"{cancelled} would be cancelled", yes=how.yes, dry_run=how.dry_run
    ):
        return

    async def work(cluster: Cluster) -> dict[TopicPartition, str]:
        from ottla.client.admin import Admin
        from ottla.client.cluster_admin import ClusterAdmin
        from ottla.client.throttles import involved, remove
        from ottla.errors import NoReassignmentInProgress

        refused = await ClusterAdmin(cluster).reassign(dict.fromkeys(moves))
        await remove(Admin(cluster), {name.topic for name in moves}, involved(replicas))
        return {
            name: f"{problem} ({problem.name})"
            for name, problem in refused.items()
            if not isinstance(problem, NoReassignmentInProgress)  # it is over
        }

    problems = with_cluster(doing, bootstrap, timeout_ms, work)
    click.echo(f"cancelled {counted(len(moves) - len(problems), 'move')}", err=how.as_json)
    if problems:
        raise click.ClickException(f"{doing}: {of_each(problems, 'move goes on', 'moves go on')}")


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topics)
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(0, INT32_MAX),
    multiple=True,
    metavar="N",
    help="Only this partition of each topic; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="In all topics.")
@click.option(
    "--unclean",
    is_flag=True,
    help="Where nobody leads, let a replica lead that is not in sync. Records that it does not have are lost.",
)
@plan_options
@client_options
def elect(
    names: tuple[str, ...],
    numbers: tuple[int, ...],
    everything: bool,
    unclean: bool,
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Have the preferred replicas of topics lead, which are those named first (KIP-460).

    Partitions that they lead already are left alone, and so are those whose preferred replica is not in sync, which is
    told. The plan is shown first.
    """
    if bool(names) == everything:
        raise click.UsageError("name topics, or give --all")
    if numbers and everything:
        raise click.UsageError("--partition and --all contradict each other: leave one out")
    doing = f"cannot elect leaders of {', '.join(names) or 'all topics'}"

    async def look(cluster: Cluster) -> Overview:
        from ottla.cli._names import check_topics
        from ottla.client.cluster_admin import ClusterAdmin

        await check_topics(cluster, names)
        return await ClusterAdmin(cluster).overview()

    overview = with_cluster(doing, bootstrap, timeout_ms, look)
    chosen = _chosen(overview, names, numbers, doing)
    led, replicas = overview.leaders(), overview.replicas()
    if unclean:
        due = [name for name in chosen if led[name] < 0]
    else:
        due = [name for name in chosen if led[name] != replicas[name][0]]
    if not due:
        click.echo("each has a leader" if unclean else "each is led by its preferred replica")
        return
    rows = [
        (name.topic, name.partition, "none" if led[name] < 0 else led[name], ",".join(map(str, replicas[name])))
        for name in due
    ]
    click.echo(columns(rows, ("topic", "partition", "leader", "replicas")))
    elected = counted(len(due), "leader")
    question = f"Elect {elected}{', and lose what they do not have' if unclean else ''}?"
    would = f"{elected} would be elected{' at a loss' if unclean else ''}"
    if not agreed(question, would, yes=yes, dry_run=dry_run):
        return

    async def work(cluster: Cluster) -> dict[TopicPartition, str]:
        from ottla.client.cluster_admin import ClusterAdmin
        from ottla.errors import ElectionNotNeeded

        admin = ClusterAdmin(cluster)
        if not unclean:
            return await elect_preferred(admin, due)
        return {
            name: f"{problem} ({problem.name})"
            for name, problem in (await admin.elect(due, unclean=True)).items()
            if problem is not None and not isinstance(problem, ElectionNotNeeded)
        }

    problems = with_cluster(doing, bootstrap, timeout_ms, work)
    click.echo(f"elected {counted(len(due) - len(problems), 'leader')}")
    if problems:
        raise click.ClickException(
            f"{doing}: {of_each(problems, 'partition keeps what it has', 'partitions keep what they have')}"
        )


def _chosen(overview: Overview, names: Sequence[str], numbers: Sequence[int], doing: str) -> list[TopicPartition]:
    """The partitions that the user means. Raises click.ClickException for one that is not there."""
    known = overview.replicas()
    for name in names:
        count = sum(each.topic == name for each in known)
        for number in numbers:
            if number >= count:
                raise click.ClickException(f"{doing}: {name} has no partition {number}, but {count} from 0 on")
    return sorted(
        each for each in known if (not names or each.topic in names) and (not numbers or each.partition in numbers)
    )
