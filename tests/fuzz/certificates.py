"""`make fuzz`: whatever arrives in place of certificates, chains, revocations or arrivals is refused, no more.

Guided by coverage (atheris). An exception that is not one of the fabric's own is a find.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["authz", "bus.callout", "bus.credentials"]):
    from tests.fuzz.readers import one_input

if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
