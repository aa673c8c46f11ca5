"""Checks the crates of both lock files against the RustSec advisory database: the current one, or else the committed snapshot.

`python3 .ci/advisories.py --snapshot CLONE` writes the snapshot from a clone of https://github.com/rustsec/advisory-db.
"""

import datetime
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "ci" / "advisories"
SNAPSHOT = ROOT / ".ci" / "advisories.json"
DATABASE = "https://github.com/RustSec/advisory-db"
MANIFESTS = ("Cargo.toml", "verification/fuzz/Cargo.toml")
# An older snapshot causes a warning.
OLD = datetime.timedelta(days=30)


def git(folder, *arguments):
    command = ["git", "-c", "user.name=ci", "-c", "user.email=ci@localhost", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def write_snapshot(clone):
    """Writes the names of the used crates and their advisories."""
    paths = git(clone, "ls-tree", "-r", "--name-only", "HEAD", "crates/").splitlines()
    snapshot = {
        "commit": git(clone, "rev-parse", "HEAD").strip(),
        "date": git(clone, "log", "-1", "--format=%cI").strip(),
        "advisories": {path: git(clone, "show", f"HEAD:{path}") for path in paths if crate(path) in used()},
        "crates": sorted(used()),
    }
    SNAPSHOT.write_text(json.dumps(snapshot, indent=1) + "\n")
    print(f"{len(snapshot['advisories'])} advisories of {snapshot['date']}")


def crate(path):
    return path.split("/")[1]


def used():
    """The crates of both lock files."""
    locks = ((ROOT / manifest).with_suffix(".lock").read_text() for manifest in MANIFESTS)
    lines = (line for lock in locks for line in lock.splitlines())
    return {line.removeprefix('name = "').rstrip('"') for line in lines if line.startswith('name = "')}


def unpack():
    """Makes a git repository of the snapshot, because cargo-deny fetches one. Returns its URL."""
    snapshot = json.loads(SNAPSHOT.read_text())
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(snapshot["date"])
    print(f"the snapshot of {snapshot['date']}, {age.days} days old, commit {snapshot['commit']}")
    if age > OLD:
        print(f"WARNING: the snapshot is older than {OLD.days} days: later advisories are NOT CHECKED")
    if unseen := used() - set(snapshot["crates"]):
        print("WARNING: NOT CHECKED, since they are newer than the snapshot:", *sorted(unseen))
    repository = OUT / "snapshot"
    for path, text in snapshot["advisories"].items():
        file = repository / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git(repository, "init", "--quiet", "--initial-branch=main")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=The snapshot")
    return repository.as_uri()


def configured():
    """Writes a deny.toml with a separate folder for the database, so the snapshot does not replace a fetched database."""
    path = OUT / "deny.toml"
    # [advisories] is the last section of deny.toml.
    path.write_text((ROOT / "deny.toml").read_text() + f'db-path = "{OUT / "databases"}"\n')
    return path


def deny(manifest, config, *arguments, env=None):
    command = ["cargo", "deny", "--manifest-path", ROOT / manifest, "--config", config, *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | (env or {}), timeout=120).returncode == 0


def fetch(config, url=None):
    """Fetches the database, from `url` if given. git rewrites the URL, because cargo-deny accepts no `file:` URL."""
    instead = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{url}.insteadOf", "GIT_CONFIG_VALUE_0": DATABASE}
    try:
        return deny(MANIFESTS[0], config, "fetch", "db", env=instead if url else None)
    except subprocess.TimeoutExpired:
        return False


def main():
    if sys.argv[1:2] == ["--snapshot"]:
        return write_snapshot(Path(sys.argv[2]))
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    config = ROOT / "deny.toml"
    if not fetch(config):
        url = unpack()
        config = configured()
        assert fetch(config, url), "the snapshot can't be read"
    for manifest in MANIFESTS:
        assert deny(manifest, config, "--offline", "check", "advisories"), manifest


if __name__ == "__main__":
    main()
