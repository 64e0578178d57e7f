from __future__ import annotations

import socket

import pytest

from spark_eval.errors import SessionFailed
from spark_eval.runtime.master import addresses, check_reachable


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[4]", []),
        ("yarn", []),
        ("k8s://https://host:6443", []),
        ("spark://one:7077", [("one", 7077)]),
        ("spark://one:7077,two:7078", [("one", 7077), ("two", 7078)]),
        ("spark://one", [("one", 7077)]),
        ("sc://host", [("host", 15002)]),
        ("sc://host:443/;token=abc", [("host", 443)]),
    ],
)
def test_a_master_says_where_it_is(master, expected):
    assert addresses(master) == expected


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize("kind", ["spark", "sc"])
def test_a_master_that_is_not_there_is_named_with_its_address(kind):
    port = free_port()
    with pytest.raises(
        SessionFailed, match=rf"nothing answers at 127\.0\.0\.1:{port} \(Connection refused\)"
    ):
        check_reachable(f"{kind}://127.0.0.1:{port}")


def test_one_of_several_masters_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as there:
        check_reachable(f"spark://127.0.0.1:{free_port()},127.0.0.1:{there.getsockname()[1]}")


def test_other_masters_are_not_tried():
    check_reachable("local[2]")
