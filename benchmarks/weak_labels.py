"""Weak supervision of notes: notes a second, peak memory as notes grow, the loading of terms, and
whether a run that is killed at random moments ends with the same corpus."""

import hashlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "weak_labels.json"
# Our labels for the types of the shared terms.
CLUSTERS = """\
Disease: {disease: , icd10cm_dx: }
Symptom: {sign_symptom: , symptom: , phenotypic_abnormality: , pathologic_condition_sign: }
Treatment: {drug: , pharmaceutical_class: }
"""


def weak_labels(
    notes: Annotated[Path, typer.Argument(help="Notes, JSON lines")],
    terms: Annotated[list[Path], typer.Argument(help="Tables of terms")],
    sizes: Annotated[str, typer.Option(help="Numbers of notes; files are repeated")] = "1000,20000",
    jobs: Annotated[int, typer.Option(help="Processes")] = 1,
    kills: Annotated[int, typer.Option(help="Kill -9 at so many random moments")] = 20,
    million: Annotated[bool, typer.Option(help="Load a million terms, too")] = True,
    output: Annotated[Path, typer.Option(help="JSON file for the figures")] = RESULTS,
) -> None:
    """Label notes of several numbers, then 1,000 with kills; write and print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "types.yml").write_text(CLUSTERS)
        rows = [
            {"notes": size, **_measured(_command(folder, notes, terms, size, jobs))}
            for size in map(int, sizes.split(","))
        ]
        for row in rows:
            row["notes_per_second"] = round(row["notes"] / row["seconds"], 1)
        killed = _killed(folder, _command(folder, notes, terms, 1000, jobs), kills) if kills else {}
        loading = _load_million(folder, terms) if million else {}
    result = {"jobs": jobs, "sizes": rows, "kills": killed, "million_terms": loading}
    output.write_text(json.dumps(result, indent=2) + "\n")
    table = [(r["notes"], r["seconds"], r["notes_per_second"], r["peak_mb"]) for r in rows]
    msg.table(
        table, header=("notes", "seconds", "notes/s", "peak MB"), divider=True, aligns=tuple("rrrr")
    )
    msg.text(f"Killed: {killed}; a million terms: {loading}")


def _command(folder: Path, notes: Path, terms: list[Path], size: int, jobs: int) -> list[str]:
    """Labels into `folder/SIZE`; the notes are repeated until there are enough."""
    path = folder / f"{size}.jsonl"
    if not path.exists():
        lines = notes.read_text(encoding="utf8").splitlines()
        with path.open("w", encoding="utf8") as file:
            for i in range(size):
                record = json.loads(lines[i % len(lines)])
                file.write(json.dumps({"id": i, "subject_id": i // 3, "text": record["text"]}))
                file.write("\n")
    settings = {
        "paths.notes": path,
        "paths.terms": json.dumps([str(term.resolve()) for term in terms]),
        "paths.clusters": folder / "types.yml",
        "paths.output": folder / str(size),
        "labelling.chunk": 100,
    }
    config = ROOT / "configs" / "weak.cfg"
    command = [sys.executable, "-m", "spacy", "mslm", "weak", "label", str(config)]
    command += ["--jobs", str(jobs)]
    return command + [text for key, value in settings.items() for text in (f"--{key}", str(value))]


def _measured(command: list[str]) -> dict[str, float]:
    """Seconds and the largest memory of any process, by `time`'s own means."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
        "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    return {"seconds": round(seconds, 1), "peak_mb": round(int(result.stdout) / 1024)}


def _killed(folder: Path, command: list[str], kills: int) -> dict[str, object]:
    """The corpus of an uninterrupted run must come out of one that is killed and started again."""
    output = Path(command[command.index("--paths.output") + 1])
    if not output.exists():
        _measured(command)
    expected = _digests(output)
    again = folder / "killed"
    command = [str(again) if part == str(output) else part for part in command]
    generator = random.Random(0)
    done = 0
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=generator.uniform(1, 12))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
    _measured(command)
    return {"kills": done, "same_corpus": _digests(again) == expected}


def _digests(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def _load_million(folder: Path, terms: list[Path]) -> dict[str, float]:
    """Our terms, and as many again with a number behind them as it takes."""
    from spacy_mslm.terminology import Terminology, read_terms

    rows = [term for path in terms for term in read_terms(path)]
    path = folder / "million.tsv"
    with path.open("w", encoding="utf8") as file:
        file.write("term\tid\tsemantic_type\n")
        for i in range(1_000_000):
            name, concept, semantic_type = rows[i % len(rows)]
            turn = i // len(rows)
            file.write(f"{name}{f' {turn}' if turn else ''}\t{concept}\t{semantic_type}\n")
    start = time.perf_counter()
    terminology = Terminology([path])
    return {"seconds": round(time.perf_counter() - start, 1), "names": len(terminology)}
