"""A PDP replica on the bus: following releases, deciding, explaining, searching, signing, shadowing."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from pdp.replica.answer_authority import AnswerAuthority
    from pdp.replica.health_server import ReplicaMetrics, ReplicaVitals, serve_health
    from pdp.replica.metrics import PolicyMetrics, ProviderMetrics, ShadowMetrics, SignerMetrics
    from pdp.replica.policy_follower import Answering, Follower, Following, PolicyFollower
    from pdp.replica.policy_point import PolicyPoint
    from pdp.replica.query_services import serve_explanations, serve_scopes, serve_search
    from pdp.replica.service import Replica
    from pdp.replica.shadow_service import Shadow, alarm_on
    from pdp.replica.signing_service import DecisionSigner

__all__ = [
    "AnswerAuthority", "Answering", "DecisionSigner", "Follower", "Following", "PolicyFollower",
    "PolicyMetrics", "PolicyPoint", "ProviderMetrics", "Replica", "ReplicaMetrics", "ReplicaVitals", "Shadow",
    "ShadowMetrics", "SignerMetrics", "alarm_on", "serve_explanations", "serve_health", "serve_scopes",
    "serve_search",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".answer_authority": "AnswerAuthority",
        ".health_server": "ReplicaMetrics ReplicaVitals serve_health",
        ".metrics": "PolicyMetrics ProviderMetrics ShadowMetrics SignerMetrics",
        ".policy_follower": "Answering Follower Following PolicyFollower",
        ".policy_point": "PolicyPoint",
        ".query_services": "serve_explanations serve_scopes serve_search",
        ".service": "Replica",
        ".shadow_service": "Shadow alarm_on",
        ".signing_service": "DecisionSigner",
    },
)
