"""Checks the declared minimum version of Rust: of every dependency in the lock file, and of the standard library's items
that our code uses.

The installed compiler is usually newer, so the declared one compiles nothing here.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path

from local import ROOT

TEMPLATE = ROOT / "crates/cargo-sqs-once/template/{{'Cargo'}}.toml"
# Clippy must report it, since this item is newer than the declared version. It is in Rust 1.95.0.
NEWER = "pub fn newer() { std::hint::cold_path(); }\n"
NEWER_SINCE = (1, 95, 0)


def version(text):
    return tuple(int(part) for part in re.findall(r"\d+", f"{text}.0.0")[:3])


def cargo(*arguments, **options):
    return subprocess.run(["cargo", *arguments], capture_output=True, text=True, **options)


def check_declarations():
    """Returns the version that all packages of the workspace declare. No dependency may need a newer one."""
    told = cargo("metadata", "--format-version=1", "--locked", cwd=ROOT, check=True).stdout
    packages = json.loads(told)["packages"]
    own = {one["rust_version"] for one in packages if one["source"] is None}
    assert len(own) == 1, f"the workspace's packages declare {own}"
    (declared,) = own
    template = re.search(r'^rust-version = "(.+)"$', TEMPLATE.read_text(), re.MULTILINE)[1]
    assert template == declared, f"new projects declare {template}"
    others = [one for one in packages if one["source"]]
    newer = [f"{one['name']} {one['version']} ({one['rust_version']})" for one in others
             if one["rust_version"] and version(one["rust_version"]) > version(declared)]
    assert not newer, f"they need a newer Rust than {declared}: {', '.join(newer)}"
    silent = sum(not one["rust_version"] for one in others)
    print(f"{len(others) - silent} dependencies need Rust {declared} or older. NOT CHECKED: {silent} that declare nothing")
    return declared


def check_lint(declared):
    """Checks that clippy reports newer items, as the workspace's lints set it."""
    lints = (ROOT / "Cargo.toml").read_text().partition("[workspace.lints.rust]")[2].partition("[profile.")[0]
    manifest = f'[package]\nname = "newer"\nedition = "2024"\nrust-version = "{declared}"\n\n[lints.rust]{lints}'
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "src").mkdir()
        (Path(folder) / "src/lib.rs").write_text(f"//! Newer.\n\n/// Newer.\n{NEWER}")
        (Path(folder) / "Cargo.toml").write_text(manifest.replace("[workspace.lints.clippy]", "[lints.clippy]"))
        linted = cargo("clippy", "--quiet", f"--target-dir={folder}/target", "--", "-D", "warnings", cwd=folder)
    assert "clippy::incompatible_msrv" in linted.stderr, linted.stderr
    print("clippy reports items of the standard library that are newer")


def main():
    declared = check_declarations()
    rustc = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    if version(rustc) == version(declared):
        print(f"the installed compiler is {declared}, so every other check compiles with it")
        return
    if version(rustc) >= NEWER_SINCE > version(declared):
        check_lint(declared)
    print(f"NOT CHECKED: no Rust {declared} has compiled this. Here is {rustc}")


if __name__ == "__main__":
    main()
