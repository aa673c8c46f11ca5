"""Writes each function's bill of materials (CycloneDX, JSON), and checks it against the schema and cargo."""

import json
import re
import subprocess
import tomllib
import uuid
import zipfile
from functools import cache

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from local import OUT, ROOT
from zips import ZIP, processor

# The functions that the templates deploy.
FUNCTIONS = ("orders", "inventory")
TARGETS = {"x86-64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}
# A constant, so the same crates give the same serial number on every machine.
NAMESPACE = uuid.UUID("1e9b6f2a-5c0d-4f0e-9d1c-6a7b8c9d0e1f")


def cargo(*arguments):
    return subprocess.run(
        ["cargo", *arguments, "--locked"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


@cache
def target():
    """The target of the deployment zip."""
    with zipfile.ZipFile(ZIP) as archive:
        return TARGETS[processor(archive.read("bootstrap"))]


def tree(function, edges):
    """The crates of a function, as (name, version), that cargo finds along these dependency edges."""
    lines = cargo("tree", "-p", function, "--target", target(), "-e", edges, "--prefix", "none", "--no-dedupe", "-f", "{p}")
    return {(name, version) for name, version in re.findall(r"^(\S+) v(\S+)", lines, re.MULTILINE)}


def component(package, checksums, scope):
    name, version = package["name"], package["version"]
    checksum = checksums.get((name, version))
    # The bill contains no local paths. Published crates have a checksum instead.
    assert (checksum is None) == (package["source"] is None), f"{name} {version} has no checksum in Cargo.lock"
    return Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION if name in FUNCTIONS else ComponentType.LIBRARY,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("cargo", None, name, version),
        description=(package["description"] or "").strip() or None,
        licenses=[LicenseExpression(package["license"].replace("/", " OR "))],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else None,
        scope=scope,
    )


def bill(function, metadata, checksums):
    """The bill of a function. It also lists build scripts and macros, with the scope `excluded`."""
    linked = tree(function, "normal,no-proc-macro")
    made_of = tree(function, "normal,build")
    assert linked <= made_of
    packages = {(one["name"], one["version"]): one for one in metadata["packages"]}
    components = {
        crate: component(
            packages[crate], checksums, ComponentScope.REQUIRED if crate in linked else ComponentScope.EXCLUDED
        )
        for crate in made_of
    }
    (root,) = (one for crate, one in components.items() if crate[0] == function)
    bom = Bom(components=[one for one in components.values() if one is not root])
    bom.metadata.component = root
    # No time and no random number: the same crates give the same bill, byte for byte.
    bom.metadata.timestamp = None
    bom.serial_number = uuid.uuid5(NAMESPACE, "\n".join(sorted(f"{one.purl} {one.scope}" for one in components.values())))
    crates = {one["id"]: (one["name"], one["version"]) for one in metadata["packages"]}
    for node in metadata["resolve"]["nodes"]:
        needs = [crates[one["pkg"]] for one in node["deps"] if any(kind["kind"] != "dev" for kind in one["dep_kinds"])]
        if crates[node["id"]] in components:
            bom.register_dependency(
                components[crates[node["id"]]], [components[crate] for crate in needs if crate in components]
            )
    return JsonV1Dot6(bom).output_as_string(indent=2), linked


def check(function, text, linked):
    """Checks the bill against the schema, and that it lists exactly the crates that cargo links."""
    assert (error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is None, error
    document = json.loads(text)
    listed = {(one["name"], one["version"]) for one in document["components"] if one["scope"] == "required"}
    root = document["metadata"]["component"]
    missing = linked - listed - {(root["name"], root["version"])}
    assert not missing, f"{function}: linked, and not listed: {missing}"
    assert listed <= linked, f"{function}: listed, and not linked: {listed - linked}"
    assert "timestamp" not in document["metadata"]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(one["name"], one["version"]): one["checksum"] for one in lock["package"] if "checksum" in one}
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target()))
    for function in FUNCTIONS:
        text, linked = bill(function, metadata, checksums)
        check(function, text, linked)
        path = OUT / f"{function}.cdx.json"
        path.write_text(text)
        print(f"{path.relative_to(ROOT)}: {len(linked)} crates linked")


if __name__ == "__main__":
    main()
