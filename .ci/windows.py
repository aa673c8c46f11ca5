"""Reads manifests, code and file names for what Windows and macOS can't build or check out."""

import collections
import re
import subprocess

from local import ROOT

TARGET = "x86_64-pc-windows-gnu"
# The command line links every published crate, and `orders` runs the library's event loop.
PACKAGES = ("cargo-sqs-once", "orders")
UNIX_CRATES = {"nix", "signal-hook-registry"}
UNIX_CODE = re.compile(r"\bos::(unix|fd)\b|\bsignal::unix\b|\bnix::|\bprocess_group\(")
UNIX_ONLY = re.compile(r"#\[cfg\((all\()?(unix|target_os = )")
# Links need a setting of Git for Windows. Without it, cargo still builds: it packages the licences, rustdoc reads the
# guides, and `deploy` shows parts of the project template.
LINKS = re.compile(r"crates/[\w-]+/LICENSE-(MIT|APACHE)|crates/sqs-once/docs|deploy/.+")
# Characters, ends and names of folders and files that Windows does not have.
UNUSUAL = re.compile(r'[<>:"|?*\\]|[ .](/|$)|(^|/)(con|prn|aux|nul|com\d|lpt\d)([./]|$)', re.IGNORECASE)


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def check_crates():
    """Checks that the dependencies for Windows contain no crate that needs Unix."""
    packages = [f"--package={name}" for name in PACKAGES]
    tree = ["cargo", "tree", "--locked", *packages, "--edges=normal,build,no-proc-macro", "--prefix=none", "--format={p}"]
    crates = {target: set(re.findall(r"^\S+", output(*tree, "--target", target), re.MULTILINE)) for target in (
        TARGET, "x86_64-unknown-linux-gnu")}
    assert not UNIX_CRATES & crates[TARGET], f"for Windows: {UNIX_CRATES & crates[TARGET]}"
    assert UNIX_CRATES & crates["x86_64-unknown-linux-gnu"], "the check recognises no Unix crate"
    print(f"{len(crates[TARGET])} crates for Windows, none of which needs Unix")


def unguarded(lines):
    """The numbers of the lines with Unix code that no `cfg` limits to Unix."""
    for number, line in enumerate(lines):
        if not UNIX_CODE.search(line) or line.lstrip().startswith("//"):
            continue
        indent, is_attribute = len(line) - len(line.lstrip()), True
        # Upwards through the line's attributes, then those of the block around it, and so on.
        for above in reversed(lines[:number]):
            own = len(above) - len(above.lstrip())
            if not above.strip() or own > indent:
                is_attribute = False
            elif own < indent or is_attribute:
                if UNIX_ONLY.match(above.lstrip()):
                    break
                is_attribute = own < indent or above.lstrip().startswith(("#", "//"))
                indent = own
        else:
            yield number + 1


def check_code():
    assert list(unguarded(["use std::os::unix::fs::OpenOptionsExt;"])) == [1]
    assert list(unguarded(["#[cfg(unix)]", "fn one() {}", "fn two() {", "    nix::kill();", "}"])) == [4]
    names = output("git", "ls-files", "crates/*/src/*.rs", "examples/*.rs").split()
    files = {name: (ROOT / name).read_text().splitlines() for name in names}
    found = [f"{name}:{number}" for name, lines in files.items() for number in unguarded(lines)]
    uses = sum(bool(UNIX_CODE.search(line)) for lines in files.values() for line in lines)
    assert not found, f"not behind `cfg(unix)`: {found}"
    assert uses, "the check recognises no Unix code"
    print(f"{uses} uses of Unix in {len(files)} files, all behind `cfg`")


def check_names():
    """Checks that Windows and macOS can check out every file."""
    files = [line.split("\t") for line in output("git", "ls-files", "--stage").splitlines()]
    names = [name for _, name in files]
    ignoring_case = collections.Counter(name.lower() for name in names)
    assert max(ignoring_case.values()) == 1, [name for name, count in ignoring_case.items() if count > 1]
    unusual = [name for name in names if UNUSUAL.search(name)]
    assert not unusual, f"Windows has no files {unusual}"
    links = [name for mode, name in files if mode.startswith("120000")]
    others = [name for name in links if not LINKS.fullmatch(name)]
    assert not others, f"symbolic links that a build on Windows may need: {others}"
    print(f"{len(names)} file names for Windows and macOS, {len(links)} links that cargo needs for no build")


if __name__ == "__main__":
    check_crates()
    check_code()
    check_names()
