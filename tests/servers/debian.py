"""Installs Debian packages if a tool is missing and this process is permitted to."""

import os
import shutil
import subprocess

from tests.servers.paths import ToolMissingError, exclusive

APT_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive"}


def install(*alternatives: str, wanted: str) -> None:
    """Installs the first available alternative (each is a space-separated list of packages).

    Raises ToolMissingError without apt, permission, or any of the packages.
    """
    apt = shutil.which("apt-get")
    if apt is None or (os.geteuid() != 0 and shutil.which("sudo") is None):
        raise ToolMissingError(
            f"{wanted} is missing, and this is not a Debian where it may be installed; install one of: {', '.join(alternatives)}"
        )
    command = [apt] if os.geteuid() == 0 else ["sudo", "-n", apt]
    refused = ""
    with exclusive("apt"):
        subprocess.run([*command, "-q", "-q", "update"], check=False, env=os.environ | APT_ENVIRONMENT)
        for packages in alternatives:
            asked = [*command, "-q", "-y", "--no-install-recommends", "install", *packages.split()]
            done = subprocess.run(asked, check=False, capture_output=True, text=True, env=os.environ | APT_ENVIRONMENT)
            if done.returncode == 0:
                return
            refused = done.stderr
    raise ToolMissingError(f"{wanted} is missing, and apt-get installs none of: {', '.join(alternatives)}\n{refused}")
