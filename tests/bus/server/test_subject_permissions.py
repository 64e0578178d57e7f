"""A capability becomes exactly the subjects its holder may use."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authz import Identity
from authz.spki import Capability, parse_authority
from bus.server.subject_permissions import Carried, Permissions, overlap, permissions, subset
from bus.stores import consumer_names
from bus.wire import subjects
from bus.wire.scopes import Scope
from bus.wire.subjects import Mode, interest, question

HOLDER = Identity.generate().public
OWN, OTHER = subjects.place(HOLDER), subjects.place(Identity.generate().public)
CONNECT = "network: shop\naction: connect"


def of(*texts: str, domains=(), delegate=False, carried=Carried()) -> Permissions:  # noqa: B008
    capability = Capability(HOLDER, HOLDER, delegate, parse_authority("\n".join(texts)))
    return permissions(capability, capability.authority.grants, domains, carried)


def matches(pattern: str, name: str) -> bool:
    return subset(name, pattern)


def may_publish(held: Permissions, name: str) -> bool:
    return any(matches(each, name) for each in held.publish) and not any(
        matches(each, name) for each in held.publish_denied
    )


def may_hear(held: Permissions, name: str) -> bool:
    return any(matches(each, name) for each in held.subscribe) and not any(
        matches(each, name) for each in held.subscribe_denied
    )


def asked(thing: str, domain: str = "shop") -> str:
    return question(Mode.ANY, Scope.parse(f"tuple:alice,{thing},read", domain))


ANSWER = f"{subjects.answers(subjects.place(Identity.generate().public))}.1.2"


class TestAsking:
    def test_it_may_ask_in_its_network_and_in_no_other(self):
        held = of(CONNECT)
        assert may_publish(held, asked("/a"))
        assert not may_publish(held, asked("/a", "bank"))

    def test_it_may_hear_no_questions(self):
        assert not may_hear(of(CONNECT), asked("/a"))

    def test_it_may_answer_nobody(self):
        assert not may_publish(of(CONNECT), ANSWER)

    def test_it_hears_its_own_inbox_and_no_other(self):
        held = of(CONNECT)
        other = subjects.inbox(Identity.generate().public)
        for own in (subjects.inbox(HOLDER), subjects.answers(subjects.place(HOLDER))):
            assert may_hear(held, f"{own}.1.2")
        for word in (f"{other}.1.2", ANSWER):
            assert not may_hear(held, word)
            assert not may_publish(held, word)

    def test_it_may_bring_no_policies_into_force(self):
        assert not may_publish(of(CONNECT), subjects.written(subjects.RELEASES, "shop"))
        assert not may_publish(of(CONNECT), "$JS.API.STREAM.DELETE.KV_authfabric-releases")
        assert not may_publish(of(CONNECT), "$JS.API.STREAM.PURGE.authfabric-audit")

    def test_it_may_not_read_what_others_were_answered(self):
        held = of(CONNECT)
        assert not may_hear(held, subjects.audit("shop", "someone"))
        assert not may_publish(held, f"$JS.API.STREAM.MSG.GET.{subjects.AUDIT}")


def test_without_the_right_to_connect_there_is_nothing():
    assert of("object: *\naction: decide") == Permissions()


def test_all_networks_are_all():
    held = of("network: *\naction: connect")
    assert may_publish(held, asked("/a", "bank"))


def test_a_network_that_is_excepted_is_denied():
    held = of("network: * except bank\naction: *")
    assert may_publish(held, asked("/a"))
    assert not may_publish(held, asked("/a", "bank"))
    assert not may_publish(held, subjects.written(subjects.RELEASES, "bank"))


def test_a_prefix_of_networks_stands_for_the_known_domains_below_it():
    held = of("network: uk.*\naction: connect", domains=["uk.met", "fr.paris"])
    assert may_publish(held, asked("/a", "uk.met"))
    assert not may_publish(held, asked("/a", "fr.paris"))
    assert not may_publish(held, asked("/a", "uk.other"))


class TestDeciding:
    def test_a_prefix_is_heard_and_nothing_beside_it(self):
        held = of(CONNECT, "object: /sales/*\naction: decide")
        assert may_hear(held, asked("/sales/q1"))
        assert may_hear(held, asked("/sales/a/b"))
        for other in ("/sales", "/salesmen", "/hr/1", "sales/q1"):
            assert not may_hear(held, asked(other)), other
        assert not may_hear(held, asked("/sales/q1", "bank"))
        assert may_publish(held, ANSWER)

    def test_an_exception_is_not_heard(self):
        held = of(CONNECT, "object: /sales/* except /sales/secret/*, /sales/q1\naction: decide")
        assert may_hear(held, asked("/sales/q2"))
        assert not may_hear(held, asked("/sales/q1"))
        assert not may_hear(held, asked("/sales/secret/x"))

    def test_one_object_does_not_open_what_lies_below_it(self):
        held = of(CONNECT, "object: /sales\naction: decide")
        assert may_hear(held, asked("/sales"))
        assert not may_hear(held, asked("/sales/q1"))

    def test_two_grants_do_not_take_from_each_other(self):
        held = of(CONNECT, "object: /sales\naction: decide", "object: /sales/*\naction: decide")
        assert may_hear(held, asked("/sales"))
        assert may_hear(held, asked("/sales/q1"))

    @pytest.mark.parametrize(
        ("grant", "scope"),
        [("*", "domain:shop"), ("/sales/*", "prefix@shop:/sales"), ("/a", "object@shop:/a")],
    )
    def test_a_replica_may_serve_the_scope_it_was_granted(self, grant, scope):
        held = of(CONNECT, f"object: {grant}\naction: decide")
        for mode in Mode:
            wanted = interest(mode, Scope.parse(scope))
            assert any(subset(wanted, each) for each in held.subscribe), wanted


def test_installing_reaches_the_releases_of_that_network_only():
    held = of("network: shop\naction: connect|install")
    assert may_publish(held, subjects.written(subjects.RELEASES, "shop"))
    assert not may_publish(held, subjects.written(subjects.RELEASES, "bank"))


PARCEL = subjects.parcel("shop", subjects.TypePlace(subjects.FILE, "OWNER", "t"))


def published(domain: str, owner: str, type_: str) -> str:
    return subjects.parcel(domain, subjects.TypePlace("memory", owner, type_), "7", "x")


class TestBrokers:
    held = of("network: shop\naction: connect|carry")

    def test_they_hear_their_clients_and_each_other(self):
        assert may_hear(self.held, subjects.broker("shop", "b-1", "publish"))
        assert may_hear(self.held, subjects.broker_record("bank", "X", "hello.x"))
        assert may_hear(self.held, subjects.past("bank", "b-1"))
        assert not may_hear(self.held, subjects.broker("bank", "b-1", "publish"))

    def test_they_speak_to_clients_and_to_brokers_in_the_name_of_their_own_domain(self):
        for domain, may in (("shop", True), ("bank", False)):
            assert may_publish(self.held, subjects.past(domain, "b-2")) is may
            assert may_publish(self.held, subjects.broker_record(domain, OWN, "hello.x")) is may
            assert may_publish(self.held, subjects.mailbox(domain, "X", "1")) is may

    def test_they_publish_events_of_the_types_that_they_may_carry_for_their_own_domain(self):
        carried = Carried(frozenset({("A", "*"), ("B", "t")}), frozenset({("A", "u")}))
        held = of("network: shop\naction: connect|carry", carried=carried)
        may = {("A", "t"): True, ("A", "u"): False, ("B", "t"): True, ("B", "u"): False, ("C", "t"): False}
        for (owner, type_), expected in may.items():
            assert may_publish(held, published("shop", owner, type_)) is expected
            assert carried.allows(owner, type_) is expected
            assert not may_publish(held, published("bank", owner, type_))
            assert not may_publish(self.held, published("shop", owner, type_)), "nobody vouches for it"
            assert not may_publish(of(CONNECT, carried=carried), published("shop", owner, type_))

    def test_they_publish_records_below_their_own_place_only(self):
        assert not may_publish(self.held, subjects.broker_record("shop", OTHER, "hello.x"))
        assert not may_publish(self.held, subjects.broker_record("shop", OTHER, "word.x"))

    def test_they_read_the_stream_of_parcels_by_consumers_of_their_own_only(self):
        for owner, may in ((OWN, True), (OTHER, False)):
            for name in consumer_names(owner):
                for what in ("INFO", "MSG.NEXT"):
                    api = f"$JS.API.CONSUMER.{what}.{subjects.PARCELS}.{name}"
                    assert may_publish(self.held, api) is may
                assert may_publish(self.held, f"$JS.ACK.{subjects.PARCELS}.{name}.1.2.3.4.5") is may
        assert not may_hear(self.held, PARCEL), "not past its consumer"

    @pytest.mark.parametrize("rights", ["connect", "connect|carry"])
    def test_nobody_reads_a_parcel_by_its_number_or_makes_another_stream_of_them(self, rights):
        held, stream = of(f"network: shop\naction: {rights}"), subjects.PARCELS
        for api in (
            f"DIRECT.GET.{stream}",
            f"DIRECT.GET.{stream}.{PARCEL}",
            f"STREAM.MSG.GET.{stream}",
            f"STREAM.MSG.DELETE.{stream}",
            f"STREAM.PURGE.{stream}",
            f"STREAM.UPDATE.{stream}",
            "STREAM.CREATE.other",
            f"CONSUMER.CREATE.{stream}.{OTHER}",
            f"CONSUMER.DURABLE.CREATE.{stream}.{OWN}-0",
            f"CONSUMER.CREATE.{stream}.{OWN}-2",
            f"CONSUMER.CREATE.{stream}.{OWN}-0",
            f"CONSUMER.DELETE.{stream}.{OWN}-0",
        ):
            assert not may_publish(held, f"$JS.API.{api}")

    def test_members_without_the_right_have_no_part_in_the_stream(self):
        client = of(CONNECT)
        for name in consumer_names(OWN):
            assert not may_publish(client, f"$JS.API.CONSUMER.CREATE.{subjects.PARCELS}.{name}")
        assert not may_publish(client, f"$JS.API.STREAM.MSG.GET.{subjects.BROKERS}")

    def test_they_bring_no_policies_into_force_and_manage_no_keys(self):
        assert not may_publish(self.held, subjects.written(subjects.RELEASES, "shop"))
        assert not may_publish(self.held, subjects.key_changes("t"))
        assert not may_hear(self.held, subjects.key_requests("t"))

    def test_clients_speak_to_them_and_hear_their_own_mail_only(self):
        client = of(CONNECT)
        own, other = subjects.place(HOLDER), subjects.place(Identity.generate().public)
        assert may_publish(client, subjects.broker("shop", "b-1", "call"))
        assert may_hear(client, subjects.mailbox("shop", own, "1"))
        assert not may_hear(client, subjects.mailbox("shop", other, "1"))
        assert not may_hear(client, subjects.mailbox("bank", own, "1"))
        assert not may_publish(client, subjects.mailbox("shop", other, "1"))
        assert not may_hear(client, subjects.broker_record("shop", other, "hello.x"))
        assert not may_hear(client, PARCEL)
        assert not may_publish(client, PARCEL)


def test_rights_over_a_network_need_the_right_to_connect_to_it():
    held = of(CONNECT, "network: bank\naction: install")
    assert not may_publish(held, subjects.written(subjects.RELEASES, "bank"))


def test_auditors_hear_what_was_decided():
    held = of("network: shop\naction: connect|audit")
    assert may_hear(held, subjects.audit("shop", "pep-1"))
    assert not may_hear(held, subjects.audit("bank", "pep-1"))


def test_only_who_may_pass_on_may_take_back():
    own = subjects.revoke(subjects.place(HOLDER))
    assert not may_publish(of(CONNECT), own)
    assert may_publish(of(CONNECT, delegate=True), own)
    assert not may_publish(
        of(CONNECT, delegate=True), subjects.revoke(subjects.place(Identity.generate().public))
    )


words = st.sampled_from(["a", "b", "*"])
patterns = st.builds(
    lambda body, rest: ".".join([*body, *rest]),
    st.lists(words, min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
)
names = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(".".join)


@given(patterns, patterns, names)
def test_what_a_narrower_subject_matches_a_wider_one_does(inner, outer, name):
    if subset(inner, outer) and matches(inner, name):
        assert matches(outer, name)


@given(patterns, patterns, names)
def test_what_two_subjects_have_in_common_is_what_both_match(one, other, name):
    common = overlap(one, other)
    assert bool(common and matches(common, name)) == (matches(one, name) and matches(other, name))


permitted = st.builds(
    lambda allow, deny: Permissions(subscribe=frozenset(allow), subscribe_denied=frozenset(deny)),
    st.lists(patterns, max_size=3),
    st.lists(patterns, max_size=2),
)


@example(
    Permissions(subscribe=frozenset("a"), subscribe_denied=frozenset("*")),
    Permissions(subscribe=frozenset("*"), subscribe_denied=frozenset("a")),
    "a",
)
@given(permitted, permitted, names)
def test_a_union_gives_nothing_that_neither_side_gives(one, other, name):
    if may_hear(one.union(other), name):
        assert may_hear(one, name) or may_hear(other, name)
