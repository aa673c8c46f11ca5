"""Checks a release as crates.io and docs.rs will show it, and publishes every crate except for the last step."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from local import OUT, ROOT
from shared import add_shared

UNPACKED = OUT / "packages"
LICENCES = {"LICENSE-MIT", "LICENSE-APACHE"}
# The packages that a user adds to a manifest or installs.
LIBRARIES = ("sqs-once", "sqs-once-postgres", "sqs-once-local", "sqs-once-operate", "sqs-once-doctor", "sqs-once-judge")


def run(*command, **options):
    print("$", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, check=True, **options)


def published():
    """The packages for crates.io."""
    metadata = run("cargo", "metadata", "--no-deps", "--format-version=1", stdout=subprocess.PIPE).stdout
    return [package for package in json.loads(metadata)["packages"] if package["publish"] != []]


def check_package(package, version):
    name = package["name"]
    assert package["version"] == version, f"{name}: one version for all, so that nobody has to match them"
    for field in ("description", "license", "readme", "rust_version"):
        assert package[field], f"{name} has no {field}"
    assert 1 <= len(package["keywords"]) <= 5 and all(len(word) <= 20 for word in package["keywords"]), name
    assert package["categories"], f"{name} has no category"
    files = run("cargo", "package", "--list", "--allow-dirty", "--package", name, stdout=subprocess.PIPE, text=True)
    missing = {*LICENCES, "README.md"} - set(files.stdout.splitlines())
    assert not missing, f"{name} is published without {missing}"
    for dependency in package["dependencies"]:
        if "path" in dependency and dependency["kind"] != "dev":
            # A tool pins what another release may change.
            allowed = f"={version}" if "unstable" in dependency["features"] else f"^{version}"
            assert dependency["req"] == allowed, f"{name} needs {dependency['name']} {dependency['req']}"
    if package["features"].keys() - {"default"} and any(target["kind"] == ["lib"] and target["doc"] for target in package["targets"]):
        documented = (package["metadata"] or {}).get("docs", {}).get("rs", {})
        stable = package["features"].keys() - {"default", "unstable"}
        is_complete = documented.get("all-features") or stable <= set(documented.get("features", []))
        assert is_complete, f"{name}: docs.rs leaves features out"


def check_texts(packages, version):
    """Checks that README and changelog agree with the manifests."""
    readme = (ROOT / "README.md").read_text()
    (package,) = (package for package in packages if package["name"] == "sqs-once")
    badges = dict(re.findall(r"!\[(\w+): [^\]]+\]\(https://img\.shields\.io/badge/([^)]+)\)", readme))
    rust, licence = package["rust_version"], package["license"].replace("-", "--").replace(" ", "%20")
    assert badges == {"Rust": f"Rust-{rust}%2B-blue", "licence": f"licence-{licence}-blue"}, badges
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == "Unreleased", sections[0]
    tags = run("git", "tag", "--list", "v*", "--sort=-version:refname", stdout=subprocess.PIPE, text=True).stdout.split()
    # Before the first release there is nothing on crates.io that the README could name.
    dependency = f'sqs-once = "{version.rpartition(".")[0]}"' if tags else "sqs-once = { path = "
    assert dependency in readme, f"the README should have {dependency}"
    released = [re.fullmatch(r"(\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d", section) for section in sections[1:]]
    assert all(released), f"a section is a version and its day: {sections}"
    assert [f"v{section[1]}" for section in released] == tags, f"sections {sections}, tags {tags}"
    nowhere = [package["name"] for package in packages if tags and not package["repository"]]
    assert not nowhere, f"a release without `repository`, by which cargo binstall finds the archives: {nowhere}"


def as_new(member, path):
    """Every file of a package has one time in 2006, so that cargo would not notice that it has changed since the last run."""
    return tarfile.data_filter(member, path).replace(mtime=time.time())


def build_unpacked(packages, version):
    """Checks the crates from their packages, with this workspace's versions of all dependencies."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    names = [f"--package={package['name']}" for package in packages]
    run("cargo", "package", "--no-verify", "--allow-dirty", "--quiet", *names)
    shutil.rmtree(UNPACKED, ignore_errors=True)
    patches = []
    for package in packages:
        folder = f"{package['name']}-{version}"
        with tarfile.open(target / "package" / f"{folder}.crate") as archive:
            archive.extractall(UNPACKED, filter=as_new)
        patches.append(f'{package["name"]} = {{ path = "{folder}" }}\n')
    # Reuses the workspace's builds of the same dependencies.
    profile = (ROOT / "Cargo.toml").read_text().partition("[profile.dev]")[2]
    manifest = f'[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n{"".join(patches)}\n[profile.dev]{profile}'
    (UNPACKED / "Cargo.toml").write_text(manifest)
    add_shared(UNPACKED, "normal")
    env = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    subprocess.run(["cargo", "check", "--workspace", "--all-features"], cwd=UNPACKED, env=env, check=True)
    # The same command as docs.rs. The guides are pages of the documentation.
    library = next(package for package in packages if package["name"] == "sqs-once")
    stable = ",".join(f"sqs-once/{feature}" for feature in library["metadata"]["docs"]["rs"]["features"])
    pages = ["cargo", "doc", "--no-deps", "--package=sqs-once", "--package=shared", f"--features={stable}"]
    subprocess.run(pages, cwd=UNPACKED, env={**env, "RUSTDOCFLAGS": "-D warnings"}, check=True)


def main():
    packages = published()
    version = packages[0]["version"]
    for package in packages:
        check_package(package, version)
    check_texts(packages, version)
    # cargo's own verification would build the AWS SDK again for every crate.
    run("cargo", "publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty")
    build_unpacked(packages, version)
    print(f"{len(packages)} packages of version {version} can be published, and build without this repository")


if __name__ == "__main__":
    main()
