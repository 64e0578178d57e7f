"""What is pushed to everyone: releases, revocations, and which member has applied what."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from bus.feeds.held_releases_service import HeldRelease, Offer, ask_held, fetch_content, offering
    from bus.feeds.member_table import SILENT_SECONDS, Heard, MemberTable, Standing
    from bus.feeds.member_tracker_service import MemberPoll, MemberTracker
    from bus.feeds.release_feed import Entry, Feed
    from bus.feeds.release_follower import LOOK_SECONDS, Member, ReleaseFollower, version
    from bus.feeds.release_lease import DEFAULT_LEASE
    from bus.feeds.release_survey_service import StoreBehind, Survey, survey
    from bus.feeds.revocations import RETRY_SECONDS, RevocationFeed, publish_notice
    from bus.feeds.status_reporter import REPEAT_SECONDS

__all__ = [
    "DEFAULT_LEASE", "LOOK_SECONDS", "REPEAT_SECONDS", "RETRY_SECONDS", "SILENT_SECONDS", "Entry", "Feed", "Heard",
    "HeldRelease", "Member", "MemberPoll", "MemberTable", "MemberTracker", "Offer", "ReleaseFollower",
    "RevocationFeed", "Standing", "StoreBehind", "Survey", "ask_held", "fetch_content", "offering", "publish_notice",
    "survey", "version",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".held_releases_service": "HeldRelease Offer ask_held fetch_content offering",
        ".member_table": "SILENT_SECONDS Heard MemberTable Standing",
        ".member_tracker_service": "MemberPoll MemberTracker",
        ".release_feed": "Entry Feed",
        ".release_follower": "LOOK_SECONDS Member ReleaseFollower version",
        ".release_lease": "DEFAULT_LEASE",
        ".release_survey_service": "StoreBehind Survey survey",
        ".revocations": "RETRY_SECONDS RevocationFeed publish_notice",
        ".status_reporter": "REPEAT_SECONDS",
    },
)
