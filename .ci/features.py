"""Checks that users can build each feature on its own, from the packages that .ci/release.py has unpacked.

Dependencies have the same features as in this workspace, so they are built once for all combinations."""

import itertools
import os
import shutil
import subprocess

from local import ROOT, TARGET
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


def check_new_attribute(env):
    """A store of others compiles when an item gains an attribute: the store of PostgreSQL and the conformance suite."""
    source = next(UNPACKED.glob("sqs-once-[0-9]*")) / "src/store/item.rs"
    before = source.read_text()
    after = before
    for line, added in [
        ("    pub fence: Option<Fence>,\n", "    /// Added.\n    pub added: Option<Fence>,\n"),
        ("            fence: None,\n", "            added: None,\n"),
    ]:
        assert before.count(line) == 1, f"{source} has other lines than {line!r}"
        after = after.replace(line, line + added)
    source.write_text(after)
    try:
        command = ["cargo", "check", "--quiet", "--package=shared", "--package=sqs-once-postgres", "--package=sqs-once", "--features=sqs-once/conformance"]
        subprocess.run(command, cwd=UNPACKED, env=env, check=True)
    finally:
        source.write_text(before)
    print("an item may gain an attribute")


def test_without_sqs(env):
    """Without the feature `sqs`, settings that need it warn, or refuse to start. A package of its own runs the tests, because
    the tests of sqs-once enable all features."""
    package = UNPACKED / "without-sqs"
    shutil.rmtree(package, ignore_errors=True)
    (package / "src").mkdir(parents=True)
    (package / "src" / "lib.rs").touch()
    (package / "tests").mkdir()
    shutil.copy(ROOT / ".ci" / "without_sqs.rs", package / "tests")
    # `shared` has the versions and the features of the others.
    others = "".join(f'{name} = {{ version = "*", default-features = false }}\n' for name in ("tokio", "tracing", "tracing-subscriber"))
    own = 'sqs-once = { version = "*", default-features = false, features = ["testing"] }\n'
    manifest = f'[package]\nname = "without-sqs"\nedition = "2024"\n\n[dependencies]\n{own}{others}'
    (package / "Cargo.toml").write_text(manifest)
    command = ["cargo", "test", "--quiet", "--package=shared", "--package=without-sqs", "--tests"]
    subprocess.run(command, cwd=UNPACKED, env=env, check=True)


def check_unstable_is_not_unified(env):
    """A function with a store of PostgreSQL does not see what only the tools may use."""
    package = UNPACKED / "stable"
    shutil.rmtree(package, ignore_errors=True)
    (package / "src").mkdir(parents=True)
    (package / "src" / "lib.rs").write_text("pub use sqs_once::unstable;\npub use sqs_once_postgres::PostgresStore;\n")
    own = '[dependencies]\nsqs-once = "*"\nsqs-once-postgres = "*"\n'
    (package / "Cargo.toml").write_text(f'[package]\nname = "stable"\nedition = "2024"\n\n{own}')
    command = ["cargo", "check", "--quiet", "--package=shared", "--package=stable"]
    check = subprocess.run(command, cwd=UNPACKED, env=env, stderr=subprocess.PIPE, text=True)
    unresolved = "unresolved import `sqs_once::unstable`"
    assert check.returncode and unresolved in check.stderr and check.stderr.count("error[") == 1, check.stderr
    shutil.rmtree(package)


def check_without_dynamodb():
    """A function that keeps its keys in PostgreSQL does not compile the SDK of DynamoDB."""
    command = ["cargo", "tree", "--locked", "--package=sqs-once-postgres", "--edges=normal", "--prefix=none"]
    tree = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    names = {line.split(" ")[0] for line in tree.splitlines()}
    assert "tokio-postgres" in names and not any(name.startswith("aws-sdk") for name in names), sorted(names)
    print("PostgreSQL alone needs no AWS SDK")


def main():
    check_without_dynamodb()
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
    check_new_attribute(env)
    test_without_sqs(env)
    check_unstable_is_not_unified(env)


if __name__ == "__main__":
    main()
