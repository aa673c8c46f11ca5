"""Downloads packages from npm."""

import base64
import hashlib
import shutil
import subprocess


def packed(package, integrity, folder):
    """The archive of an npm package, downloaded into a folder if it is not there.

    The version is part of the package. `npm view PACKAGE dist.integrity` prints its hash.
    """
    archive = folder / (package.removeprefix("@").replace("/", "-").replace("@", "-") + ".tgz")
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", "--pack-destination", folder, package]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert found == integrity, f"{package} is {found}"
    return archive


def installed(packages, folder, unpack=None):
    """Installs the packages of a lock file into a folder, and then calls `unpack(folder)`, if that is not done yet."""
    lock = (packages / "package-lock.json").read_bytes()
    done = folder / "done"
    if not (done.exists() and done.read_bytes() == lock):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(packages / name, folder)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=folder, check=True)
        if unpack:
            unpack(folder)
        done.write_bytes(lock)
    return folder
