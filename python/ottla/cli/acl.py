"""`ottla acl`: access rules, and why somebody may do something or may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ottla.cli._acl_options import (
    OperationName,
    Resources,
    Rights,
    Roles,
    address,
    addresses,
    principal,
    resource_options,
    role_options,
)
from ottla.cli._acl_question import Question
from ottla.cli._ask import agreed, plan_options
from ottla.cli._client import client_options, with_cluster
from ottla.cli._first_start import asks_no_broker, first_start_options, in_tree
from ottla.cli._output import columns, counted, print_json
from ottla.wire.acl_words import in_words, kebab
from ottla.wire.acls import (
    ANY_HOST,
    CLUSTER_NAME,
    RESOURCES,
    Binding,
    EntryFilter,
    Filter,
    PatternFilter,
    PatternType,
    Permission,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.coordination.tree import Tree

COLUMNS = ("resource", "name", "pattern", "principal", "permission", "operation", "host")

allow_option = click.option(
    "--allow", multiple=True, metavar="PRINCIPAL", callback=principal, help="Such as User:alice; User:* is everybody."
)
deny_option = click.option(
    "--deny", multiple=True, metavar="PRINCIPAL", callback=principal, help="The same. What is denied cannot be allowed."
)
operation_option = click.option(
    "--operation",
    "operations",
    multiple=True,
    type=OperationName(),
    metavar="OPERATION",
    help="read, write, describe, ...; all is every one. May be given again.",
)


@click.group()
def command() -> None:
    """List, add and remove access rules (ACLs), and ask why somebody may do something."""


@command.command(name="list")
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="PRINCIPAL",
    callback=principal,
    help="Only rules for this one, such as User:alice.",
)
@resource_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each rule, one a line.")
@client_options
def list_(principals: tuple[str, ...], as_json: bool, bootstrap: str, timeout_ms: int, **resources: Any) -> None:
    """List access rules.

    Given the name of a resource, it lists the rules that hold for it: those of that name, of * and of beginnings of the
    name. With --prefixed the name is a beginning, and only its own rules are listed.
    """
    about = Resources(**resources)
    patterns = about.filters(PatternType.PREFIXED if about.prefixed else PatternType.MATCH)
    filters = [Filter(pattern, EntryFilter(principal=who)) for pattern in patterns for who in (principals or (None,))]
    found = with_cluster("cannot list access rules", bootstrap, timeout_ms, lambda cluster: _found(cluster, filters))
    if as_json:
        for rule in found:
            print_json(_fields(rule))
        return
    click.echo(columns((tuple(_fields(rule).values()) for rule in found), COLUMNS))


async def _found(cluster: Cluster, filters: list[Filter]) -> list[Binding]:
    from ottla.client.acl_admin import AclAdmin

    admin = AclAdmin(cluster)
    found: set[Binding] = set()
    for asked in filters:
        found.update(await admin.rules(asked))
    return sorted(found)


def _fields(rule: Binding) -> dict[str, str]:
    (resource, name, kind), (who, host, operation, permission) = rule
    cells = (
        kebab(resource.name),
        name,
        kebab(kind.name),
        who,
        kebab(permission.name),
        kebab(operation.name),
        host,
    )
    return dict(zip(COLUMNS, cells, strict=True))


@command.command()
@allow_option
@deny_option
@operation_option
@click.option(
    "--host", "hosts", multiple=True, metavar="ADDRESS", callback=addresses, help="Only from this one; else from all."
)
@resource_options
@role_options
@first_start_options
@client_options
def add(
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    operations: tuple[Operation, ...],
    hosts: tuple[str, ...],
    producer: bool,
    consumer: bool,
    idempotent: bool,
    data_dir: str | None,
    zookeeper: str | None,
    bootstrap: str,
    timeout_ms: int,
    **resources: Any,
) -> None:
    """Add access rules.

    Options that are given several times make a rule for each. --topic '*' is a rule for all topics.

    Rules that hold from the first start on are added before it, with --data-dir or --zookeeper.
    """
    has_no_broker = asks_no_broker(data_dir, zookeeper)
    rights = Rights(Resources(**resources), Roles(producer, consumer, idempotent), operations)
    rights.roles.check(rights.resources, operations, deny)
    rules = rights.rules(allow, deny, hosts)
    doing = "cannot add access rules"

    async def work(cluster: Cluster) -> None:
        from ottla.client.acl_admin import AclAdmin

        await AclAdmin(cluster).add(rules)

    async def write(tree: Tree) -> None:
        from ottla.broker.authorization.first_rules import add_rules

        await add_rules(tree, rules)

    if has_no_broker:
        in_tree(doing, data_dir, zookeeper, write)
    else:
        with_cluster(doing, bootstrap, timeout_ms, work)
    for rule in rules:
        click.echo(in_words(rule))


@command.command()
@allow_option
@deny_option
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="PRINCIPAL",
    callback=principal,
    help="Both rules that allow this one something and rules that deny it.",
)
@operation_option
@click.option("--host", "hosts", multiple=True, metavar="ADDRESS", help="Only rules for this one, as they have it.")
@resource_options
@role_options
@plan_options
@client_options
def remove(
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    principals: tuple[str, ...],
    operations: tuple[Operation, ...],
    hosts: tuple[str, ...],
    producer: bool,
    consumer: bool,
    idempotent: bool,
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    timeout_ms: int,
    **resources: Any,
) -> None:
    """Remove the access rules that fit all options.

    Names are those of the rules: --topic ord --prefixed removes the rules for that beginning, and --topic '*' those for
    all topics.
    """
    rights = Rights(Resources(**resources), Roles(producer, consumer, idempotent), operations)
    rights.roles.check(rights.resources, operations, deny)
    if not (allow or deny or principals or operations or hosts or rights.resources.are_given):
        raise click.UsageError("which rules? Give --principal, --allow, --deny, --operation, --host or a resource")
    who: list[tuple[str | None, Permission]] = [
        *((one, Permission.ALLOW) for one in allow),
        *((one, Permission.DENY) for one in deny),
        *((one, Permission.ANY) for one in principals),
    ]
    filters = rights.filters(who, hosts)
    doing = "cannot remove access rules"
    found = with_cluster(doing, bootstrap, timeout_ms, lambda cluster: _found(cluster, filters))
    if not found:
        raise click.ClickException(f"{doing}: there is none of that kind")
    for rule in found:
        click.echo(f"to remove: {in_words(rule)}")
    rules = counted(len(found), "access rule")
    if not agreed(f"Remove {rules}?", f"{rules} would be removed", yes=yes, dry_run=dry_run):
        return

    async def work(cluster: Cluster) -> None:
        from ottla.client.acl_admin import AclAdmin, exactly

        await AclAdmin(cluster).remove(map(exactly, found))

    with_cluster(doing, bootstrap, timeout_ms, work)
    click.echo(f"removed {rules}")


@command.command()
@click.argument("who", metavar="PRINCIPAL", callback=principal)
@click.argument("operation", type=OperationName(), metavar="OPERATION")
@click.argument("resource", type=click.Choice([kebab(each.name) for each in RESOURCES]))
@click.argument("name", required=False)
@click.option("--host", metavar="ADDRESS", callback=address, help="From here. Without it: from where no rule names.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@client_options
def why(
    who: str,
    operation: Operation,
    resource: str,
    name: str | None,
    host: str | None,
    as_json: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Say if PRINCIPAL may do OPERATION, and why.

    For instance: ottla acl why User:alice read topic orders. The rules of the cluster decide it as in a broker. Super
    users, who may do everything, stand in the brokers' files and cannot be seen from here.
    """
    kind = next(each for each in RESOURCES if kebab(each.name) == resource)
    asked = Question(who, operation, kind, _named(kind, name), host or ANY_HOST)
    asked.check()
    holding = Filter(PatternFilter(kind, asked.name, PatternType.MATCH))
    doing = "cannot look at access rules"
    rules = with_cluster(doing, bootstrap, timeout_ms, lambda cluster: _found(cluster, [holding]))
    decision = asked.decide(rules)
    if as_json:
        rule = None if decision.rule is None else _fields(decision.rule)
        print_json({**asked.fields(), "allowed": decision.is_allowed, "rule": rule, "rules": len(rules)})
        return
    click.echo("\n".join(asked.answer(decision, rules)))


def _named(kind: Resource, name: str | None) -> str:
    if kind is Resource.CLUSTER:
        if name not in (None, CLUSTER_NAME):
            raise click.UsageError("there is one cluster: leave its name out")
        return CLUSTER_NAME
    if not name:
        raise click.UsageError(f"which {kebab(kind.name)}? Its name is missing")
    return name
