"""The process that packs policies: `python -m pdp.releases.packing_process FILE HASH`, with the bundle as its input.

It says in one line of JSON what came of it.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import msgspec

from authz import AuthFabricError
from bus.runtime import end_with_parent
from pdp.bundle import Bundle, PackedStore, PolicySet


class Result(msgspec.Struct, frozen=True):
    """What came of packing: a problem of the policies, or of the disk, or neither."""

    problem: str = ""
    disk: str = ""


def pack(store: PackedStore, bundle: str, content: bytes) -> Result:
    """Pack a bundle unless that was done already."""
    try:
        with store.packing():
            if store.load(bundle) is None:
                policies = PolicySet.read(Bundle.unpack(content, bundle))
                store.save(bundle, policies.pack(content))
    except AuthFabricError as error:
        return Result(problem=str(error))
    except OSError as error:
        return Result(disk=str(error))
    except Exception as error:
        return Result(problem=f"{type(error).__name__}: {error}")
    return Result()


if __name__ == "__main__":
    if end_with_parent is not None:
        end_with_parent()
    gc.disable()  # it would look again and again at all that is read, and nothing of that is garbage
    result = pack(PackedStore(Path(sys.argv[1])), sys.argv[2], sys.stdin.buffer.read())
    sys.stdout.buffer.write(msgspec.json.encode(result))
