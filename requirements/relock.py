"""Writes every lock file anew: `dev.lock` and `server.lock` from pyproject.toml, the others from their `.in` files.

They are for all platforms, with hashes, and name no registry.
"""

import subprocess
from pathlib import Path

from requirements.environment import REQUIREMENTS, ROOT, uv, uv_environment

OPTIONS = ["--quiet", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-annotate", "--no-header"]
# The development environment holds every optional part except Spark, which has environments of its own: two versions side by side.
PARTS = ("embedded", "pyiceberg", "nats", "kafka", "aws", "gcp", "azure", "oidc", "swagger-ui")
# Those of a server in a container, which has its own Postgres.
SERVER_PARTS = ("nats", "kafka", "aws", "gcp", "azure")
DEVELOPMENT = [*(f"--extra={part}" for part in PARTS), "--group=dev"]


def relock(output: Path, *sources: str) -> None:
    command = [str(uv()), "pip", "compile", *OPTIONS, "--output-file", str(output), *sources]
    subprocess.run(command, check=True, cwd=ROOT, env=uv_environment(), stdout=subprocess.DEVNULL)


def main() -> None:
    development = REQUIREMENTS / "dev.lock"
    relock(development, "pyproject.toml", *DEVELOPMENT)
    # The same versions as those that are tested.
    relock(REQUIREMENTS / "server.lock", "pyproject.toml", *(f"--extra={part}" for part in SERVER_PARTS), "--constraints", str(development))
    for source in sorted(REQUIREMENTS.glob("*.in")):
        relock(source.with_suffix(".lock"), str(source.relative_to(ROOT)))


if __name__ == "__main__":
    main()
