"""A PDP replica on the bus: following releases, deciding, explaining, searching, signing, shadowing."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from pdp.replica.answer_authority import AnswerAuthority
    from pdp.replica.explain_service import serve_explanations
    from pdp.replica.health_server import serve_health
    from pdp.replica.metrics import PolicyMetrics, ProviderMetrics, ShadowMetrics, SignerMetrics
    from pdp.replica.policy_follower import Answering, Follower, Following, PolicyFollower
    from pdp.replica.policy_point import PolicyPoint
    from pdp.replica.progress import saying_so
    from pdp.replica.publisher_service import NoSuchRelease, Published, Publisher
    from pdp.replica.restorer_service import Plan, Restorer, Side, plan
    from pdp.replica.scope_service import serve_scopes
    from pdp.replica.search_service import serve_search
    from pdp.replica.service import Replica
    from pdp.replica.shadow_service import Shadow, alarm_on
    from pdp.replica.signing_service import DecisionSigner

__all__ = [
    "AnswerAuthority", "Answering", "DecisionSigner", "Follower", "Following", "NoSuchRelease", "Plan",
    "PolicyFollower", "PolicyMetrics", "PolicyPoint", "ProviderMetrics", "Published", "Publisher", "Replica",
    "Restorer", "Shadow", "ShadowMetrics", "Side", "SignerMetrics", "alarm_on", "plan", "saying_so",
    "serve_explanations", "serve_health", "serve_scopes", "serve_search",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".policy_follower": "Answering Follower Following PolicyFollower",
        ".publisher_service": "NoSuchRelease Published Publisher",
        ".restorer_service": "Plan Restorer Side plan",
        ".metrics": "PolicyMetrics ProviderMetrics ShadowMetrics SignerMetrics",
        ".policy_point": "PolicyPoint",
        ".service": "Replica",
        ".shadow_service": "Shadow alarm_on",
        ".signing_service": "DecisionSigner",
        ".answer_authority": "AnswerAuthority",
        ".progress": "saying_so",
        ".explain_service": "serve_explanations",
        ".health_server": "serve_health",
        ".scope_service": "serve_scopes",
        ".search_service": "serve_search",
    },
)
