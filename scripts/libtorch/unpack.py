# Unpacks the C++ part of a wheel, checking each file against the wheel's own RECORD.
import base64
import csv
import hashlib
import io
import os
import re
import zipfile

from download import is_full, no_room, require_room
from failure import Failure
from progress import Progress

# Headers, libraries and what says which version they are. Left out: what needs Python or a GPU. A fetched libtorch
# serves the CPU; libtorch_cuda alone would be another 0.5 GB that does nothing without 2 GB of further packages.
WANTED = re.compile(
    r"torch/(include|lib|share/cmake)/|torch/version\.py$|nvidia/.*/lib/[^/]*\.so(\.\d+)*$|"
    r"[^/]+\.dist-info/(METADATA|RECORD|LICENSE|NOTICE|licenses/.*)"
)
UNWANTED = re.compile(r"torch/lib/lib(torch_python|torch_cuda|torch_nvshmem|c10_cuda|caffe2_nvrtc)|nvidia/.*/libnvperf")
CHUNK = 1 << 20


def read_metadata(path):
    """The wheel's METADATA as text."""
    with open_wheel(path) as wheel:
        return wheel.read(member(wheel, "METADATA")).decode()


def open_wheel(path):
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise Failure(f"{path} is no wheel ({error}); remove it and run this again") from error


def member(wheel, name):
    found = [entry for entry in wheel.namelist() if re.fullmatch(rf"[^/]+\.dist-info/{name}", entry)]
    if len(found) != 1:
        raise Failure(f"{wheel.filename} is no wheel: it has no {name}; remove it and run this again")
    return found[0]


def unpack(path, folder):
    """Unpacks what is wanted of the wheel at `path` into `folder`, laid out like site-packages."""
    with open_wheel(path) as wheel:
        record = member(wheel, "RECORD")
        rows = csv.reader(io.StringIO(wheel.read(record).decode()))
        hashes = {row[0]: row[1] for row in rows if row}
        entries = [e for e in wheel.infolist() if WANTED.match(e.filename) and not UNWANTED.match(e.filename)]
        entries = [e for e in entries if not e.is_dir()]
        total = sum(entry.file_size for entry in entries)
        require_room(folder, total, f"unpacking {os.path.basename(path)}")
        progress = Progress("unpacking " + "-".join(os.path.basename(path).split("-")[:2]), total)
        try:
            for entry in entries:
                expected = None if entry.filename == record else hashes.get(entry.filename, "none")
                write(wheel, entry, folder, expected, progress)
        except OSError as error:
            if is_full(error):
                raise no_room(folder, f"{os.path.basename(path)} did not fit on the disk") from error
            raise
        except zipfile.BadZipFile as error:
            raise Failure(f"{path} is damaged ({error}); remove it and run this again") from error
        finally:
            progress.close()


def write(wheel, entry, folder, expected, progress):
    target = os.path.join(folder, *entry.filename.split("/"))
    if not os.path.realpath(target).startswith(os.path.realpath(folder) + os.sep):
        raise Failure(f"{wheel.filename} names a file outside its folder: {entry.filename}")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    digest = hashlib.sha256()
    with wheel.open(entry) as source, open(target, "wb") as file:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
            progress.add(len(chunk))
    found = "sha256=" + base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
    if expected is not None and found != expected:
        raise Failure(
            f"{entry.filename} in {wheel.filename} is damaged: {found}, expected {expected}; remove that wheel and run "
            "this again"
        )
