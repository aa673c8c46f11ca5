"""Runs the PostgreSQL store's tests through PgBouncer.

The PgBouncer is Debian's, from a release with support for prepared statements (1.21 or newer; Debian 12 has an older
one). It runs from target/ci/pgbouncer with the libraries of its own release. Nothing is installed.
"""

import os
import stat
import subprocess

from debian import Mirror, NotFetched, run
from local import OUT, ROOT

SUITE = "trixie"
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


def fetch():
    """Downloads PgBouncer into the folder, and checks that it runs."""
    files = Mirror(FOLDER, [SUITE]).unpack(f"{name}/{SUITE}" for name in PACKAGES)
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
