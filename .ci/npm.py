"""Downloads packages from npm."""

import base64
import hashlib
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
