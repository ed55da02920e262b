# Downloads one file: resumes what an earlier run left, retries a broken connection, verifies the sha256.
import errno
import hashlib
import http.client
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request

from failure import Failure
from progress import Progress, megabytes, say

ATTEMPTS = 6  # connections in a row that bring nothing before giving up
CHUNK = 1 << 18
STALLED = 60  # seconds without a byte that end a connection
ROOM = 700_000_000  # bytes that the unpacked libtorch needs beside the download


class Unusable(Exception):
    """The address does not serve this client (login, certificate): pip itself may do better."""


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def require_room(folder, needed, purpose):
    if shutil.disk_usage(folder).free < needed:
        raise no_room(folder, f"{purpose} needs {megabytes(needed)} MB")


def no_room(folder, why):
    free = megabytes(shutil.disk_usage(folder).free)
    return Failure(
        f"{why}, and the disk of {folder} has {free} MB free; make room there, or set TOKENGRAD_CACHE to a folder on "
        "another disk, and run this again"
    )


def is_full(error):
    """Whether an OSError says that the disk, or the user's share of it, is full."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def download(url, sha256, folder, opener):
    """Brings `url` into `folder` and returns its path; a file:// address is checked and used where it lies."""
    name = os.path.basename(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    if url.startswith("file:"):
        path = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
        verify(path, name, sha256)
        return path
    path = os.path.join(folder, name)
    if os.path.exists(path) and sha256 and sha256_of(path) == sha256:
        return path  # whole: an earlier run was interrupted later on
    # The hash in the name keeps a part from being continued with another file's bytes.
    part = f"{path}.{(sha256 or 'unhashed')[:16]}.part"
    if sha256 is None and os.path.exists(part):
        os.remove(part)
    resumed = os.path.exists(part) and os.path.getsize(part) > 0
    fetch(url, part, name, opener)
    try:
        verify(part, name, sha256)
    except Failure:
        os.remove(part)
        if not resumed:
            raise
        say(f"{name}: the part left by an earlier run does not fit, beginning anew")
        fetch(url, part, name, opener)
        verify(part, name, sha256)
    os.replace(part, path)
    return path


def verify(path, name, sha256):
    if sha256 is None:
        return
    found = sha256_of(path)
    if found != sha256:
        raise Failure(f"{name} is damaged: its sha256 is {found}, expected {sha256}; run this again to fetch it anew")


def fetch(url, part, name, opener):
    failures = 0
    while True:
        before = os.path.getsize(part) if os.path.exists(part) else 0
        try:
            transfer(url, part, name, opener)
            return
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing lies beyond what is there: either whole or not of this file
                if before == total_of(error.headers.get("Content-Range")):
                    return
                os.remove(part)
            elif error.code < 500 and error.code not in (408, 429):
                raise Unusable(f"{name}: the server answered {error.code}") from error
            problem = f"the server answered {error.code}"
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise Unusable(f"{name}: {cause}") from error
            if is_full(cause):
                raise no_room(os.path.dirname(part), f"{name} did not fit on the disk") from error
            problem = str(cause) or type(cause).__name__
        after = os.path.getsize(part) if os.path.exists(part) else 0
        failures = 0 if after > before else failures + 1
        if failures >= ATTEMPTS:
            raise Failure(
                f"{name} could not be downloaded ({problem}); check the network and run this again: it goes on where it stopped"
            )
        say(f"{name}: {problem}, trying again")
        time.sleep(min(2**failures / 4, 8))


def total_of(content_range):
    found = re.search(r"/(\d+)$", content_range or "")
    return int(found[1]) if found else None


def transfer(url, part, name, opener):
    """One connection: asks for what is missing and appends it to `part`."""
    have = os.path.getsize(part) if os.path.exists(part) else 0
    headers = {"User-Agent": "tokengrad-setup", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with opener.open(urllib.request.Request(url, headers=headers), timeout=STALLED) as answer:
        length = answer.headers.get("Content-Length")
        start = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range") or "")
        if have and not (answer.status == 206 and start and int(start[1]) == have):
            have = 0  # the server sends the whole file
        total = have + int(length) if length else None
        require_room(os.path.dirname(part), ROOM + (total - have if total else 0), f"fetching {name}")
        if have:
            say(f"{name}: going on at {megabytes(have)} MB")
        progress = Progress(name, total, have)
        try:
            with open(part, "ab" if have else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    progress.add(len(chunk))
        finally:
            progress.close()
        if total is not None and progress.done < total:
            raise ConnectionError("the connection ended early")
