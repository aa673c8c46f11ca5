"""Builds a deployment zip for this machine's architecture, or for the given ones, and checks its content.

`python3 .ci/zips.py arm64 x86-64` builds both, as a release does.
"""

import platform
import struct
import sys
import subprocess
import zipfile

from local import ROOT

ELF_MACHINES = {0x3E: "x86-64", 0xB7: "arm64"}
HOST = {"x86_64": "x86-64", "aarch64": "arm64"}[platform.machine()]
ZIP = ROOT / "target" / "lambda" / "orders" / "bootstrap.zip"
# The version of Lambda's Linux. A binary that needs a newer one crashes at its first cold start.
GLIBC_OF_AL2023 = (2, 34)
# Bytes. Lambda loads and maps the binary before it starts, so unnecessary code slows every cold start.
LARGEST_ZIP = 4_900_000


def main():
    for name in sys.argv[1:] or [HOST]:
        # Without an option, like SAM, so SAM can reuse the build.
        options = [] if name == HOST else [f"--{name}"]
        subprocess.run(
            ["cargo", "lambda", "build", "--release", "--output-format", "zip", "-p", "orders", *options],
            cwd=ROOT,
            check=True,
        )
        check(name, ZIP)


def processor(binary):
    """The architecture of a 64-bit ELF file."""
    assert binary[:5] == b"\x7fELF\x02", "bootstrap is no 64-bit ELF file"
    (machine,) = struct.unpack_from("<H", binary, 18)
    return ELF_MACHINES[machine]


def check(name, path):
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("bootstrap")
        binary = archive.read(info)
    assert processor(binary) == name, f"{path}: bootstrap is for {processor(binary)}, not for {name}"
    assert (info.external_attr >> 16) & 0o111, f"{path}: bootstrap is not executable"
    wanted = max(glibc_versions(binary), default=(0, 0))
    assert wanted <= GLIBC_OF_AL2023, f"{path}: bootstrap needs glibc {wanted}, Lambda has {GLIBC_OF_AL2023}"
    zipped = path.stat().st_size
    assert zipped <= LARGEST_ZIP, f"{path}: {zipped:,} bytes, at most {LARGEST_ZIP:,} are allowed"
    print(f"{name}: {len(binary):,} bytes, {zipped:,} zipped, needs glibc {wanted[0]}.{wanted[1]}")


def glibc_versions(binary):
    """The glibc versions in a binary's symbol version table."""
    for word in binary.split(b"GLIBC_")[1:]:
        version = word[: word.find(b"\0")].split(b".")
        if 2 <= len(version) <= 3 and all(part.isdigit() for part in version):
            yield tuple(int(part) for part in version[:2])


if __name__ == "__main__":
    main()
