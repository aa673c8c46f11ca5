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


def add_package(name, dependencies, source):
    """Adds a user's program. `shared` has the versions and the features of its dependencies' dependencies."""
    package = UNPACKED / name
    shutil.rmtree(package, ignore_errors=True)
    (package / "src").mkdir(parents=True)
    (package / "src" / "main.rs").write_text(source)
    manifest = f'[package]\nname = "{name}"\nedition = "2024"\n\n[dependencies]\n{dependencies}'
    (package / "Cargo.toml").write_text(manifest)
    return package


# Prints why it does not start.
STARTING = """
use sqs_once::store::MemoryStore;
use sqs_once::{Consumer, Handler};

#[tokio::main]
async fn main() {
    let handler = Handler::json::<String>().key(|id: &String| id.clone()).call(async |_: String| {});
    let consumer = Consumer::new(handler.namespace("test")).store(MemoryStore::new());
    println!("{}", consumer.init().await.unwrap_err());
}
"""
DELAYING = """
use sqs_once::handler::ErrorDisposition;
use sqs_once::{HandlerError, ResultExt};

#[derive(Debug, ErrorDisposition)]
#[disposition(retry_after = "30s")]
struct Busy;

impl std::fmt::Display for Busy {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Busy {}

fn main() {
    let _: Result<(), HandlerError> = Err(Busy).retry_after(std::time::Duration::from_secs(60));
}
"""


def check_without_sqs(env):
    """Without the feature `sqs`, a function with a dead-letter queue refuses to start, and delays do not compile."""
    dependencies = 'sqs-once = { version = "*", default-features = false }\ntokio = { version = "*", default-features = false }\n'
    package = add_package("without-sqs", dependencies, STARTING)
    command = ["--quiet", "--package=shared", "--package=without-sqs"]
    subprocess.run(["cargo", "build", *command], cwd=UNPACKED, env=env, check=True)
    queue = {"SQS_ONCE_DLQ_URL": "https://sqs.eu-central-1.amazonaws.com/123456789012/dlq"}
    told = subprocess.run([TARGET / "debug" / "without-sqs"], env=env | queue, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "SQS_ONCE_DLQ_URL is set, but sqs-once was built without its feature `sqs`" in told, told
    (package / "src" / "main.rs").write_text(DELAYING)
    check = subprocess.run(["cargo", "check", *command], cwd=UNPACKED, env=env, stderr=subprocess.PIPE, text=True)
    assert check.returncode and check.stderr.count("error[") == 2, check.stderr
    assert "no method named `retry_after`" in check.stderr, check.stderr
    assert "the item is gated behind the `sqs` feature" in check.stderr, check.stderr
    shutil.rmtree(package)
    print("without the feature `sqs`, no delay compiles")


def check_unstable_is_not_unified(env):
    """A function with a store of PostgreSQL does not see what only the tools may use."""
    source = "pub use sqs_once::unstable;\npub use sqs_once_postgres::PostgresStore;\nfn main() {}\n"
    package = add_package("stable", 'sqs-once = "*"\nsqs-once-postgres = "*"\n', source)
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
    check_without_sqs(env)
    check_unstable_is_not_unified(env)


if __name__ == "__main__":
    main()
