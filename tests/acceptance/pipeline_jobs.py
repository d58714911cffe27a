"""Starts `icecore pipeline …`, and Python with PySpark, against a server, as operators do."""

import json
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.long_form import LONG
from tests.servers.icecore import PROGRAM, Icecore, clean_environment
from tests.servers.paths import ROOT
from tests.servers.processes import stop
from tests.servers.spark import SHORT_LIVED, pipeline_environment, pipeline_settings, spark_4_1

SECONDS_MAX = 2_400 if LONG else 400


def start(server: Icecore, *arguments: str, settings: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """In a process group of its own, with Java. settings -- Icecore's, in the environment of the job."""
    spark = spark_4_1()
    command = [str(PROGRAM), "pipeline", *arguments, "--data", str(server.data), *pipeline_settings(spark)]
    environment = {**clean_environment(), **pipeline_environment(spark), **SHORT_LIVED, **(settings or {})}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def ended(job: "subprocess.Popen[str]", code: int = 0) -> str:
    try:
        output, errors = job.communicate(timeout=SECONDS_MAX)
    finally:
        stop(job, seconds_max=0)
    assert code == job.returncode, errors[-4000:]
    return output if code == 0 else errors


def python_module(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """A module of the tests in a process that has PySpark."""
    environment = {**clean_environment(), **pipeline_environment(spark_4_1()), **SHORT_LIVED}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)


class PipelineJobs:
    """Runs jobs one after the other in one process (pipeline_runner.py): Java takes most of the time of a small job to start."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, server: Icecore, *arguments: str, code: int = 0, settings: Mapping[str, str] | None = None) -> str:
        """What `icecore pipeline …` prints to standard output, or to standard error if it prints nothing there."""
        command = ["pipeline", *arguments, "--data", str(server.data), *pipeline_settings(spark_4_1())]
        response = self._respond(arguments=command, call=False, settings=dict(settings or {}))
        assert code == response["code"], response["errors"][-4000:]
        return str(response["output"] or response["errors"])

    def call(self, server: Icecore, call: str, argument: Any) -> Any:
        """What a call of pipeline_calls.py prints."""
        response = self._call(server, call, argument)
        assert 0 == response["code"], response["errors"][-4000:]
        return json.loads(response["output"].splitlines()[-1])

    def failed_call(self, server: Icecore, call: str, argument: Any) -> str:
        """The trace of a call that raises an error."""
        response = self._call(server, call, argument)
        assert 1 == response["code"]
        return str(response["errors"])

    def _call(self, server: Icecore, call: str, argument: Any) -> dict[str, Any]:
        settings = [part for part in pipeline_settings(spark_4_1()) if part != "--conf"]
        return self._respond(arguments=[call, str(server.data), json.dumps(argument), *settings], call=True, settings={})

    def _respond(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(SECONDS_MAX), f"no response in {SECONDS_MAX} seconds"
        response: dict[str, Any] = json.loads(self._process.stdout.readline())
        return response


@contextmanager
def pipeline_jobs(log: Path) -> Iterator[PipelineJobs]:
    """log -- the file of what Java prints."""
    environment = {**clean_environment(), **pipeline_environment(spark_4_1()), **SHORT_LIVED}
    command = [sys.executable, "-m", "tests.acceptance.pipeline_runner"]
    with ExitStack() as opened:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": opened.enter_context(log.open("w"))}
        process = opened.enter_context(subprocess.Popen(command, cwd=ROOT, env=environment, text=True, start_new_session=True, **pipes))
        opened.callback(stop, process, seconds_max=0)
        yield PipelineJobs(process)
