"""Names become subject tokens and back; whoever serves a scope hears exactly what lies in it."""

from __future__ import annotations

import asyncio
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.request import MAX_BYTES
from bus import Connection
from bus.errors import InvalidScope
from bus.wire.scopes import MAX_DOMAIN_BYTES, Kind, Scope
from bus.wire.subjects import (
    MAX_SUBJECT,
    Mode,
    interest,
    is_inbox,
    is_mailbox,
    mailbox,
    path_tokens,
    question,
    token,
    untoken,
)
from tests.bus.scopes import scopes

names = st.text(st.characters(exclude_categories=[]))


def matches(pattern: str, subject: str) -> bool:
    """What NATS's wildcards mean: `*` is any one token, a last `>` is one or more."""
    wanted, given = pattern.split("."), subject.split(".")
    for place, word in enumerate(wanted):
        if word == ">":
            return len(given) > place
        if place >= len(given) or word not in ("*", given[place]):
            return False
    return len(wanted) == len(given)


@given(names)
def test_any_name_becomes_one_plain_token_and_back(name):
    written = token(name)
    assert re.fullmatch(r"[A-Za-z0-9_=-]+", written)
    assert untoken(written) == name


@given(names, names)
def test_different_names_have_different_tokens(one, other):
    assert (token(one) == token(other)) == (one == other)


@given(st.lists(names.map(lambda name: name.replace("/", "")), min_size=1))
def test_a_path_has_one_token_for_each_segment(segments):
    assert [untoken(each) for each in path_tokens("/".join(segments)).split(".")] == segments


def test_a_path_with_spaces_is_carried_exactly():
    written = path_tokens("/sales/budget/New York")
    assert written == "=.sales.budget.New=20York"
    assert "/".join(map(untoken, written.split("."))) == "/sales/budget/New York"


@pytest.mark.parametrize("name", ["*", ">", "a.b", "", "=many", "\x00", "\r\n", "a b", "é", "=", "=41"])
def test_what_has_a_meaning_for_nats_is_escaped(name):
    assert not set(token(name)) & set("*>. \r\n\x00")
    assert untoken(token(name)) == name


@given(scopes, scopes)
def test_whoever_serves_a_scope_hears_exactly_what_lies_in_it(served, asked):
    for mode in Mode:
        assert matches(interest(mode, served), question(mode, asked)) == served.contains(asked)


@given(scopes, scopes)
def test_a_question_for_any_is_not_heard_by_those_who_wait_for_all(served, asked):
    assert not matches(interest(Mode.ALL, served), question(Mode.ANY, asked))
    assert not matches(interest(Mode.ANY, served), question(Mode.ALL, asked))


@settings(max_examples=12, deadline=None)
@given(st.lists(scopes, min_size=1, max_size=12, unique=True))
def test_the_server_delivers_as_scopes_contain_each_other(server, asked):
    async def deliver() -> set[tuple[Scope, Scope]]:
        heard: set[tuple[Scope, Scope]] = set()
        by_subject = {question(Mode.ALL, scope): scope for scope in asked}
        async with Connection(server.url) as bus:
            for served in asked:
                await bus.listen(
                    interest(Mode.ALL, served),
                    lambda subject, *rest, served=served: heard.add((served, by_subject[subject])),
                )
            for subject in by_subject:
                bus.send(subject, b"")
            await bus.flush()
        return heard

    pairs = itertools.product(asked, asked)
    assert asyncio.run(deliver()) == {(served, scope) for served, scope in pairs if served.contains(scope)}


@pytest.mark.parametrize("kind", list(Kind))
def test_the_longest_names_fit_a_subject_that_the_server_takes(server, kind):
    """In the worst case every byte needs three."""
    scope = Scope(
        kind,
        "" if kind is Kind.BROADCAST else "\x01" * MAX_DOMAIN_BYTES,
        "\x01" * MAX_BYTES["object"] if kind >= Kind.PREFIX else "",
        "\x01" * MAX_BYTES["subject"] if kind is Kind.TUPLE else "",
        "\x01" * MAX_BYTES["action"] if kind is Kind.TUPLE else "",
    )

    async def send() -> bytes:
        async with Connection(server.url) as bus:
            await bus.listen(interest(Mode.ANY, scope), lambda s, reply, data, h: bus.send(reply, data))
            await bus.flush()
            return await bus.ask(question(Mode.ANY, scope), b"heard", 10.0)

    assert len(question(Mode.ANY, scope)) <= MAX_SUBJECT
    assert asyncio.run(send()) == b"heard"


@pytest.mark.parametrize("kind", [Kind.DOMAIN, Kind.PREFIX, Kind.OBJECT, Kind.TUPLE])
@pytest.mark.parametrize("build", [question, interest])
def test_a_subject_that_would_cost_the_connection_is_refused(kind, build):
    with pytest.raises(InvalidScope, match="is too long: its names need more than 4000 bytes"):
        build(Mode.ANY, Scope(kind, "d" * 4000, "o" * 4000, "s", "a"))


def test_brokers_send_to_mailboxes_of_their_own_domain_only():
    assert is_mailbox(mailbox("uk.met", "ABC", "1f"), "uk.met")
    others = (
        mailbox("ccs", "A", "1"),
        "_INBOX.x.1",
        mailbox("uk.met", "A", "1.2"),
        mailbox("uk.met", "*", "1"),
        "",
    )
    assert not any(is_mailbox(each, "uk.met") for each in others)


def test_an_answer_goes_to_an_inbox_only():
    assert is_inbox("_INBOX.abc.1")
    assert not is_inbox("_INBOX_0f.1")  # there servers answer
    for subject in ("", "$KV.policies.x", "$JS.API.STREAM.DELETE.x", "af.ask.any.x", "x._INBOX.1", "_INBOXX"):
        assert not is_inbox(subject), subject
