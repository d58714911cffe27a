"""Runs commands of Icecore, and calls of pipeline_calls.py, one after the other in a process that has PySpark, so that Java starts once.

Each line of standard input is a request, and each line of standard output its response, both as JSON.
"""

import contextlib
import io
import json
import os
import sys
import traceback
from typing import Any

from icecore.cli import run
from tests.acceptance import pipeline_calls


def respond(request: dict[str, Any]) -> dict[str, Any]:
    """The exit code and what was printed. settings -- variables of the environment for this request alone."""
    output, errors = io.StringIO(), io.StringIO()
    environment = dict(os.environ)
    os.environ.update(request["settings"])
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = _called(request["arguments"]) if request["call"] else run(request["arguments"])
    finally:
        os.environ.clear()
        os.environ.update(environment)
    return {"code": code, "output": output.getvalue(), "errors": errors.getvalue()}


def _called(arguments: list[str]) -> int:
    try:
        pipeline_calls.main(*arguments)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    # What Java prints must not be among the responses.
    responses = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(respond(json.loads(line))), file=responses, flush=True)


if __name__ == "__main__":
    main()
