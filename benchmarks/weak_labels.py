"""Measure weak labelling: notes per second and peak memory by number of notes, loading of terms,
and whether runs that are killed at random moments end with the same corpus."""

import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.tokens import DocBin
from wasabi import msg

from .machine import write_result

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
# Our labels for the types of the shared terms.
CLUSTERS = """\
Disease: {disease: , icd10cm_dx: }
Symptom: {sign_symptom: , symptom: , phenotypic_abnormality: , pathologic_condition_sign: ,
  icd10cm_R: , mental_disorder: }
Treatment: {drug: , pharmaceutical_class: }
"""
NotesPath = Annotated[Path, typer.Argument(help="Notes, JSON lines")]
TermPaths = Annotated[list[Path], typer.Argument(help="Tables of terms")]


def weak_labels(
    notes: NotesPath,
    terms: TermPaths,
    sizes: Annotated[
        str, typer.Option(help="Numbers of notes; the notes are repeated")
    ] = "1000,5000,20000",
    jobs: Annotated[int, typer.Option(help="Number of processes")] = 1,
    million: Annotated[bool, typer.Option(help="Also load a million terms")] = True,
    output: Annotated[Path, typer.Option(help="JSON file for the figures")] = RESULTS
    / "weak_labels.json",
) -> None:
    """Label several numbers of notes; write and print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The time before the first note: imports and loading of terms.
        start = _measured(_command(folder, notes, terms, 1, 1))["seconds"]
        rows = []
        for size in map(int, sizes.split(",")):
            row = _measured(_command(folder, notes, terms, size, jobs))
            rate = round(size / max(row["seconds"] - start, 0.1), 1)
            rows.append({"notes": size, **row, "notes_per_second": rate})
            shutil.rmtree(folder / str(size))
        loading = _load_million(folder, terms) if million else {}
    result = {"jobs": jobs, "start_seconds": start, "sizes": rows, "million_terms": loading}
    write_result(output, result)
    names = ("notes", "seconds", "cpu_seconds", "notes_per_second", "peak_mb")
    header = ("notes", "seconds", "CPU", "notes/s after the start", "peak MB")
    table = [[row[name] for name in names] for row in rows]
    msg.table(table, header=header, divider=True, aligns=tuple("rrrrr"))
    msg.text(f"Start: {start} s; a million terms: {loading}")


def weak_kills(
    notes: NotesPath,
    terms: TermPaths,
    size: Annotated[int, typer.Option(help="Number of notes")] = 1000,
    kills: Annotated[int, typer.Option(help="Number of kills (SIGKILL) at random moments")] = 20,
    output: Annotated[Path, typer.Option(help="JSON file for the figures")] = RESULTS
    / "weak_kills.json",
) -> None:
    """Kill labelling repeatedly, with one and with two processes, and compare the corpora."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds = _measured(_command(folder, notes, terms, size, 1))["seconds"]
        expected = folder / str(size)
        rows = []
        for jobs in (1, 2):
            command = _command(folder, notes, terms, size, jobs)
            row = _killed(command, folder / "killed", _digests(expected), kills, seconds)
            rows.append({"jobs": jobs, "notes": size, **row})
        result = {"each_note_once": _has_each_note_once(expected, size), "runs": rows}
    write_result(output, result)
    msg.text(str(result))


def _command(folder: Path, notes: Path, terms: list[Path], size: int, jobs: int) -> list[str]:
    """Return the command that labels `size` notes into `folder/SIZE`, repeating them if needed."""
    path = folder / f"{size}.jsonl"
    (folder / "types.yml").write_text(CLUSTERS)
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
    """Return the wall-clock and CPU seconds of a command, and the peak memory of its processes."""
    code = (
        "import json, resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
        "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))"
    )
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    cpu, peak = json.loads(result.stdout)
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_mb": round(peak / 1024),
    }


def _killed(
    command: list[str], output: Path, expected: dict[str, str], kills: int, seconds: float
) -> dict[str, Any]:
    """Run and kill a command until it was killed `kills` times. Finished corpora are compared with
    the expected one, and labelling starts from scratch.

    Args:
        seconds: The time of a run that is not killed.
    """
    command[command.index("--paths.output") + 1] = str(output)
    generator = random.Random(0)
    done = same = corpora = 0
    while done < kills or output.exists():
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait = generator.uniform(0, seconds) if done < kills else None
            if process.wait(timeout=wait):
                raise RuntimeError(f"Labelling has failed: {' '.join(command)}")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            done += 1
            continue
        corpora += 1
        same += _digests(output) == expected
        shutil.rmtree(output)
    return {"kills": done, "corpora": corpora, "same_corpora": same}


def _has_each_note_once(folder: Path, size: int) -> bool:
    """Check that each note is in one split, from the ids of its sentences."""
    vocab = spacy.blank("en").vocab
    seen = []
    for path in sorted(folder.rglob("*.spacy")):
        for doc in DocBin().from_disk(path).get_docs(vocab):
            seen.append(doc.user_data["id"])
    notes = {id_.rpartition(":")[0] for id_ in seen}
    return len(set(seen)) == len(seen) and notes == {str(i) for i in range(size)}


def _digests(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def _load_million(folder: Path, terms: list[Path]) -> dict[str, float]:
    """Load a million terms: ours, repeated with a number appended."""
    from spacy_mslm.text.terminology import Terminology, read_terms

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
