"""Runs the PostgreSQL store's tests through PgBouncer.

The PgBouncer is Debian's, from a release with support for prepared statements (1.21 or newer; Debian 12 has an older
one). apt checks its signature. It runs from target/ci/pgbouncer with the libraries of its own release. Nothing is
installed.
"""

import os
import re
import shutil
import subprocess

from local import OUT, ROOT

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITE = "trixie"
# PgBouncer with its direct and indirect shared libraries.
PACKAGES = "pgbouncer libaudit1 libc6 libcap-ng0 libcap2 libcares2 libevent-2.1-7t64 libpam0g libssl3t64 libsystemd0 libzstd1 zlib1g"
FOLDER = OUT / "pgbouncer"
PROGRAM = FOLDER / "run"


def fetch():
    """Downloads PgBouncer into the folder, and checks that it runs."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    packages, files, sources = FOLDER / "packages", FOLDER / "files", FOLDER / "sources.list"
    for folder in (packages, files, FOLDER / "lists" / "partial", FOLDER / "cache" / "archives" / "partial"):
        folder.mkdir(parents=True)
    sources.write_text(f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {SUITE} main\n")
    options = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": FOLDER / "lists",
        "Dir::Cache": FOLDER / "cache",
        # apt's sandbox user may have no access to these folders.
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"--option={name}={value}" for name, value in options.items())]
    names = [f"{name}/{SUITE}" for name in PACKAGES.split()]
    for command in ([*apt, "update"], [*apt, "download", *names]):
        subprocess.run(command, cwd=packages, check=True, timeout=300)
    for package in packages.iterdir():
        subprocess.run(["dpkg", "--extract", package, files], check=True)
    (loader,) = files.glob("usr/lib/*/ld-linux-*.so.*")
    program = FOLDER / "starts"
    program.write_text(f'#!/bin/sh\nexec {loader} --library-path {loader.parent} {files}/usr/sbin/pgbouncer "$@"\n')
    program.chmod(0o755)
    subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)
    program.rename(PROGRAM)


def main():
    try:
        if not PROGRAM.exists():
            fetch()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"NOT CHECKED: no PgBouncer: {error}")
        return
    subprocess.run([PROGRAM, "--version"], check=True)
    # The whole workspace, because a selection of packages would have other features and need another build.
    command = ["cargo", "test", "--quiet", "--workspace", "--test", "all", "--", "--ignored", "pgbouncer::"]
    tests = subprocess.run(command, cwd=ROOT, env={**os.environ, "PGBOUNCER": str(PROGRAM)}, stdout=subprocess.PIPE, text=True)
    print(tests.stdout)
    tests.check_returncode()
    passed = sum(map(int, re.findall(r"^test result: ok\. (\d+)", tests.stdout, re.MULTILINE)))
    assert passed >= 5, f"{passed} tests have run"


if __name__ == "__main__":
    main()
