"""Checks that users can build each feature on its own, from the packages that .ci/release.py has unpacked.

Dependencies have the same features as in this workspace, so they are built once for all combinations."""

import itertools
import os
import shutil
import subprocess

from local import TARGET
from release import UNPACKED, published
from shared import add_shared

# The features that affect each other. They are also checked in pairs.
RELATED = {"sqs-once": ["opentelemetry", "sqs", "testing"]}


def combinations(package):
    """The features to enable together, without those that cargo enables by default."""
    own = [feature for feature in package["features"] if feature != "default"]
    related = RELATED.get(package["name"], [])
    assert set(related) <= set(own), f"{package['name']} has other features: {own}"
    return [(), *((feature,) for feature in own), *itertools.combinations(related, 2)]


def main():
    shutil.rmtree(UNPACKED / "shared")
    add_shared(UNPACKED, "normal", of_all=True)
    env = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    checked = 0
    for package in published():
        name = package["name"]
        for features in combinations(package):
            chosen = ",".join(f"{name}/{feature}" for feature in features)
            print(f"{name}: {', '.join(features) or 'none'}", flush=True)
            command = ["cargo", "check", "--quiet", "--package=shared", f"--package={name}", "--no-default-features"]
            check = subprocess.run([*command, f"--features={chosen}"], cwd=UNPACKED, env=env, stderr=subprocess.PIPE, text=True)
            # Warnings come from these packages only, not from their dependencies.
            if check.stderr or check.returncode:
                raise SystemExit(check.stderr)
            checked += 1
    print(f"{checked} combinations")


if __name__ == "__main__":
    main()
