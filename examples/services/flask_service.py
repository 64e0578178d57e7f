"""Flask: `python examples/services/flask_service.py 8000`, then ask for `/documents/1` with `X-User: ann`."""

import sys
from typing import Any

from documents import DOCUMENTS, mask, sync_enforcer
from flask import Flask
from werkzeug.serving import make_server

from pep.integrations.flask import EXTENSION, Guard

app = Flask(__name__)
# Take the user from what your authentication has verified. A header is for trying out.
guard = Guard(subject=lambda request: request.headers.get("X-User", "nobody"))
guard.obligation("mask")(mask)


@app.get("/health")
def health() -> str:
    return "ok"


@app.get("/documents/<id>")
@guard("read", "/documents/{id}")
def read(id: str) -> Any:
    return DOCUMENTS.get(id, {})


if __name__ == "__main__":
    with sync_enforcer() as pep:
        app.extensions[EXTENSION] = pep
        make_server("127.0.0.1", int(sys.argv[1]), app, threaded=True).serve_forever()
