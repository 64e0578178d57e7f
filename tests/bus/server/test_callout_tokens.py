"""What servers ask about connections, and what they are told: never an empty list of permissions."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Identity
from bus.errors import BadMessage
from bus.server.callout_tokens import Admission, Arrival, account_key, admit, read_arrival, refuse
from bus.server.subject_permissions import Permissions

ISSUER = Identity.generate()
ARRIVAL = Arrival("N1", 7, "U1", "UKEY", "sig", "nonce", "token")


def claims(token: bytes | str) -> dict:
    data = token.encode() if isinstance(token, str) else token
    header, body, signature = data.split(b".")
    ISSUER.public.verify(_decode(signature), header + b"." + body)
    return json.loads(_decode(body))


def _decode(data: bytes) -> bytes:
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))


def permissions_of(permissions: Permissions) -> dict:
    answer = claims(admit(ARRIVAL, Admission("x", permissions, 99.5), ISSUER, "APP", 1.0))
    assert (answer["aud"], answer["sub"]) == ("N1", "U1")
    user = claims(answer["nats"]["jwt"])
    assert (user["aud"], user["sub"], user["exp"], user["iss"]) == (
        "APP",
        "U1",
        99,
        account_key(ISSUER.public),
    )
    return user["nats"]


def test_nothing_granted_is_everything_denied():
    told = permissions_of(Permissions())
    assert told["pub"] == told["sub"] == {"deny": [">"]}
    assert "resp" not in told


def test_what_is_granted_is_told_as_it_is():
    told = permissions_of(Permissions(frozenset({"a"}), frozenset({"b"})))
    assert (told["pub"]["allow"], told["sub"]["allow"]) == (["a"], ["b"])
    assert "resp" not in told  # whoever asks says where to answer, and nothing checks it


def test_a_refusal_tells_no_reason():
    assert claims(refuse(ARRIVAL, ISSUER, 1.0))["nats"]["error"] == "not admitted"


def test_an_account_key_begins_with_a():
    assert account_key(ISSUER.public)[0] == "A"


@given(st.binary(max_size=100))
def test_junk_is_no_arrival(junk):
    with pytest.raises(BadMessage):
        read_arrival(junk)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_claims_of_another_form_are_no_arrival(value):
    body = base64.urlsafe_b64encode(json.dumps({"nats": value}).encode())
    with pytest.raises(BadMessage):
        read_arrival(b"x." + body + b".y")
