"""Asking PDPs over the bus: routes by scope, batches, hedged retries, deadlines and a circuit breaker."""

from pep.asking.asker import Asker, asking_terms
from pep.asking.attempts import Terms
from pep.asking.decision_source import Asking, decide_at_least
from pep.asking.encodable import check_encodable
from pep.asking.strategy import RETRY_SECONDS, Strategy

__all__ = [
    "RETRY_SECONDS", "Asker", "Asking", "Strategy", "Terms", "asking_terms", "check_encodable",
    "decide_at_least",
]  # fmt: skip
