"""Access rules: an authorizer that has none decides everything by one setting."""

from __future__ import annotations

from typing import Final

from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report
from ottla.errors import SecurityDisabled, counted
from ottla.wire.k29_describe_acls import DESCRIBE_ACLS, DescribeAclsRequest

CHECK: Final = "access rules"
_ANY: Final = 1


async def check_rules(report: Report, cluster: Cluster) -> None:
    """Without an authorizer, or one that says nothing to this client, there is no line. Raises OSError."""
    every = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    try:
        answer = await cluster.ask_any(DESCRIBE_ACLS, every)
    except Refused:
        return  # a broker of before access rules
    if answer.error_code == SecurityDisabled.code:
        return
    if answer.error_code:
        report.skipped(CHECK, f"not looked at: {named(answer.error_code)}", "use a user who may DESCRIBE the cluster")
    elif not answer.resources:
        report.warning(
            CHECK,
            "there is an authorizer, and no rule: nobody but super users may do anything, or everybody everything with "
            "allow.everyone.if.no.acl.found=true",
            "make the rules that are needed",
        )
    else:
        report.ok(CHECK, counted(len(answer.resources), "pattern has rules", "patterns have rules"))
