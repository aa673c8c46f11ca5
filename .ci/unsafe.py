"""Checks that every package has `unsafe_code = "forbid"`, which no attribute in the code can override. This includes tests,
examples, benches and build scripts."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# These contain packages of others.
SKIPPED = {"target", "node_modules"}


def main():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    assert workspace["lints"]["rust"]["unsafe_code"] == "forbid", "the workspace's lints allow unsafe code"
    packages = 0
    for path in sorted(ROOT.rglob("Cargo.toml")):
        if SKIPPED & set(path.relative_to(ROOT).parts):
            continue
        manifest = tomllib.loads(path.read_text())
        if "package" not in manifest:
            continue
        packages += 1
        lints = manifest.get("lints", {})
        own = lints.get("rust", {}).get("unsafe_code")
        assert lints.get("workspace") is True or own == "forbid", f"{path.relative_to(ROOT)} does not forbid unsafe code"
    members = sum(len(list((ROOT / folder).iterdir())) for folder in ("crates", "examples"))
    assert packages > members, f"only {packages} packages were found"
    print(f"{packages} packages forbid unsafe code")


if __name__ == "__main__":
    main()
