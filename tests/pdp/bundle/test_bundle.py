"""A bundle is the same bytes for the same files, and nothing else is taken for one."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdp.bundle.bundle
from authz import Identity
from authz.crypto.seal import UntrustedSigner
from authz.errors import InvalidSignature
from pdp.bundle.bundle import Bundle, BundleRefused, File, FileKind

ANN, EVE = Identity.generate(), Identity.generate()
FILES = [File("b.yaml", "b"), File("a/x.json", "{}"), File("bundle.yaml", "name: x"), File("r.oasis", "")]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.yaml", FileKind.ABAC),
        ("deep/a.json", FileKind.ABAC),
        ("bundle.yml", FileKind.MANIFEST),
        ("deep/bundle.yaml", FileKind.ABAC),
        ("roles.oasis", FileKind.ROLES),
        ("labels.yaml", FileKind.LABELS),
        ("deep/secret.labels.yml", FileKind.LABELS),
        ("entities.json", FileKind.ENTITIES),
        ("x.cases.yaml", FileKind.CASES),
        ("tests/a.yaml", FileKind.CASES),
        ("README.md", None),
        (".hidden.yaml", None),
        (".git/a.yaml", None),
    ],
)
def test_what_a_file_is_goes_by_its_name(path, kind):
    assert FileKind.of(path) is kind


@given(st.permutations(FILES))
def test_the_order_in_which_files_are_found_does_not_matter(files):
    bundle = Bundle.of(files)
    assert bundle.hash == Bundle.of(FILES).hash
    assert bundle.pack() == Bundle.of(FILES).pack()
    assert Bundle.unpack(bundle.pack()) == bundle


def test_cases_and_other_files_are_not_packed():
    bundle = Bundle.of([*FILES, File("a.cases.yaml", ""), File("tests/t.yaml", ""), File("README.md", "")])
    assert bundle == Bundle.of(FILES)


def test_every_change_of_a_file_changes_the_hash():
    hashes = {
        Bundle.of([File("a.yaml", "x")]).hash,
        Bundle.of([File("a.yaml", "y")]).hash,
        Bundle.of([File("b.yaml", "x")]).hash,
        Bundle.of([File("a.yaml", "x"), File("b.yaml", "")]).hash,
    }
    assert len(hashes) == 4


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"junk",
        zlib.compress(b"junk"),
        zlib.compress(msgspec.msgpack.encode([[]])) + b"more",
        zlib.compress(msgspec.msgpack.encode([[["b.yaml", "x", "more"]]])),
        Bundle.of(FILES).pack()[:-3],
    ],
)
def test_other_bytes_are_refused(packed):
    with pytest.raises(BundleRefused):
        Bundle.unpack(packed)


def test_what_would_fill_the_memory_is_refused(monkeypatch):
    bundle = Bundle((File("a.yaml", " " * 10_000),))
    packed = bundle.pack()
    monkeypatch.setattr(pdp.bundle.bundle, "MAX_BYTES", 9_999)
    with pytest.raises(BundleRefused):
        Bundle.unpack(packed)
    with pytest.raises(BundleRefused, match="at most"):
        bundle.pack()


def test_another_bundle_than_the_one_named_is_refused():
    packed = Bundle.of(FILES).pack()
    assert Bundle.unpack(packed, Bundle.of(FILES).hash)
    with pytest.raises(BundleRefused, match="its hash is"):
        Bundle.unpack(packed, "0" * 64)


def test_a_signed_bundle_is_opened_by_those_who_trust_its_signer():
    bundle = Bundle.of(FILES)
    assert Bundle.open(bundle.sign(ANN), {ANN.public}) == (bundle, ANN.public)
    with pytest.raises(UntrustedSigner):
        Bundle.open(bundle.sign(EVE), {ANN.public})
    signed = bundle.sign(ANN)
    with pytest.raises(InvalidSignature):
        Bundle.open(signed[:-1] + bytes([signed[-1] ^ 1]), {ANN.public})
    with pytest.raises(BundleRefused, match="policy build"):
        Bundle.open(b"something else", {ANN.public})
