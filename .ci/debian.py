"""Downloads and unpacks Debian's packages without installing them. apt checks the signatures."""

import os
import shutil
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class NotFetched(Exception):
    """A package could not be downloaded, or its program does not run."""


def run(command, **options):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **options)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise NotFetched(error) from error
    if done.returncode:
        raise NotFetched(f"{' '.join(map(str, command))}: {done.stdout.strip()[-500:]}")
    return done.stdout


class Mirror:
    """Debian's mirror, as seen by an apt whose state is in `folder`."""

    def __init__(self, folder, suites):
        if not os.path.exists(KEYRING):
            raise NotFetched(f"{KEYRING} is missing")
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        for inner in ("packages", "files", "lists/partial", "cache/archives/partial"):
            (folder / inner).mkdir(parents=True)
        sources = folder / "sources.list"
        lines = (f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main\n" for suite in suites)
        sources.write_text("".join(lines))
        options = {
            "Dir::Etc::SourceList": sources,
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            # apt's sandbox user may have no access to these folders.
            "APT::Sandbox::User": "root",
        }
        self.options = [f"--option={name}={value}" for name, value in options.items()]
        run(["apt-get", *self.options, "update"])

    def unpack(self, packages):
        """Unpacks packages, such as `NAME/SUITE`. Returns the folder with their files."""
        packed, files = self.folder / "packages", self.folder / "files"
        run(["apt-get", *self.options, "download", *packages], cwd=packed)
        for package in packed.iterdir():
            run(["dpkg", "--extract", package, files])
            package.unlink()
        return files
