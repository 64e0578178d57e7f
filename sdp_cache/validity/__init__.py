"""How long cached answers hold: leases on the newest policies, and the changes since an answer was given."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from sdp_cache.validity.cache_lease import Lease, LeaseRules, Standing, Step
    from sdp_cache.validity.change_log import ChangeLog, Pin

__all__ = ["ChangeLog", "Lease", "LeaseRules", "Pin", "Standing", "Step"]

__getattr__ = lazily(
    __name__,
    {
        ".cache_lease": "Lease LeaseRules Standing Step",
        ".change_log": "ChangeLog Pin",
    },
)
