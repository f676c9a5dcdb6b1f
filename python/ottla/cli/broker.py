"""`ottla broker`: the brokers of a cluster, and what they are relieved of or get back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from ottla.cli._client import client_options, with_cluster
from ottla.cli._moves import Change, How, measured, moving_options, settle
from ottla.cli._output import columns, print_json, sized
from ottla.cli._settings import INT32_MAX, at_most_one

if TYPE_CHECKING:
    from ottla.client.admin import Setting
    from ottla.client.cluster import Cluster
    from ottla.client.cluster_admin import LogDirectory, Overview

Facts = dict[str, object]

#: DescribeConfigs' numbers for where a value comes from.
SOURCES = {2: "set while it runs", 3: "set for all while they run", 4: "its file or command line"}


@click.group()
def command() -> None:
    """See brokers, relieve them of leadership or replicas, and balance them."""


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, one a line.")
@client_options
def list_(as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """List the brokers that are there, and those that are not but have replicas."""

    async def work(cluster: Cluster) -> list[Facts]:
        from ottla.client.cluster_admin import ClusterAdmin

        admin = ClusterAdmin(cluster)
        overview = await admin.overview()
        sizes = await admin.sizes_of_all(overview.brokers)
        return [_facts(overview, broker, sizes.get(broker)) for broker in overview.known()]

    found = with_cluster("cannot list brokers", bootstrap, timeout_ms, work)
    if as_json:
        for facts in found:
            print_json(facts)
        return
    rows = [
        (
            facts["id"],
            facts["address"] or "not there",
            facts["rack"] or "-",
            "yes" if facts["controller"] else "",
            facts["leaders"],
            facts["replicas"],
            "?" if facts["size_bytes"] is None else sized(int(str(facts["size_bytes"]))),
        )
        for facts in found
    ]
    click.echo(columns(rows, ("broker", "address", "rack", "controller", "leaders", "replicas", "size")))


def _facts(overview: Overview, broker_id: int, size_bytes: int | None) -> Facts:
    known = overview.brokers.get(broker_id)
    replicas = overview.replicas()
    return {
        "id": broker_id,
        "address": known.address if known else None,
        "rack": known.rack if known else None,
        "controller": broker_id == overview.controller,
        "leaders": Counter(overview.leaders().values())[broker_id],
        "preferred": sum(each[:1] == (broker_id,) for each in replicas.values()),
        "replicas": sum(broker_id in each for each in replicas.values()),
        "size_bytes": size_bytes,
    }


@command.command()
@click.argument("broker_ids", type=click.IntRange(0, INT32_MAX), nargs=-1, metavar="[ID]...")
@click.option("--all-settings", is_flag=True, help="Also settings that have their defaults.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, one a line.")
@client_options
def describe(broker_ids: tuple[int, ...], all_settings: bool, as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """Show brokers in full: what they lead and have, their log directories, and the settings that were set; without an
    ID, all that are there.
    """

    async def work(cluster: Cluster) -> list[tuple[Facts, list[LogDirectory], list[Setting]]]:
        from ottla.client.admin import Admin
        from ottla.client.cluster_admin import ClusterAdmin
        from ottla.kafka import BROKER_RESOURCE

        admin = ClusterAdmin(cluster)
        overview = await admin.overview()
        _check_there(overview, broker_ids)
        found = []
        for broker in broker_ids or overview.brokers:
            directories = await admin.log_directories(broker)
            settings = await Admin(cluster).describe_settings(str(broker), resource=BROKER_RESOURCE)
            size = sum(sum(each.sizes.values()) for each in directories)
            found.append((_facts(overview, broker, size), directories, settings))
        return found

    doing = f"cannot describe {_named(broker_ids)}" if broker_ids else "cannot describe the brokers"
    for facts, directories, settings in with_cluster(doing, bootstrap, timeout_ms, work):
        shown = [each for each in settings if all_settings or each.source in SOURCES]
        if as_json:
            print_json(_description(facts, directories, shown))
        else:
            click.echo(_description_text(facts, directories, shown))


def _check_there(overview: Overview, broker_ids: Collection[int]) -> None:
    """Raises click.ClickException for the first that is not there."""
    for broker in broker_ids:
        if broker not in overview.brokers:
            what = "is not there" if broker in overview.known() else "does not exist"
            there = ", ".join(map(str, overview.brokers))
            raise click.ClickException(f"broker {broker} {what}; known are {there}")


def _named(broker_ids: Collection[int]) -> str:
    word = "broker" if len(broker_ids) == 1 else "brokers"
    return f"{word} {', '.join(map(str, broker_ids))}"


def _value(setting: Setting) -> str | None:
    return "(hidden)" if setting.sensitive else setting.value


def _description(facts: Facts, directories: list[LogDirectory], settings: list[Setting]) -> Facts:
    return {
        **facts,
        "log_directories": [
            {
                "path": each.path,
                "problem": each.problem.name if each.problem else None,
                "replicas": len(each.sizes),
                "size_bytes": sum(each.sizes.values()),
            }
            for each in directories
        ],
        "settings": {each.name: _value(each) for each in settings},
    }


def _description_text(facts: Facts, directories: list[LogDirectory], settings: list[Setting]) -> str:
    rack = f", rack {facts['rack']}" if facts["rack"] is not None else ""
    controller = ", the controller" if facts["controller"] else ""
    lines = [
        f"broker {facts['id']} at {facts['address']}{rack}{controller}",
        f"  leads {facts['leaders']} of {facts['replicas']} replicas, and is preferred for {facts['preferred']}",
    ]
    for each in directories:
        state = f", FAILED ({each.problem.name})" if each.problem else ""
        lines.append(f"  {each.path}: {len(each.sizes)} replicas, {sized(sum(each.sizes.values()))}{state}")
    lines += [
        f"  {each.name}={_value(each)}" + (f"  ({SOURCES[each.source]})" if each.source in SOURCES else "")
        for each in sorted(settings, key=lambda each: each.name)
    ]
    return "\n".join(lines)


@command.command()
@click.argument("broker_ids", type=click.IntRange(0, INT32_MAX), nargs=-1, required=True, metavar="ID...")
@click.option("--replicas", "all_replicas", is_flag=True, help="Also have all its replicas copied to other brokers.")
@moving_options
@client_options
def drain(
    broker_ids: tuple[int, ...],
    all_replicas: bool,
    throttle: int | None,
    wait: bool,
    dry_run: bool,
    yes: bool,
    undo: str | None,
    as_json: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Have other brokers lead what these lead, and be preferred for it, so that leadership does not come back.

    The replicas stay, in another order; elections make the new first ones leaders. With --replicas nothing stays: each
    replica is copied to the broker that has the fewest, in another rack than the partition's others where that can be,
    and then the broker may be taken away for good. New topics may be placed on a drained broker: stop it, or drain it
    again. The plan is shown first; --undo keeps the way back.
    """
    how = How(throttle, wait, dry_run, yes, undo, as_json)
    doing = f"cannot drain {_named(broker_ids)}"

    async def work(cluster: Cluster) -> Change:
        from ottla.client.cluster_admin import ClusterAdmin
        from ottla.client.placement import without_leaders, without_replicas

        admin = ClusterAdmin(cluster)
        overview = await admin.overview_after_moves()
        known = overview.known()
        if missing := sorted(set(broker_ids) - set(known)):
            raise click.ClickException(f"{doing}: broker {missing[0]} does not exist; known are {_listed(known)}")
        if not overview.brokers.keys() - set(broker_ids):
            raise click.ClickException(f"{doing}: no other broker would be there")
        before, in_sync, led = overview.replicas(), overview.in_sync(), overview.leaders()
        if all_replicas:
            racks = {broker.id: broker.rack for broker in overview.brokers.values()}
            plan = without_replicas(before, racks, broker_ids)
        else:
            plan = without_leaders(before, led, in_sync, broker_ids)
        after = {**before, **plan.targets}
        elect = [
            name
            for name, leader in led.items()
            if name not in plan.stuck and leader != after[name][0] and (leader in broker_ids or name in plan.targets)
        ]
        return await measured(admin, overview, Change(before, plan.targets, plan.stuck, elect))

    settle(with_cluster(doing, bootstrap, timeout_ms, work), how, doing, bootstrap, timeout_ms)


def _listed(broker_ids: Collection[int]) -> str:
    return ", ".join(map(str, broker_ids))


@command.command()
@click.option(
    "--leaders", "even_leaders", is_flag=True, help="Also make even who is preferred, by another order of replicas."
)
@click.option(
    "--replicas", "even_replicas", is_flag=True, help="Also make even how many replicas brokers have: copies."
)
@moving_options
@client_options
def balance(
    even_leaders: bool,
    even_replicas: bool,
    throttle: int | None,
    wait: bool,
    dry_run: bool,
    yes: bool,
    undo: str | None,
    as_json: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Give leadership back to the preferred replicas, for instance after brokers were restarted.

    Where placement itself is uneven that is not enough. With --leaders the order of replicas is changed until brokers
    are preferred for equally many partitions, which copies nothing. With --replicas the fewest replicas that will do
    are copied from brokers that have many to those that have few, for instance to one that is new; partitions are in as
    many racks as before, and then leaders are made even. Counted are partitions, not bytes. The plan is shown first.
    """
    at_most_one({"--leaders": even_leaders, "--replicas": even_replicas})
    how = How(throttle, wait, dry_run, yes, undo, as_json)
    doing = "cannot balance the brokers"

    async def work(cluster: Cluster) -> Change:
        from ottla.client.cluster_admin import ClusterAdmin
        from ottla.client.placement import balanced, with_even_leaders

        admin = ClusterAdmin(cluster)
        overview = await admin.overview_after_moves()
        before, in_sync, led = overview.replicas(), overview.in_sync(), overview.leaders()
        racks = {broker.id: broker.rack for broker in overview.brokers.values()}
        targets = {}
        if even_replicas:
            targets = balanced(before, racks)
        elif even_leaders:
            targets = with_even_leaders(before, racks, in_sync)
        elect = []
        for name, replicas in {**before, **targets}.items():
            # Who is copied is in sync in the end.
            is_able = replicas and (replicas[0] in in_sync[name] or replicas[0] not in before[name])
            if is_able and led[name] != replicas[0] and replicas[0] in racks:
                elect.append(name)
        return await measured(admin, overview, Change(before, targets, elect=sorted(elect)))

    settle(with_cluster(doing, bootstrap, timeout_ms, work), how, doing, bootstrap, timeout_ms)
