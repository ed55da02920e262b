# Fetches libtorch into the cache: `python3 fetch.py VERSION FOLDER` fills FOLDER with torch/ (and nvidia/) through pip.
#
# The caller holds the cache's lock. FOLDER appears whole or not at all; progress goes to standard error, and a problem
# is one sentence on standard output with exit code 1. Only the standard library and the pip of this Python are used.
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.request

from download import Unusable, download, is_full, no_room
from failure import Failure
from progress import say
from resolve import download_with_pip, find_pip, resolve, run_pip
from unpack import read_metadata, unpack

# Libraries that libtorch_cpu of a CUDA build needs even on a machine without a GPU, by the names of their packages.
CUDA_BASE = re.compile(r"nvidia-cuda-(runtime|cupti)(-cu\d+)?\s*==\s*[\w.]+")
CUDA_TOOLKIT = re.compile(r"cuda-toolkit\[[^\]]*\](\s*==\s*[\w.]+)")


def companions(metadata):
    """The requirements, out of a torch wheel's METADATA, that bring the libraries of CUDA_BASE."""
    needed = []
    for requirement in re.findall(r"^Requires-Dist:\s*(.*)$", metadata, re.MULTILINE):
        toolkit = CUDA_TOOLKIT.match(requirement)
        base = CUDA_BASE.match(requirement)
        if toolkit:
            needed.append(f"cuda-toolkit[cudart,cupti]{toolkit[1].replace(' ', '')}")
        elif base:
            needed.append(base[0].replace(" ", ""))
    return needed


def opener_like(pip):
    """Opens addresses as pip would: trusts what it trusts and goes through the proxy that its configuration names."""
    settings = run_pip(pip, "config", "list").stdout
    context = ssl.create_default_context()
    try:
        from pip._vendor import certifi

        context.load_verify_locations(certifi.where())
    except (ImportError, OSError):
        pass  # a pip of the system that uses the system's certificates alone
    for path in [*re.findall(r"\.cert='([^']+)'", settings), os.environ.get("REQUESTS_CA_BUNDLE")]:
        if path and os.path.exists(path):
            context.load_verify_locations(**({"capath": path} if os.path.isdir(path) else {"cafile": path}))
    proxies = re.findall(r"\.proxy='([^']+)'", settings)
    proxy = urllib.request.ProxyHandler({"http": proxies[-1], "https": proxies[-1]} if proxies else None)
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), proxy)


def bring(pip, can_report, requirement, downloads, dependencies=False):
    """Paths of the wheels of `requirement` on this disk, verified."""
    wheels = resolve(pip, requirement, dependencies) if can_report else []
    remote = any(not wheel.url.startswith("file:") for wheel in wheels)
    opener = opener_like(pip) if remote else None
    try:
        paths = [download(wheel.url, wheel.sha256, downloads, opener) for wheel in wheels]
    except Unusable as error:
        say(str(error))
        paths = []
    if paths:
        return paths
    folder = os.path.join(downloads, re.sub(r"\W+", "-", requirement))  # of its own: all in it is of this requirement
    return download_with_pip(pip, requirement, folder, dependencies)


def check_loads(folder):
    """Loads libtorch_cpu in a process of its own: a missing library or too old a system shows here, by name."""
    suffix = "dylib" if sys.platform == "darwin" else "so"
    library = os.path.join(folder, "torch", "lib", f"libtorch_cpu.{suffix}")
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    answer = subprocess.run([sys.executable, "-c", code, library], capture_output=True, text=True)
    if answer.returncode != 0:
        lines = answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"]
        raise Failure(
            f"the fetched libtorch does not load on this system ({lines[-1]}); set LIBTORCH to a libtorch folder that does"
        )


def fetch(version, folder):
    cache = os.path.dirname(folder)
    downloads = os.path.join(cache, "downloads")
    os.makedirs(downloads, exist_ok=True)
    fresh = f"{folder}.unpacking"
    shutil.rmtree(fresh, ignore_errors=True)  # left by an interrupted run
    os.mkdir(fresh)

    pip, can_report = find_pip(downloads)
    requirement = f"torch=={version}"
    say(f"asking pip for {requirement}")
    (torch,) = bring(pip, can_report, requirement, downloads)
    for needed in companions(read_metadata(torch)):
        for wheel in bring(pip, can_report, needed, downloads, dependencies=True):
            unpack(wheel, fresh)
    unpack(torch, fresh)
    check_loads(fresh)
    os.rename(fresh, folder)
    shutil.rmtree(downloads, ignore_errors=True)


def main():
    version, folder = sys.argv[1:]
    try:
        fetch(version, folder)
    except Failure as failure:
        print(failure)
        sys.exit(1)
    except OSError as error:
        cache = os.path.dirname(folder)
        print(no_room(cache, "the disk is full") if is_full(error) else f"{error}; set TOKENGRAD_CACHE to a folder you own")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


main()
