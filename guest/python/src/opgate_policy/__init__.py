"""Write admission policies for opgate: rules, and functions that evaluate requests.

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
        sources=["house rules"],
    )

    POLICY = Policy(name="pods", version="1.0.0", title="Pods meet the house rules", rules=[POD_1])

    @POLICY.evaluate(POD)
    def evaluate(review: Review, report: Report) -> None:
        if not review.object.text("/spec/priorityClassName"):
            report.add(POD_1, "spec.priorityClassName", "set a priority class")

`python -m opgate_policy build` builds a component from such a module. The functions are plain Python: `opgate_policy.testing`
calls them with plain dicts, without a host.

    values ─▶ document ─▶ cluster ─▶ declare ─▶ describe (descriptor) ─┐
                                     review, report ───────────────────┴─▶ policy ─┬─▶ component (in WebAssembly)
                                                                                   └─▶ testing (native)

The module is imported once, when the component is built: the component holds the memory of Python after the import. Each call gets a copy of it.
"""

from . import log, pods
from .cluster import (
    ClusterRead,
    Index,
    IndexMatch,
    Invalid,
    NoCluster,
    ReadError,
    Sample,
    Setting,
    Unavailable,
    sample,
)
from .declare import (
    CONNECT,
    CREATE,
    DELETE,
    DENY,
    UPDATE,
    WARN,
    Level,
    NamePatterns,
    Operation,
    Rule,
    Target,
)
from .document import Document
from .fix import Fix
from .policy import Policy
from .report import Report
from .review import Request, Review
from .selector import Selector, SelectorError
from .shape import Shape
from .values import Kind, escape

__version__ = "0.7.0"

__all__ = [
    "CONNECT", "CREATE", "DELETE", "DENY", "UPDATE", "WARN",
    "ClusterRead", "Document", "Fix", "Index", "IndexMatch", "Invalid", "Kind", "Level", "NamePatterns", "NoCluster", "Operation", "Policy",
    "ReadError", "Report", "Request", "Review", "Rule", "Sample", "Selector", "SelectorError",
    "Setting", "Shape", "Target", "Unavailable",
    "escape", "log", "pods", "sample",
]
