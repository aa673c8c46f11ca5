"""Runs the PostgreSQL store's tests through PgBouncer.

The PgBouncer is Debian's, from a release with support for prepared statements (1.21 or newer; Debian 12 has an older
one). It runs from target/ci/pgbouncer with the libraries of its own release. Nothing is installed.
"""

import os
import shutil
import stat
import subprocess

from local import OUT, ROOT

SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = [
    "pgbouncer",
    # Its direct and indirect shared libraries.
    "libaudit1",
    "libc6",
    "libcap-ng0",
    "libcap2",
    "libcares2",
    "libevent-2.1-7t64",
    "libpam0g",
    "libssl3t64",
    "libsystemd0",
    "libzstd1",
    "zlib1g",
]
FOLDER = OUT / "pgbouncer"
PROGRAM = FOLDER / "run"


class NotFetched(Exception):
    """PgBouncer could not be downloaded, or does not run."""


def run(command, **options):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **options)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise NotFetched(error) from error
    if done.returncode:
        raise NotFetched(f"{' '.join(map(str, command))}: {done.stdout.strip()[-500:]}")


def fetch():
    """Downloads PgBouncer into the folder, and checks that it runs. apt checks the signatures."""
    if not os.path.exists(KEYRING):
        raise NotFetched(f"{KEYRING} is missing")
    shutil.rmtree(FOLDER, ignore_errors=True)
    packages, files = FOLDER / "packages", FOLDER / "files"
    for folder in (packages, files, FOLDER / "lists" / "partial", FOLDER / "cache" / "archives" / "partial"):
        folder.mkdir(parents=True)
    sources = FOLDER / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {SUITE} main\n")
    options = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": FOLDER / "lists",
        "Dir::Cache": FOLDER / "cache",
        # apt's sandbox user may have no access to these folders.
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", *(f"--option={name}={value}" for name, value in options.items())]
    run([*apt, "update"])
    run([*apt, "download", *(f"{name}/{SUITE}" for name in PACKAGES)], cwd=packages)
    for package in packages.iterdir():
        run(["dpkg", "--extract", package, files])
    ((loader,), program) = list(files.glob("usr/lib/*/ld-linux-*.so.*")), files / "usr/sbin/pgbouncer"
    PROGRAM.write_text(f'#!/bin/sh\nexec {loader} --library-path {loader.parent} {program} "$@"\n')
    PROGRAM.chmod(PROGRAM.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    try:
        run([PROGRAM, "--version"])
    except NotFetched:
        PROGRAM.unlink()
        raise


def main():
    if not PROGRAM.exists():
        try:
            fetch()
        except NotFetched as error:
            print(f"NOT CHECKED: no PgBouncer: {error}")
            return
    version = subprocess.run([PROGRAM, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    print(version, flush=True)
    # The whole workspace, because a selection of packages would have other features and need another build.
    command = ["cargo", "test", "--quiet", "--workspace", "--test", "all", "--", "--ignored", "pgbouncer::"]
    tests = subprocess.run(command, cwd=ROOT, env={**os.environ, "PGBOUNCER": str(PROGRAM)}, stdout=subprocess.PIPE, text=True)
    print(tests.stdout)
    if tests.returncode:
        raise SystemExit(tests.returncode)
    passed = sum(int(line.split()[3]) for line in tests.stdout.splitlines() if line.startswith("test result: ok."))
    assert passed >= 5, f"{passed} tests have run"


if __name__ == "__main__":
    main()
