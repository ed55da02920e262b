# Asks pip where a wheel lies, so that pip's own configuration (indexes, proxies, wheels on disk) decides.
from __future__ import annotations

import dataclasses
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

from failure import Failure
from progress import say

# The first pip whose --dry-run reads a wheel's metadata without fetching the whole wheel.
REPORTING_PIP = (25, 3)
# The C++ libraries in the wheels of every Python are the same, so any Python that has one will do.
OTHER_PYTHON = ["--python-version", "3.12", "--only-binary", ":all:"]
NETWORK_SIGNS = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|name resolution|"
    r"Name or service not known|Network is unreachable|Connection (refused|reset)|nodename nor servname"
)


@dataclasses.dataclass
class Wheel:
    """A wheel that pip would take: its address, and its sha256 where the index tells one."""

    name: str
    version: str
    url: str
    sha256: str | None


def run_pip(pip, *arguments, shown=False):
    # A user's habits for installing (--user, virtual environments only) do not concern a download.
    environment = dict(os.environ, PIP_USER="0", PIP_REQUIRE_VIRTUALENV="0", PIP_DISABLE_PIP_VERSION_CHECK="1")
    command = [sys.executable, *pip, *arguments]
    output = sys.stderr if shown else subprocess.PIPE
    return subprocess.run(command, env=environment, stdout=output, stderr=subprocess.PIPE, text=True)


def pip_version(pip):
    answer = run_pip(pip, "--version")
    found = re.match(r"pip (\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else None


def find_pip(downloads):
    """The command of pip, and whether it can report; an older one is asked to fetch a newer one, which runs in place."""
    own = ["-m", "pip"]
    version = pip_version(own)
    if version is None:
        raise Failure(f"pip is missing for {sys.executable}")
    if version >= REPORTING_PIP:
        return own, True
    folder = os.path.join(downloads, "pip")
    if not glob.glob(os.path.join(folder, "pip-*.whl")):
        run_pip(own, "download", "--quiet", "--no-deps", "--retries", "1", "--dest", folder, "pip>=25.3")
    for wheel in glob.glob(os.path.join(folder, "pip-*.whl")):
        newer = [os.path.join(wheel, "pip")]
        if pip_version(newer):
            return newer, True
    return own, False


def run_for_any_python(pip, requirement, *arguments, shown=False):
    """Runs pip for this Python, then, if it offers no wheel for it, for another one; raises a Failure if neither helps."""
    own = run_pip(pip, *arguments, requirement, shown=shown)
    if own.returncode == 0:
        return
    if NETWORK_SIGNS.search(own.stderr) or run_pip(pip, *arguments, *OTHER_PYTHON, requirement, shown=shown).returncode:
        raise Failure(reason(requirement, own.stderr))


def resolve(pip, requirement, dependencies=False):
    """The wheels that pip would install for `requirement`."""
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.json")
        arguments = ["--quiet", "--dry-run", "--ignore-installed", "--retries", "2", "--report", report]
        arguments += ["--target", os.path.join(scratch, "target"), *depth(dependencies)]
        run_for_any_python(pip, requirement, "install", *arguments)
        with open(report, encoding="utf-8") as file:
            return [wheel_of(item) for item in json.load(file)["install"]]


def depth(dependencies):
    return [] if dependencies else ["--no-deps"]


def wheel_of(item):
    info, metadata = item["download_info"], item["metadata"]
    hashes = info.get("archive_info", {}).get("hashes", {})
    return Wheel(metadata["name"], metadata["version"], info["url"], hashes.get("sha256"))


def download_with_pip(pip, requirement, folder, dependencies=False):
    """Lets pip fetch into `folder` (no resuming) and returns the wheels' paths: the way where its address does not serve."""
    say(f"letting pip fetch {requirement}")
    arguments = ["--retries", "2", "--dest", folder, *depth(dependencies)]
    run_for_any_python(pip, requirement, "download", *arguments, shown=True)
    return sorted(glob.glob(os.path.join(folder, "*.whl")))


def reason(requirement, output):
    if NETWORK_SIGNS.search(output):
        return (
            f"pip could not reach its package index to fetch {requirement}; check the network, the proxy "
            "(HTTPS_PROXY) and `pip config list`, then run this again"
        )
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    detail = errors[-1] if errors else output.strip()[-300:]
    return (
        f"pip offers no {requirement} for this system ({sys.platform}, {os.uname().machine}: {detail}); "
        "set LIBTORCH to a libtorch folder that you have"
    )
