"""Checks that the published crates can be built for Windows and macOS.

By default, reads manifests, code and file names. `--build` also compiles and links the command line and a function for
x86_64-pc-windows-gnu, which takes six minutes. Linker and headers are Debian's MinGW. The standard
library is compiled from Debian's sources of the same version of Rust. Nothing is installed, and nothing runs on Windows.
"""

import argparse
import collections
import os
import re
import subprocess

from debian import Mirror, NotFetched
from local import OUT, ROOT

TARGET = "x86_64-pc-windows-gnu"
FOLDER = OUT / "windows"
# Debian 12's MinGW runs on every later release. The sources are in the suites that have newer versions of Rust.
MINGW_SUITE = "bookworm"
SOURCE_SUITES = ["trixie-backports", "testing", "sid", "experimental"]
MINGW = [
    "binutils-mingw-w64-x86-64",
    "gcc-mingw-w64-base",
    "gcc-mingw-w64-x86-64-win32",
    "gcc-mingw-w64-x86-64-win32-runtime",
    "mingw-w64-common",
    "mingw-w64-x86-64-dev",
]
# The command line links every published crate, and `orders` runs the library's event loop.
PACKAGES = ("cargo-sqs-once", "orders")
UNIX_CRATES = {"nix", "signal-hook-registry"}
UNIX_CODE = re.compile(r"\bos::(unix|fd)\b|\bsignal::unix\b|\bnix::|\bprocess_group\(")
UNIX_ONLY = re.compile(r"#\[cfg\((all\()?(unix|target_os = )")
# Links need a setting of Git for Windows. Without it, cargo still builds: it packages the licences, rustdoc reads the
# guides, and `deploy` shows parts of the project template.
LINKS = re.compile(r"crates/[\w-]+/LICENSE-(MIT|APACHE)|crates/sqs-once/docs|deploy/.+")
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


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
    files = [ROOT / name for name in output("git", "ls-files", "crates/*/src/*.rs", "examples/*.rs").split()]
    found, uses = [], 0
    for file in files:
        lines = file.read_text().splitlines()
        uses += sum(bool(UNIX_CODE.search(line)) for line in lines)
        found += [f"{file.relative_to(ROOT)}:{number}" for number in unguarded(lines)]
    assert not found, f"not behind `cfg(unix)`: {found}"
    assert uses, "the check recognises no Unix code"
    print(f"{uses} uses of Unix in {len(files)} files, all behind `cfg`")


def check_names():
    """Checks that Windows and macOS can check out every file."""
    files = [line.split("\t") for line in output("git", "ls-files", "--stage").splitlines()]
    names = [name for _, name in files]
    ignoring_case = collections.Counter(name.lower() for name in names)
    assert max(ignoring_case.values()) == 1, [name for name, count in ignoring_case.items() if count > 1]
    for name in names:
        for part in name.split("/"):
            is_usual = not re.search(r'[<>:"|?*\\]|[ .]$', part) and not RESERVED.fullmatch(part)
            assert is_usual, f"Windows has no file {name}"
    links = [name for mode, name in files if mode.startswith("120000")]
    others = [name for name in links if not LINKS.fullmatch(name)]
    assert not others, f"symbolic links that a build on Windows may need: {others}"
    print(f"{len(names)} file names for Windows and macOS, {len(links)} links that cargo needs for no build")


def fetch():
    """Downloads MinGW and the source of the standard library. Returns the folders of their programs and of the source."""
    release = re.search(r"^release: (\S+)", output("rustc", "-vV"), re.MULTILINE)[1]
    mirror = Mirror(FOLDER / "debian", [MINGW_SUITE, *SOURCE_SUITES])
    sources = mirror.versions("rust-src")
    source = next((version for version in sources if version.startswith(f"{release}+")), None)
    if not source:
        raise NotFetched(f"Debian has the source of Rust {', '.join(sources)}, and not of {release}")
    files = mirror.unpack([*(f"{name}/{MINGW_SUITE}" for name in MINGW), f"rust-src={source}"])
    programs = files / "usr/bin"
    # Debian's own link of this name is made at its installation.
    (programs / "x86_64-w64-mingw32-gcc").symlink_to("x86_64-w64-mingw32-gcc-win32")
    return programs, files / f"usr/src/rustc-{release}/library"


def build():
    programs, library = fetch()
    env = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(FOLDER / "target"),
        # For `-Z build-std`, and for cargo's name of the sources' folder.
        "RUSTC_BOOTSTRAP": "1",
        "__CARGO_TESTS_ONLY_SRC_ROOT": str(library),
        # dynoxide-rs is also a DLL. GNU's linker would export all of its symbols, more than a DLL can have.
        "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS": "-Clink-arg=-Wl,--exclude-all-symbols",
        "CARGO_PROFILE_DEV_DEBUG": "false",
    }
    packages = [f"--package={name}" for name in PACKAGES]
    command = ["cargo", "build", "--locked", "-Zbuild-std=std,panic_unwind", f"--target={TARGET}", *packages]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    for name in PACKAGES:
        program = FOLDER / "target" / TARGET / "debug" / f"{name}.exe"
        assert program.read_bytes()[:2] == b"MZ", program
        print(f"{program.relative_to(ROOT)}: {program.stat().st_size} bytes")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--build", action="store_true")
    is_build = arguments.parse_args().build
    check_crates()
    check_code()
    check_names()
    if is_build:
        try:
            build()
        except NotFetched as error:
            print(f"NOT CHECKED: compiling and linking for Windows: {error}")
    else:
        print("NOT CHECKED: compiling and linking for Windows, which takes minutes: python3 .ci/windows.py --build")
    print("NOT CHECKED: nothing was run on Windows or macOS")


if __name__ == "__main__":
    main()
