"""The committed corpus: a file for each target, and in it a line for each input, `["name", "bytes as Latin-1"]`.

`python3 corpus.py unpack TARGET FOLDER` writes the inputs as files, for libFuzzer. `python3 corpus.py pack TARGET FOLDER...`
replaces the corpus by the files of these folders, for instance after `cargo fuzz cmin`."""

import json
import sys
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def unpack(target, folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for line in (CORPUS / f"{target}.jsonl").read_text().splitlines():
        name, content = json.loads(line)
        (Path(folder) / name).write_bytes(content.encode("latin-1"))


def pack(target, *folders):
    inputs = {path.name: path.read_bytes() for folder in folders for path in Path(folder).iterdir()}
    lines = [json.dumps([name, content.decode("latin-1")]) for name, content in sorted(inputs.items())]
    (CORPUS / f"{target}.jsonl").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](*sys.argv[2:])
