"""What the committer counts for the metrics."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class CommitterMetrics:
    """Counters for the metrics.

    append_sizes -- calls of `icecore.append` by their number of commands.
    append_seconds -- total time of these calls as measured by the process; waited_seconds -- the part before they had the append lock.
    """

    append_sizes: Counter[int] = field(default_factory=Counter)
    append_seconds: float = 0.0
    waited_seconds: float = 0.0
    responses_lost: int = 0
