"""Packs the command line for a release, and checks the archive.

By default, packs the debug build. `--release` packs the optimised build for this machine, in target/archive. The names
are the defaults of cargo-binstall, which therefore needs no settings, but the repository's URL in Cargo.toml.
"""

import argparse
import gzip
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from local import OUT, ROOT, TARGET, built

NAME = "cargo-sqs-once"
BINARIES = (NAME, "sqs-once")
TEXTS = ("README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE")
# Each shell with the name under which it finds a binary's script. PowerShell and elvish read a file of any name.
COMPLETIONS = {"bash": "{}", "zsh": "_{}", "fish": "{}.fish", "powershell": "_{}.ps1", "elvish": "{}.elv"}


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def version():
    metadata = json.loads(output("cargo", "metadata", "--no-deps", "--format-version=1"))
    return next(one["version"] for one in metadata["packages"] if one["name"] == NAME)


def lay_out(binaries, folder):
    """Writes the files of the archive."""
    folder.mkdir(parents=True)
    for text in TEXTS:
        shutil.copy(ROOT / text, folder)
    (folder / "completions").mkdir()
    for binary in binaries:
        shutil.copy(binary, folder)
        for shell, name in COMPLETIONS.items():
            script = output(binary, "completions", shell)
            (folder / "completions" / name.format(binary.stem)).write_text(script, newline="\n")
        output(binary, "man", folder / "man")


def pack(folder, level):
    """Packs the folder. The archive contains no times and no owners: the same files give the same archive."""

    def plain(file):
        file.uid = file.gid = file.mtime = 0
        file.uname = file.gname = ""
        file.mode = 0o755 if file.mode & 0o100 else 0o644
        return file

    archive = folder.with_name(f"{folder.name}.tgz")
    with archive.open("wb") as raw, gzip.GzipFile("", "wb", level, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                tar.add(file, file.relative_to(folder.parent).as_posix(), filter=plain)
    return archive


def check(archive, top, binaries):
    """Unpacks the archive, as cargo-binstall does, and tries what is in it."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        # Without such a folder, unpacking could overwrite other files.
        assert [path.name for path in Path(folder).iterdir()] == [top]
        inside = Path(folder) / top
        for text in TEXTS:
            assert (inside / text).read_bytes() == (ROOT / text).read_bytes(), text
        for path in binaries:
            binary = inside / path.name
            assert output(binary, "--version") == f"{binary.stem} {version()}\n"
            for name in COMPLETIONS.values():
                script = inside / "completions" / name.format(binary.stem)
                assert "delete-expired" in script.read_text(), f"{script} does not complete subcommands"
            check_pages(binary, inside / "man")
        files = sum(path.is_file() for path in inside.rglob("*"))
    print(f"{archive.name}: {files} files, {archive.stat().st_size} bytes")


def check_pages(binary, folder):
    """Checks that each command has its page."""
    commands = re.findall(r"^  ([a-z][a-z-]+)", output(binary, "--help").partition("Commands:")[2], re.MULTILINE)
    name = binary.stem
    expected = {f"{name}.1", *(f"{name}-{command}.1" for command in commands if command != "help")}
    pages = {path.name for path in folder.iterdir()}
    assert len(expected) > 5 and expected <= pages, expected - pages


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--release", action="store_true")
    host = re.search(r"^host: (\S+)", output("rustc", "-vV"), re.MULTILINE)[1]
    end = ".exe" if "windows" in host else ""
    is_release = arguments.parse_args().release
    if is_release:
        subprocess.run([ROOT / ".ci/long", "--check-release"], check=True)
        subprocess.run(["cargo", "build", "--release", "--locked", "--package", NAME], cwd=ROOT, check=True)
        binaries, out = [TARGET / "release" / f"{name}{end}" for name in BINARIES], ROOT / "target" / "archive"
    else:
        binaries, out = [built(f"{name}{end}") for name in BINARIES], OUT / "archive"
    shutil.rmtree(out, ignore_errors=True)
    top = f"{NAME}-{host}-v{version()}"
    lay_out(binaries, out / top)
    # The debug build is ten times as large, and no release has it.
    check(pack(out / top, 9 if is_release else 1), top, binaries)


if __name__ == "__main__":
    main()
