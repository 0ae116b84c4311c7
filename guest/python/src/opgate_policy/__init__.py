"""Write admission policies for opgate: rules, and the functions that judge them.

    from opgate_policy import CREATE, DENY, UPDATE, Policy, Report, Review, Rule, Target

    POD = Target(versions=["v1"], resources=["pods"], kind="Pod")

    POD_1 = Rule(
        "POD-1",
        '''
        a Pod has a priority class

        # Remediation

        Set `spec.priorityClassName`.
        ''',
        level=DENY,
        on={POD: [CREATE, UPDATE]},
        source="house rules",
    )

    POLICY = Policy(name="pods", version="1.0.0", title="Pods are as the house wants them", rules=[POD_1])

    @POLICY.judge(POD)
    def judge(review: Review, report: Report) -> None:
        if not review.object.text("/spec/priorityClassName"):
            report.add(POD_1, "spec.priorityClassName", "set a priority class")

`python -m opgate_policy build` makes a component of such a module. The functions are plain Python: `opgate_policy.testing`
calls them with plain dicts, without a host.

    declare ─▶ describe (descriptor) ─┐
    document, cluster ─▶ review ──────┼─▶ policy ─┬─▶ component (in WebAssembly)
                         report ──────┘           └─▶ testing (native)

Everything is evaluated when the module is imported, which happens once, while the component is made: the component holds the
memory of Python after the import. Each call gets a copy of it.
"""

from . import log
from .cluster import Absent, Invalid, Match, ReadError, Sample, Unavailable, sample
from .declare import (
    CONNECT,
    CREATE,
    DELETE,
    DENY,
    UPDATE,
    WARN,
    ClusterRead,
    Index,
    Level,
    Names,
    Operation,
    Rule,
    Setting,
    Target,
)
from .document import Document, Kind, escape
from .policy import Policy
from .report import Report
from .review import Request, Review

__version__ = "0.6.0"

__all__ = [
    "CONNECT", "CREATE", "DELETE", "DENY", "UPDATE", "WARN",
    "Absent", "ClusterRead", "Document", "Index", "Invalid", "Kind", "Level", "Match", "Names", "Operation", "Policy",
    "ReadError", "Report", "Request", "Review", "Rule", "Sample", "Setting", "Target", "Unavailable",
    "escape", "log", "sample",
]
