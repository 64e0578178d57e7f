"""What is kept of who vouches for whom: withdrawals always, and nobody's words at the cost of others'."""

from __future__ import annotations

import pytest

from authz import Identity
from authz.errors import InvalidSignature
from pubsub_core.errors import WordTooLong
from pubsub_core.trust import vouches as words
from pubsub_core.trust.broker_trust import Web
from pubsub_core.trust.vouches import ALL, MAX_WORD_BYTES, Words, vouch, withdraw
from tests.pubsub_core.kinds import PITO, THIEF

OWNER = str(PITO.public)
ONE, TWO = Identity.generate(), Identity.generate()
NOBODY = [Identity.generate().public for _ in range(12)]


@pytest.fixture
def web() -> Web:
    """The owner trusts one broker, at time 1."""
    made = Web()
    made.owners = frozenset({OWNER})
    made.learn(vouch(ONE.public, [ALL], 1000, PITO, made=1))
    return made


def trusts(web: Web, broker: Identity, type_: str = "t") -> bool:
    return web.trusts(str(broker.public), type_, OWNER, 10.0)


def test_words_of_strangers_are_neither_kept_nor_handed_on(web, monkeypatch):
    monkeypatch.setattr(words, "MAX_STRANGE", 5)
    assert not web.learn(*(vouch(each, [ALL], 100, THIEF) for each in NOBODY))
    assert len(web.words) == len(web.words.page(10**6)) == 1
    assert len(web.words._strange) == 5


@pytest.mark.parametrize("order", [1, -1])
def test_words_count_in_whichever_order_they_come(web, order):
    for each in [vouch(TWO.public, [ALL], 100, ONE), vouch(ONE.public, [ALL], 100, PITO)][::order]:
        Web.learn(web, each)
    late = Web()
    late.learn(vouch(TWO.public, [ALL], 100, ONE))
    late.learn(vouch(ONE.public, [ALL], 100, PITO))
    assert not trusts(late, TWO)
    late.owners = frozenset({OWNER})
    assert trusts(web, TWO)
    assert trusts(late, TWO), "what was said before its owner was known"


def test_a_word_that_somebody_forged_is_in_nobodys_way(web):
    forged = vouch(TWO.public, [ALL], 100, ONE)
    forged = forged[:-1] + bytes([forged[-1] ^ 1])
    late = Web()
    assert not late.learn(forged), "whoever it is from is not known yet"
    late.owners = frozenset({OWNER})
    assert late.learn(vouch(ONE.public, [ALL], 100, PITO), vouch(TWO.public, ["t"], 100, ONE))
    assert trusts(late, TWO)
    assert not trusts(late, TWO, "u")
    with pytest.raises(InvalidSignature):
        web.learn(forged)


def test_whoever_vouches_without_end_has_a_quota_and_is_distrusted_all_the_same(web, monkeypatch):
    monkeypatch.setattr(words, "MAX_WORDS_EACH", 5)
    assert web.learn(*(vouch(each, [ALL], 100, ONE) for each in NOBODY))
    assert len(web.words) == 6
    assert not web.learn(vouch(TWO.public, [ALL], 100, ONE))
    assert web.learn(withdraw(ONE.public, [ALL], 2, PITO))
    assert not trusts(web, ONE)


def test_a_withdrawal_fits_into_a_quota_that_is_used_up(web, monkeypatch):
    monkeypatch.setattr(words, "MAX_WORDS_EACH", 5)
    web.learn(*(vouch(each, [ALL], 100, PITO, made=2) for each in NOBODY))
    assert web.learn(withdraw(ONE.public, [ALL], 2, PITO))
    assert not trusts(web, ONE)


def test_whoever_has_taken_back_more_than_is_kept_vouches_for_nobody(web, monkeypatch):
    monkeypatch.setattr(words, "MAX_WORDS_EACH", 5)
    given = [vouch(each, [ALL], 100, PITO, made=2) for each in NOBODY]
    for made, each in enumerate(NOBODY, 3):
        web.learn(withdraw(each, [ALL], made, PITO))
    web.learn(*given)
    assert web.trusted("t", OWNER, 10.0) == frozenset(), "nor for those whose withdrawals are forgotten"


def test_where_all_are_too_many_those_nearest_to_the_owner_stay(web, monkeypatch):
    monkeypatch.setattr(words, "MAX_WORDS", 20)
    monkeypatch.setattr(words, "MAX_WORDS_EACH", 10)
    minions = [Identity.generate() for _ in range(9)]
    web.learn(*(vouch(each.public, [ALL], 100, ONE) for each in minions))
    for each in minions:
        web.learn(*(vouch(nobody, [ALL], 100, each) for nobody in NOBODY))
        web.learn(*(withdraw(nobody, [ALL], 2, each) for nobody in NOBODY))
        assert len(web.words) <= 20
    assert trusts(web, ONE)
    assert web.learn(withdraw(ONE.public, [ALL], 2, PITO))
    assert not trusts(web, ONE)
    web.forget(10.0)
    vouching = {each.signer for each in web.words._known.values() if not each.said.withdrawn}
    assert vouching == {OWNER}, "with it go those it vouched for"


def test_a_withdrawal_outlasts_the_trust_in_whoever_made_it(web):
    given = vouch(TWO.public, [ALL], 100, ONE, made=1)
    web.learn(given, withdraw(TWO.public, [ALL], 2, ONE), withdraw(ONE.public, [ALL], 2, PITO))
    web.forget(10.0)
    web.learn(vouch(ONE.public, [ALL], 1000, PITO, made=3), given)
    assert trusts(web, ONE)
    assert not trusts(web, TWO)


def test_the_last_word_about_the_same_replaces_those_before(web):
    web.learn(*(vouch(TWO.public, ["t"], 100 + made, PITO, made=made) for made in (2, 4, 3)))
    assert len(web.words) == 2
    assert not web.learn(vouch(TWO.public, ["t"], 900, PITO, made=3))
    assert web.trusts(str(TWO.public), "t", OWNER, 103.0)
    assert not web.trusts(str(TWO.public), "t", OWNER, 104.0)


def test_what_a_broker_was_started_with_stays(monkeypatch):
    monkeypatch.setattr(words, "MAX_WORDS_EACH", 3)
    kept = Words()
    own = vouch(ONE.public, [ALL], 100, PITO)
    kept.pin(own)
    assert kept.learn(vouch(each, [ALL], 100, PITO, made=5) for each in NOBODY), "whose signer counts too"
    assert kept.learn(withdraw(each, [ALL], 6, PITO) for each in NOBODY)
    kept.forget(10.0)
    assert own in kept
    assert len(kept) == 3
    kept.forget(100.0)
    assert own not in kept


def test_what_is_handed_on_fits_and_all_of_it_has_its_turn_with_news_first(web):
    web.learn(*(vouch(each, [ALL], 100, PITO, made=2) for each in NOBODY))
    size = max(map(len, web.words))
    everything, room = set(web.words), 4 * size
    heard: set[bytes] = set()
    for _ in range(len(everything)):
        page = web.words.page(room)
        assert 0 < sum(map(len, page)) <= room
        assert len(set(page)) == len(page)
        heard.update(page)
    assert heard == everything
    minion = Identity.generate()
    web.learn(vouch(minion.public, [ALL], 100, ONE))
    farther = [vouch(each, [ALL], 100, ONE) for each in NOBODY]
    news = withdraw(ONE.public, [ALL], 2, PITO)
    while min(farther) > news:  # the order of their bytes alone must not bring it to the front
        farther.append(vouch(Identity.generate().public, [ALL], 100, ONE))
    web.learn(*farther)
    web.learn(news)
    assert web.words.page(room)[0] == news, "before those of whoever is farther from the owner"


def test_a_word_too_long_to_count_is_not_signed():
    with pytest.raises(WordTooLong, match="name fewer at a time, or none for all"):
        vouch(ONE.public, [f"{number:036}" for number in range(MAX_WORD_BYTES // 36)], 100, PITO)
