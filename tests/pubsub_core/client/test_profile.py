"""Client profiles: one file that names its client, and is for nobody else's eyes."""

from __future__ import annotations

import base64
from time import time

import pytest

from authz import Identity
from pubsub_core.client.profile import (
    PROFILE_VARIABLE,
    ProfileFile,
    ProfileRefused,
    profile_path,
    read_profile,
    write_profile,
)
from pubsub_core.trust.credential import Credential, issue


def write(name: str, **changes: object) -> Identity:
    key, domain = Identity.generate(), Identity.generate()
    given = issue(Credential(str(key.public), name, "default", time() + 100), domain)
    fields = {"credential": base64.b64encode(given).decode(), "key": key.to_pem().decode(), **changes}
    write_profile(profile_path(name), ProfileFile(name=name, brokers=("east",), **fields))
    return key


def test_a_profile_is_found_by_name_by_path_by_the_environment_or_as_the_only_one(monkeypatch):
    ann = write("ann")
    assert read_profile().identity.public == ann.public
    bob = write("bob")
    with pytest.raises(ProfileRefused, match=r"no profile is named: .* the profiles here are `ann`, `bob`"):
        read_profile()
    assert read_profile("bob").identity.public == bob.public
    assert read_profile(profile_path("ann")).identity.public == ann.public
    monkeypatch.setenv(PROFILE_VARIABLE, "bob")
    assert read_profile().identity.public == bob.public
    with pytest.raises(ProfileRefused, match="`eve` is not there"):
        read_profile("eve")


def test_a_profile_that_others_can_read_is_refused():
    write("ann")
    profile_path("ann").chmod(0o644)
    with pytest.raises(ProfileRefused, match="is open to others"):
        read_profile("ann")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"credential": ""}, "has an empty `credential`: have its domain issue one"),
        ({"credential": "?"}, "`credential` must be base64 text"),
        ({"key": "no key"}, "cannot be used"),
    ],
)
def test_what_is_wrong_with_a_profile_is_named(changes, said):
    write("ann", **changes)
    with pytest.raises(ProfileRefused, match=said):
        read_profile("ann")
