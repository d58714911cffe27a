"""Starts `icecore pipeline …`, and Python with PySpark, against a server, as operators do."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from tests.long_form import LONG
from tests.servers.icecore import PROGRAM, Icecore, clean_environment
from tests.servers.paths import ROOT
from tests.servers.processes import stop
from tests.servers.spark import pipeline_environment, pipeline_settings, spark_4_1

SECONDS_MAX = 2_400 if LONG else 400


def start(server: Icecore, *arguments: str, settings: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """In a process group of its own, with Java. settings -- Icecore's, in the environment of the job."""
    spark = spark_4_1()
    command = [str(PROGRAM), "pipeline", *arguments, "--data", str(server.data), *pipeline_settings(spark)]
    environment = {**clean_environment(), **pipeline_environment(spark), **(settings or {})}
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
    environment = {**clean_environment(), **pipeline_environment(spark_4_1())}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)


def called(server: Icecore, call: str, argument: Any) -> Any:
    """What a call of pipeline_calls.py prints."""
    settings = [part for part in pipeline_settings(spark_4_1()) if part != "--conf"]
    done = python_module("tests.acceptance.pipeline_calls", call, str(server.data), json.dumps(argument), *settings)
    assert 0 == done.returncode, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
