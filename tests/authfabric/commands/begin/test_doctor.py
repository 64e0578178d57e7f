"""The doctor says how long certificates last, and what to do before they end."""

from __future__ import annotations

from time import time

from authfabric.commands.begin.doctor import RENEWED_DAYS, SOON_DAYS, _ends

DAY = 86_400.0


def test_a_certificate_that_ends_soon_or_has_ended_is_named_with_the_way_to_renew_it():
    well = _ends("server certificate", time() + 60 * DAY + 9, SOON_DAYS, "renew it")
    assert (well.well, well.found, well.do) == (True, "ends in 60 days", "")
    soon = _ends("server certificate", time() + 20 * DAY + 9, SOON_DAYS, "renew it")
    assert (soon.well, soon.found, soon.do) == (False, "ends in 20 days", "renew it")
    over = _ends("server certificate", time() - DAY, SOON_DAYS, "renew it")
    assert (over.well, over.found) == (False, "has ended")


def test_credentials_that_are_renewed_by_themselves_may_be_short():
    assert _ends("credentials", time() + 20 * DAY, RENEWED_DAYS, "").well
    assert not _ends("credentials", time() + DAY, RENEWED_DAYS, "").well
