"""Checks that no dependency in the lock file needs a newer Rust than the declared one. Clippy's `incompatible_msrv` checks the
standard library's items that our code uses."""

import json
import re
import subprocess

from local import ROOT

TEMPLATE = ROOT / "crates/cargo-sqs-once/template/{{'Cargo'}}.toml"


def version(text):
    return tuple(int(part) for part in re.findall(r"\d+", f"{text}.0.0")[:3])


def main():
    told = subprocess.check_output(["cargo", "metadata", "--format-version=1", "--locked"], cwd=ROOT)
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
    print(f"none of {len(others)} dependencies declares a newer Rust than {declared}")


if __name__ == "__main__":
    main()
