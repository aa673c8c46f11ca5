"""Checks that the development container has what .ci/run and CONTRIBUTING.md need, in pinned versions."""

import json
import re
import tomllib

from local import ROOT

FEATURES = "ghcr.io/devcontainers/features/"
# The Python of each Debian.
PYTHON = {"bookworm": (3, 11), "trixie": (3, 13)}


def version(text):
    return tuple(int(part) for part in re.findall(r"\d+", text))


def needed(pattern, text):
    found = re.search(pattern, " ".join(text.split()))
    assert found, f"nothing says {pattern!r}"
    return version(found[1])


def main():
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    container = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    image = re.fullmatch(r"mcr\.microsoft\.com/devcontainers/base:\d+\.\d+\.\d+-(\w+)", container["image"])
    assert image, f"{container['image']} has no full version"
    features = {}
    for name, options in container["features"].items():
        pinned = re.fullmatch(rf"{FEATURES}(\w+):\d+\.\d+\.\d+", name)
        assert pinned, f"{name} has no full version"
        features[pinned[1]] = options
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    declared = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    rust = features["rust"]
    # This feature also installs gcc and the C library's headers.
    assert version(rust["version"]) >= version(declared)
    assert {"rustfmt", "clippy"} <= set(rust["components"].split(","))
    assert features["python"]["version"] == "os-provided"
    assert PYTHON[image[1]] >= needed(r"needs Python ([\d.]+\d)", contributing)
    assert version(features["node"]["version"]) >= needed(r"Node\.js ([\d.]+) or newer", contributing)
    assert "valgrind" in container["postCreateCommand"]
    print(f"{container['image']} with {', '.join(features)} and valgrind")
    print("NOT CHECKED: starting the container")


if __name__ == "__main__":
    main()
