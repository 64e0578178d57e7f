"""A running PDP follows its file of trusted keys: a key that is added counts, one that is removed does not."""

from __future__ import annotations

from functools import partial

import pytest

from authfabric.processes.launcher import fabric
from authz import Identity
from authz.errors import InvalidKey
from bus.identity import FollowedKeys, create_key
from pep.trust import read_keys
from tests.authfabric.pushing import authfabric, write
from tests.waiting import once_it_works

ANN, BOB = Identity.generate(), Identity.generate()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trusted-keys"
    path.write_text(f"{ANN.public}\n")
    return path


@pytest.mark.parametrize(
    "content", ["", "# nobody\n", "no key\n", None], ids=["empty", "comment", "junk", "gone"]
)
def test_a_file_without_keys_changes_nothing_and_is_told(file, caplog, content):
    keys = FollowedKeys(partial(read_keys, [file]))
    file.unlink() if content is None else file.write_text(content)
    assert not keys.look()
    assert (set(keys), bool(keys.problem)) == ({ANN.public}, True)
    assert "stays as it was" in caplog.text
    file.write_text(f"{BOB.public}\n")
    assert keys.look()
    assert (set(keys), keys.problem) == ({BOB.public}, "")


def test_there_must_be_keys_to_begin_with(file):
    file.write_text("")
    with pytest.raises(InvalidKey):
        FollowedKeys(partial(read_keys, [file]))


async def test_a_running_pdp_takes_releases_by_whom_its_file_names_now(file, tmp_path):
    for name, identity in (("ann", ANN), ("bob", BOB)):
        create_key(tmp_path / f"{name}.key", identity, None)
    both = ["--trust", str(ANN.public), "--trust", str(BOB.public)]

    async def push(by: str) -> None:
        words = ("--key", str(tmp_path / f"{by}.key"), *both, "--url", running.url)
        code, told = await authfabric("policy", "push", str(write(tmp_path / "policies", by)), *words)
        assert code == 0, told

    async def standing(number: int, problem: str) -> None:
        _, told = await authfabric("status", "--url", running.url, *both)
        (member,) = [each for each in told["members"] if each["name"] == "pdp-1"]
        assert member["number"] == number
        assert problem in member["problem"]

    async with fabric(0, policies=None, jetstream=True) as running:
        await push("ann")
        await running.add("pdp-1", extra=["--trust", str(file), "--cache", str(tmp_path / "cache")])
        await push("bob")
        await once_it_works(partial(standing, 1, "is not trusted here"), AssertionError)
        file.write_text(f"{ANN.public}\n{BOB.public}\n")
        await once_it_works(partial(standing, 2, ""), AssertionError)
        file.write_text(f"{ANN.public}\n")
        await once_it_works(partial(standing, 2, "is not trusted here"), AssertionError)
