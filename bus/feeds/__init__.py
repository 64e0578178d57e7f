"""What is pushed to everyone: releases, revocations, and which member has applied what."""

from bus.feeds.held_releases_service import HeldRelease, Offer, fetch_content, offering
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
    "RevocationFeed", "Standing", "StoreBehind", "Survey", "fetch_content", "offering", "publish_notice", "survey",
    "version",
]  # fmt: skip
