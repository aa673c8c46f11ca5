"""Lets other cargo workspaces on this machine reuse the builds of this one."""

import json
import shutil
import subprocess

from local import ROOT


def add_shared(folder, edges, of_all=False):
    """Adds a package `shared` to the workspace in `folder`. Its dependencies have the same features as in our workspace,
    so cargo reuses their builds. `edges` are the kinds of dependencies that will be built. With `of_all` this works
    for every later choice of features of the workspace's packages."""
    ours = features(ROOT, "normal,dev")
    shared = folder / "shared"
    (shared / "src").mkdir(parents=True)
    (shared / "src" / "lib.rs").touch()
    wanted = {}
    # An added dependency may need further ones.
    for _ in range(5):
        lines = [
            f'p{index} = {{ package = "{name}", version = "={version[1:]}", default-features = false, '
            f"features = {json.dumps([feature for feature in chosen.split(',') if feature])} }}\n"
            for index, ((name, version), chosen) in enumerate(sorted(wanted.items()))
        ]
        manifest = '[package]\nname = "shared"\nedition = "2024"\n\n[dependencies]\n' + "".join(lines)
        (shared / "Cargo.toml").write_text(manifest)
        shutil.copy(ROOT / "Cargo.lock", folder)
        theirs = features(folder, edges)
        again = {package for package, chosen in theirs.items() if ours.get(package) != chosen}
        if of_all:
            again |= (theirs.keys() & ours.keys()) - wanted.keys()
        if not again:
            return
        wanted |= {package: ours[package] for package in theirs if package in ours}
    raise SystemExit(f"built once more: {again}")


def features(workspace, edges):
    """The features of each external package that a workspace builds for the target, by name and version."""
    tree = ["cargo", "tree", "--workspace", f"--edges={edges},no-proc-macro", "--prefix=none", "--format={p}\t{f}"]
    told = subprocess.run(tree, cwd=workspace, stdout=subprocess.PIPE, check=True, text=True)
    packages = (line.removesuffix(" (*)").split("\t") for line in told.stdout.splitlines() if line)
    return {tuple(it.split()[:2]): chosen for it, chosen in packages if "(/" not in it and "(proc-macro)" not in it}
