"""What is not installed is named together with the extra that brings it."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules[{package!r}] = None
try:
    {statement}
except ImportError as error:
    print(error)
"""
SCOPE = "from authz.scope import Scope; from authz.predicate import TRUE; Scope('/', TRUE, 1, 9e9).where({}, 'sqlite')"


@pytest.mark.parametrize(
    ("package", "statement", "extra"),
    [
        ("starlette", "import pep.integrations.fastapi", "fastapi"),
        ("starlette", "import pep.integrations.starlette", "fastapi"),
        ("flask", "import pep.integrations.flask", "flask"),
        ("django", "import pep.integrations.django", "django"),
        ("rest_framework", "import pep.integrations.rest_framework", "django"),
        ("grpc", "import pep.integrations.grpc", "grpc"),
        ("faststream", "import pep.integrations.faststream", "faststream"),
        ("faststream", "import pubsub_core.integrations.faststream", "faststream"),
        ("fastmcp", "import pep.integrations.fastmcp", "fastmcp"),
        ("sqlalchemy", SCOPE, "lists"),
    ],
)
def test_the_extra_is_named(package: str, statement: str, extra: str):
    program = WITHOUT.format(package=package, statement=statement)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"`{package}` is not installed: pip install 'authfabric[{extra}]'\n"
