"""The secondary decision point: all ways to answer without a PDP, and what it learns from others."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from sdp_cache.point.cache_sizes import Recycling
    from sdp_cache.point.feed_service import FeedFollower, Following
    from sdp_cache.point.learning import Learner
    from sdp_cache.point.learning_service import Learning
    from sdp_cache.point.recycler import Recycler
    from sdp_cache.point.secondary_point import SecondaryPoint

__all__ = ["FeedFollower", "Following", "Learner", "Learning", "Recycler", "Recycling", "SecondaryPoint"]

__getattr__ = lazily(
    __name__,
    {
        ".cache_sizes": "Recycling",
        ".feed_service": "FeedFollower Following",
        ".learning": "Learner",
        ".learning_service": "Learning",
        ".recycler": "Recycler",
        ".secondary_point": "SecondaryPoint",
    },
)
