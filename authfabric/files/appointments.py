"""Appointments in files: JSON that people can read and only the issuer's key could have written."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path

import msgspec

from authfabric.files.capabilities import FileRefused, read_file
from pdp.sessions import Appointment


def read_appointment(path: Path) -> Appointment:
    """Raises FileRefused. Whether it is genuine is for others to say."""
    try:
        fields = read_file(path, lambda text, source: json.loads(text))
        values = [fields.get(name) for name in Appointment.__struct_fields__]
        values[-1] = base64.b64decode(values[-1], validate=True)
        return msgspec.convert(values, Appointment)
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error, msgspec.ValidationError):
        raise FileRefused(path, "is no appointment: it must be a file that `roles appoint` wrote") from None


def appointment_text(appointment: Appointment) -> str:
    """What `read_appointment` reads."""
    fields = {name: getattr(appointment, name) for name in Appointment.__struct_fields__}
    fields["signature"] = base64.b64encode(appointment.signature).decode()
    return json.dumps(fields, ensure_ascii=False, indent=2) + "\n"
