"""A child process that executes jobs: one JSON object per line in, one per line out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

Json = dict[str, Any]

_ROOT = Path(__file__).resolve().parents[1]


class JobProcess:
    """`python -m module`, from opening to closing."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process = subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def start(self, job: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(job) + b"\n")
        self._process.stdin.flush()

    def result(self) -> Json:
        """The result of the job that was started last. Raises RuntimeError if it failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._module} ended with {self._process.wait()}")
        result: Json = orjson.loads(line)
        if "error" in result:
            raise RuntimeError(f"{self._module} failed: {result['error']}")
        return result

    def do(self, job: Json) -> Json:
        self.start(job)
        return self.result()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
