"""spaCy's own commands on the shipped configs, through the real entry points: a tiny encoder, tiny
corpora that `spacy mslm convert` wrote, few steps. Every training runs once and is shared."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import pytest
import spacy
from spacy.cli.init_config import fill_config
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.util import load_config, load_model_from_config, walk_dict
from spacy.vocab import Vocab
from thinc.api import Config

from spacy_mslm.errors import Errors

from ..commands import run_spacy
from ..conftest import build_encoder
from ..helpers import DEV, TRAIN, write_iob

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
NAMES = ["mslm", "mslm_paper", "vanilla", "spacy_ner"]
# Beginnings of warnings.
MASKED_VIEW = "The 'masked' view hides"
NO_MASKS = "Masks are not used"
# What only configs with masks take.
MASKING = {"vars.masking": "${maskings.joint}", "paths.pmi": "absent.txt"}
# Words that occur in the corpora only: one outside, one inside of mentions.
MARKERS = ("qxsecretname", "qxsecretdrug")
TEXT = "no history of acute renal failure or asthma after aspirin ."
# Enough to learn the little there is to learn.
LEARN = {
    "training.max_steps": 40,
    "training.eval_frequency": 20,
    "training.optimizer.learn_rate.rate": 0.003,
    "training.optimizer.head_learn_rate.rate": 0.01,
    "components.mslm.model.window": 40,
    "components.mslm.model.context": 8,
}


class Run(NamedTuple):
    """A finished training."""

    model: Path
    stdout: str
    stderr: str

    def load(self) -> Language:
        return spacy.load(self.model)

    @property
    def weights(self) -> bytes:
        return (self.model / "mslm" / "weights.safetensors").read_bytes()


run = partial(run_spacy, COLUMNS="500")


def succeed(*arguments: object, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    result = run(*arguments, fresh=fresh)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def options(overrides: dict[str, object]) -> list[str]:
    pairs = (
        (f"--{k}", v if isinstance(v, str | Path) else json.dumps(v)) for k, v in overrides.items()
    )
    return [str(part) for pair in pairs for part in pair]


def ents(doc: Doc) -> list[tuple[str, str]]:
    return [(ent.text, ent.label_) for ent in doc.ents]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """An encoder long enough for the windows of the shipped configs, and a converted corpus."""
    root = tmp_path_factory.mktemp("cli")
    (root / "iob").mkdir()
    write_iob(root / "iob" / "train.tsv", TRAIN * 3)
    write_iob(root / "iob" / "dev.tsv", DEV)
    succeed("mslm", "convert", root / "iob", root / "corpus")
    encoder = build_encoder(root / "encoder", max_position_embeddings=300)
    overrides = {
        "paths.train": root / "corpus" / "train.spacy",
        "paths.dev": root / "corpus" / "dev.spacy",
        "vars.encoder": encoder,
    }
    return SimpleNamespace(root=root, encoder=encoder, overrides=overrides)


@pytest.fixture(scope="module")
def train(work: SimpleNamespace) -> Callable[..., Run]:
    """Train a config (by name or path), once for each set of overrides. All configs get the same
    command line, but for the choice of masks."""
    done: dict[str, Run] = {}

    def train_once(
        config: str | Path, run_name: str = "", fresh: bool = False, **overrides: object
    ) -> Run:
        key = f"{Path(config).stem}-{len(done)}"
        path = CONFIGS / f"{config}.cfg" if isinstance(config, str) else config
        line = {
            **work.overrides,
            "vars.view": "clean",
            "vars.rate": 0.15,
            "vars.elm_rate": 0.9,
            "vars.blm_rate": 0.1,
            **(MASKING if config in ("mslm", "mslm_paper") or isinstance(config, Path) else {}),
            "system.seed": 1,
            "training.max_steps": 6,
            "training.eval_frequency": 3,
            **overrides,
        }
        spec = json.dumps([str(path), run_name, line], default=str)
        if spec not in done:
            output = work.root / "training" / key
            command = ("train", path, "--output", output, *options(line), "--gpu-id", "-1")
            result = succeed(*command, fresh=fresh)
            done[spec] = Run(output / "model-last", result.stdout, result.stderr)
        return done[spec]

    return train_once


@pytest.fixture(scope="module")
def trained(train: Callable[..., Run], work: SimpleNamespace) -> Run:
    """mslm.cfg, trained long enough to find entities."""
    log = {"training.logger.output_file": work.root / "log" / "run.jsonl"}
    return train("mslm", **LEARN, **log)


# ---- configs ----


@pytest.mark.parametrize("name", NAMES)
def test_a_config_survives_the_way_through_a_pipeline(name: str, work: SimpleNamespace) -> None:
    overrides = {k: str(v) for k, v in work.overrides.items()} | {"vars.view": "mixed"}
    if name != "spacy_ner":
        overrides |= {"components.mslm.mask_probability": 0.25, "components.mslm.model.window": 100}
    nlp = load_model_from_config(
        load_config(CONFIGS / f"{name}.cfg", overrides=overrides), auto_fill=True
    )
    again = load_model_from_config(Config().from_str(nlp.config.to_str(), interpolate=False))
    assert again.config == nlp.config
    assert again.pipe_names == nlp.pipe_names
    if name != "spacy_ner":
        pipe = again.get_pipe("mslm")
        assert (pipe.view, pipe.mask_probability) == ("mixed", 0.25)
        assert pipe.model.attrs["window"] == 100
        assert pipe.model.attrs["encoder"] == str(work.encoder)
        mlm = {"mslm_paper": 1.0, "mslm": 0.0, "vanilla": 0.0}[name]
        assert {t: w(0) for t, w in pipe.loss_weights.items()} == {"mlm": mlm, "ed": 1.0, "el": 1.0}
        assert type(pipe.masking).__name__ == ("NoMasking" if name == "vanilla" else "JointMasking")


@pytest.mark.parametrize("name", ["mslm", "mslm_paper"])
@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        ("none", "NoMasking"),
        ("token", "TokenMasking"),
        ("span", "SpanMasking"),
        ("pmi", "PMIMasking"),
    ],
)
def test_a_masking_strategy_is_one_value_away(
    name: str, strategy: str, kind: str, work: SimpleNamespace
) -> None:
    overrides = {k: str(v) for k, v in work.overrides.items()}
    overrides |= {"vars.masking": f"${{maskings.{strategy}}}", "vars.rate": 0.2, "paths.pmi": "x"}
    config = load_config(CONFIGS / f"{name}.cfg", overrides=overrides)
    masking = load_model_from_config(config, auto_fill=True).get_pipe("mslm").masking
    assert type(masking).__name__ == kind
    assert getattr(masking, "rate", 0.2) == 0.2
    assert getattr(masking, "vocabulary", "x") == "x"


def test_pmi_masking_from_the_vocabulary_to_the_loaded_pipeline(
    train: Callable[..., Run], work: SimpleNamespace
) -> None:
    vocabulary = work.root / "pmi.txt"
    succeed("mslm", "pmi", work.overrides["paths.train"], vocabulary, "--min-count", 2)
    masking = {"vars.masking": "${maskings.pmi}", "paths.pmi": vocabulary, "vars.rate": 0.5}
    run = train("mslm", **masking)
    vocabulary.unlink()
    nlp = run.load()  # without the vocabulary, which only training needs
    assert nlp("the patient had asthma .") is not None
    assert nlp.get_pipe("mslm").cfg["mask_weights"]["elm"] >= 0.5
    annotation = {"entities": [(0, 1, "Disease")]}
    with pytest.raises(ValueError, match=r"Could not read the PMI vocabulary"):
        nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("a b"), annotation)])


@pytest.mark.parametrize("name", [*NAMES, "self_training"])
def test_fill_config_changes_nothing_the_second_time(name: str, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.cfg", tmp_path / "twice.cfg"
    succeed("init", "fill-config", CONFIGS / f"{name}.cfg", once)
    fill_config(twice, once, silent=True)
    assert once.read_text() == twice.read_text()
    filled = {tuple(path): value for path, value in walk_dict(Config().from_disk(once))}
    for path, value in walk_dict(Config().from_disk(CONFIGS / f"{name}.cfg")):
        assert filled[tuple(path)] == value


@pytest.mark.parametrize("name", NAMES)
def test_debug_config_finds_the_shipped_config_complete(name: str, work: SimpleNamespace) -> None:
    result = succeed("debug", "config", CONFIGS / f"{name}.cfg", *options(work.overrides))
    assert "Config is valid" in result.stdout


def test_debug_data_shows_the_labels_of_the_training_set(work: SimpleNamespace) -> None:
    """spaCy shows them for its own pipes only, so ours logs them when it is initialized."""
    # Its exit code is 1: spaCy finds 15 documents too few.
    result = run("debug", "data", CONFIGS / "vanilla.cfg", *options(work.overrides))
    shown = result.stdout + result.stderr
    docs = DocBin().from_disk(work.overrides["paths.train"]).get_docs(Vocab())
    counts = Counter(ent.label_ for doc in docs for ent in doc.ents)
    for label, n in counts.items():
        assert f"{label} {n}" in shown
    assert f"; {counts.total()} mentions: " in shown
    assert "Types with fewer than 50 mentions in the training set: " in shown


# ---- training ----


def test_debug_model_reads_documents(work: SimpleNamespace) -> None:
    """It gives documents to the model, not windows."""
    config = CONFIGS / "vanilla.cfg"
    result = succeed("debug", "model", config, "mslm", "-P3", *options(work.overrides))
    assert "Successfully ended analysis" in result.stdout
    assert "HeadOutputs" in result.stdout


@pytest.mark.parametrize(
    ("name", "view"),
    [
        *(("mslm", view) for view in ("clean", "mixed", "masked")),
        ("mslm_paper", "masked"),
        ("vanilla", "clean"),
        ("spacy_ner", "clean"),
    ],
)
def test_one_command_line_trains_every_config(
    name: str, view: str, train: Callable[..., Run]
) -> None:
    result = train(name, **{"vars.view": view})
    rows = re.findall(r"^ +\d+ +(\d+) +([\d. ]+)$", result.stdout, re.MULTILINE)
    assert [int(step) for step, _ in rows] == [0, 3, 6]
    nlp = result.load()
    assert (result.model.parent / "model-best" / "config.cfg").is_file()
    config = nlp.config.interpolate()
    assert config["vars"]["elm_rate"] == 0.9 and config["training"]["seed"] == 1
    if name == "spacy_ner":
        assert nlp.pipe_names == ["transformer", "ner"]
        return
    pipe = nlp.get_pipe("mslm")
    assert pipe.view == view and pipe.labels == ("Chemical", "Disease") and pipe.seed == 1
    assert (MASKED_VIEW in result.stderr) == (view == "masked")
    # The paper's config chooses its checkpoint by the paper's protocol, and says so.
    assert ("MSLM_MASKED_F" in result.stdout) == (name == "mslm_paper")
    masked_lm = float(rows[-1][1].split()[1])
    # After adaptation, or without it, the clean view needs no masked pass; it is one value away.
    assert (masked_lm == 0) == (name == "vanilla" or (name, view) == ("mslm", "clean"))
    assert (NO_MASKS in result.stderr) == ((name, view) == ("mslm", "clean"))
    if name != "vanilla":
        assert (pipe.masking.elm_rate, pipe.masking.blm_rate) == (0.9, 0.1)


@pytest.mark.parametrize("labels", ["teacher", "terms"])
def test_adaptation_is_part_of_the_command(
    labels: str, train: Callable[..., Run], work: SimpleNamespace
) -> None:
    """On text alone, and on text with a terminology. No word of the text is in the pipeline."""
    text = work.root / f"{labels}.txt"
    text.write_text("the patient had asthma after aspirin qxunlabelled .\n" * 20, encoding="utf8")
    adapted = work.root / "adapted" / labels
    overrides: dict[str, object] = {**LEARN, "paths.text": text, "paths.adapted": adapted}
    if labels == "terms":
        terms = work.root / "terms.tsv"
        terms.write_text("term\tsemantic_type\naspirin\tdrug\n", encoding="utf8")
        overrides["paths.terms"] = [str(terms)]
    stage = "initialize.components.mslm.adaptation"
    overrides |= {f"{stage}.steps": 5, f"{stage}.optimizer.learn_rate.rate": 0.003}
    # So small a teacher is never sure.
    overrides[f"{stage}.corpus.min_confidence"] = 0.0
    result = train("mslm", **overrides)
    assert ("Teacher" in result.stderr) == (labels == "teacher")
    assert "Adaptation" in result.stderr and NO_MASKS not in result.stderr
    record = json.loads((adapted / "adaptation.json").read_text())
    assert record["sentences"] == 20 and record["settings"]["steps"] == 5
    nlp = result.load()
    assert nlp.get_pipe("mslm").labels == ("Chemical", "Disease")
    assert ("asthma", "Disease") in ents(nlp(TEXT))
    for file in result.model.rglob("*"):
        assert file.is_dir() or b"qxunlabelled" not in file.read_bytes(), file


def test_self_training_is_one_command(train: Callable[..., Run], work: SimpleNamespace) -> None:
    """Teachers, a student and a pipeline. No word of the text is in the pipeline."""
    text = work.root / "domain.txt"
    text.write_text("the patient had asthma after aspirin qxunlabelled .\n" * 20, encoding="utf8")
    stage = "initialize.components.mslm.adaptation"
    learn = {"vars.teacher_steps": 40, f"{stage}.steps": 40, f"{stage}.sure": 0.5}
    for optimizer in ("optimizer", "teacher_optimizer"):
        learn[f"{stage}.{optimizer}.learn_rate.rate"] = 0.003
        learn[f"{stage}.{optimizer}.head_learn_rate.rate"] = 0.01
    shape = {key: value for key, value in LEARN.items() if key.startswith("components")}
    adapted = work.root / "adapted" / "student"
    result = train(
        "self_training", **shape, **learn, **{"paths.text": text, "paths.adapted": adapted}
    )
    assert "Teachers" in result.stderr and "Self-training" in result.stderr
    assert json.loads((adapted / "adaptation.json").read_text())["sentences"] == 20
    assert ("asthma", "Disease") in ents(result.load()(TEXT))
    for file in result.model.rglob("*"):
        assert file.is_dir() or b"qxunlabelled" not in file.read_bytes(), file


def test_self_training_needs_text(work: SimpleNamespace, tmp_path: Path) -> None:
    line = options(work.overrides)
    result = run("train", CONFIGS / "self_training.cfg", "--output", tmp_path / "out", *line)
    assert result.returncode != 0 and "--paths.text" in result.stdout + result.stderr


def test_the_seed_decides_the_run(train: Callable[..., Run]) -> None:
    first = train("mslm", **{"vars.view": "mixed"})
    # In another interpreter, which has another hash seed.
    again = train("mslm", "again", fresh=True, **{"vars.view": "mixed"})
    assert again.weights == first.weights
    assert train("mslm", **{"vars.view": "mixed", "system.seed": 2}).weights != first.weights


def test_labels_come_from_a_file(
    work: SimpleNamespace, train: Callable[..., Run], tmp_path: Path
) -> None:
    succeed("init", "labels", CONFIGS / "mslm.cfg", tmp_path, *options(work.overrides))
    file = tmp_path / "mslm.json"
    assert json.loads(file.read_text()) == ["Chemical", "Disease"]
    file.write_text('["Disease", "Gene", "Chemical"]')
    config = tmp_path / "labelled.cfg"
    reader = '[initialize.components.mslm.labels]\n@readers = "spacy.read_labels.v1"\n'
    shipped = (CONFIGS / "mslm.cfg").read_text()
    config.write_text(f'{shipped}\n{reader}path = "{file}"\n')
    nlp = train(config, **{"training.max_steps": 1, "training.eval_frequency": 1}).load()
    assert nlp.get_pipe("mslm").labels == ("Disease", "Gene", "Chemical")


def test_labels_can_be_given_on_the_command_line(work: SimpleNamespace) -> None:
    overrides = {k: str(v) for k, v in work.overrides.items()}
    overrides["initialize.components.mslm.labels"] = ["Gene", "Disease", "Chemical"]
    nlp = init_nlp(load_config(CONFIGS / "mslm.cfg", overrides=overrides))
    assert nlp.get_pipe("mslm").labels == ("Gene", "Disease", "Chemical")


def test_no_training_text_is_told_or_saved(
    work: SimpleNamespace, trained: Run, train: Callable[..., Run]
) -> None:
    corpus = DocBin().from_disk(work.root / "corpus" / "train.spacy")
    assert set(MARKERS) <= {token.text for doc in corpus.get_docs(Vocab()) for token in doc}
    log = work.root / "log" / "run.jsonl"
    assert [json.loads(line)["step"] for line in log.open()] == [0, 20, 40]
    for result in (trained, train("spacy_ner"), train("mslm_paper", **{"vars.view": "masked"})):
        files = [f for f in result.model.parent.rglob("*") if f.is_file()]
        assert len(files) > 10
        told = [result.stdout.encode(), result.stderr.encode(), log.read_bytes()]
        for content in told + [file.read_bytes() for file in files]:
            for marker in MARKERS:
                assert marker.encode() not in content.lower()
                assert marker.encode("utf-16-le") not in content.lower()


# ---- a trained pipeline ----


def test_evaluate_writes_all_scores(work: SimpleNamespace, trained: Run, tmp_path: Path) -> None:
    def scores(*flags: str) -> dict:
        output = tmp_path / "scores.json"
        dev = work.overrides["paths.dev"]
        succeed("evaluate", trained.model, dev, "--output", output, *flags)
        return json.loads(output.read_text(), parse_constant=pytest.fail)

    flat = scores()
    assert flat["ents_f"] > 0.5 and flat["mslm_em"] == flat["ents_r"]
    assert flat["mslm_counts"]["gold"] == 3 and flat["mslm_counts"]["docs"] == 2
    by_pipe = scores("--per-component")["mslm"]
    assert by_pipe == {key: flat[key] for key in by_pipe} and "mslm_macro_f" in by_pipe
    with_gold_tokens = scores("--gold-preproc")
    assert with_gold_tokens["token_acc"] == 1.0 and with_gold_tokens["ents_f"] == flat["ents_f"]


def test_apply_writes_the_entities(trained: Run, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text(TEXT)
    succeed("apply", trained.model, tmp_path / "texts", tmp_path / "out.spacy")
    (doc,) = DocBin().from_disk(tmp_path / "out.spacy").get_docs(Vocab())
    expected = ents(trained.load()(TEXT))
    assert ents(doc) == expected and ("asthma", "Disease") in expected


def test_benchmark_speed_runs(work: SimpleNamespace, trained: Run) -> None:
    dev = work.overrides["paths.dev"]
    result = succeed("benchmark", "speed", trained.model, dev, "--warmup", 1, "--batches", 30)
    assert re.search(r"Mean: \d", result.stdout)


def test_assemble_takes_the_shipped_config(work: SimpleNamespace, tmp_path: Path) -> None:
    succeed("assemble", CONFIGS / "mslm.cfg", tmp_path / "nlp", "--vars.encoder", work.encoder)
    assert spacy.load(tmp_path / "nlp").pipe_names == ["mslm"]


def test_assemble_takes_a_trained_component(trained: Run, tmp_path: Path) -> None:
    config = tmp_path / "sourced.cfg"
    config.write_text(
        '[nlp]\nlang = "en"\npipeline = ["sentencizer", "found"]\n\n'
        '[components]\n\n[components.sentencizer]\nfactory = "sentencizer"\n\n'
        f'[components.found]\nsource = "{trained.model}"\ncomponent = "mslm"\n'
    )
    succeed("assemble", config, tmp_path / "nlp")
    nlp = spacy.load(tmp_path / "nlp")
    assert nlp.pipe_names == ["sentencizer", "found"]
    assert ents(nlp(TEXT)) == ents(trained.load()(TEXT)) != []


def test_a_frozen_component_stays_as_it_is(
    work: SimpleNamespace, trained: Run, train: Callable[..., Run], tmp_path: Path
) -> None:
    vocab = Vocab()
    for split in ("train", "dev"):
        docs = list(DocBin().from_disk(work.overrides[f"paths.{split}"]).get_docs(vocab))
        for doc in docs:
            doc.cats = {"DRUG": any(e.label_ == "Chemical" for e in doc.ents)}
        DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / f"{split}.spacy")
    config = Config().from_disk(CONFIGS / "mslm.cfg", interpolate=False)
    config["nlp"]["pipeline"] = ["mslm", "textcat_multilabel"]
    config["components"] = {
        "mslm": {"source": str(trained.model)},
        "textcat_multilabel": {"factory": "textcat_multilabel"},
    }
    config["initialize"]["components"] = {}
    config.to_disk(tmp_path / "frozen.cfg")
    overrides = {f"paths.{split}": tmp_path / f"{split}.spacy" for split in ("train", "dev")}
    for setting in ("frozen_components", "annotating_components"):
        overrides[f"training.{setting}"] = ["mslm"]
    result = train(tmp_path / "frozen.cfg", **overrides)
    assert result.weights == trained.weights
    nlp = result.load()
    assert ents(nlp(TEXT)) == ents(trained.load()(TEXT))
    assert nlp(TEXT).cats["DRUG"] != 0.5


class Witness:
    """A pipe that notes the entities which it is trained on."""

    seen: ClassVar[list[list[tuple[str, str]]]] = []

    def __call__(self, doc: Doc) -> Doc:
        return doc

    def update(self, examples: list[Example], **_: object) -> None:
        self.seen.extend(ents(example.predicted) for example in examples)


Language.factory("mslm_test_witness", func=lambda nlp, name: Witness())


def test_an_annotating_component_serves_those_after_it(trained: Run) -> None:
    nlp = trained.load()
    nlp.add_pipe("mslm_test_witness")
    example = Example.from_dict(nlp.make_doc(TEXT), {})
    Witness.seen.clear()
    nlp.update([example], sgd=False, annotates=["mslm"], exclude=["mslm"])
    assert Witness.seen == [ents(nlp(TEXT))] != [[]]


def test_a_component_is_sourced_in_python(trained: Run) -> None:
    other = trained.load()
    nlp = spacy.blank("en")
    nlp.add_pipe("mslm", source=other, name="found")
    assert ents(nlp(TEXT)) == ents(other(TEXT)) != []


@pytest.mark.parametrize("name", ["mslm", "mslm_paper"])
def test_a_loaded_pipeline_learns_on(name: str, train: Callable[..., Run]) -> None:
    nlp = train(name, **{"vars.view": "masked"}).load()
    nlp.resume_training().learn_rate = 0.005
    entities = {"entities": [(14, 33, "Disease"), (37, 43, "Disease"), (50, 57, "Chemical")]}
    losses = [
        nlp.update([Example.from_dict(nlp.make_doc(TEXT), entities)])["mslm_ed"] for _ in range(15)
    ]
    assert losses[-1] < 0.7 * losses[0]


def test_a_loaded_pipeline_takes_a_new_label(trained: Run) -> None:
    nlp = trained.load()
    before = ents(nlp(TEXT))
    example = Example.from_dict(nlp.make_doc("follow up"), {"entities": [(0, 9, "Visit")]})
    pipe = nlp.get_pipe("mslm")
    optimizer = spacy.blank("en").resume_training()
    optimizer.learn_rate = 0.005
    with pytest.raises(ValueError, match="'Visit'"):
        nlp.update([example], sgd=optimizer)
    assert pipe.add_label("Visit") == 1
    assert ents(nlp(TEXT)) == before != []
    for _ in range(60):
        nlp.update([example], sgd=optimizer)
    assert ents(nlp("follow up")) == [("follow up", "Visit")]


# ---- what can go wrong ----


def _missing(work: SimpleNamespace, folder: Path) -> tuple[dict, str]:
    return {"paths.train": folder / "no.spacy"}, Errors.M106.format(path=folder / "no.spacy")


def _not_given(work: SimpleNamespace, folder: Path) -> tuple[dict, str]:
    return {"paths.train": None}, "No path to the corpus is set."


def _empty(work: SimpleNamespace, folder: Path) -> tuple[dict, str]:
    path = folder / "empty.spacy"
    DocBin().to_disk(path)
    return {"paths.train": path}, f"{path} holds no documents."


def _corrupt(work: SimpleNamespace, folder: Path) -> tuple[dict, str]:
    data = bytearray(work.overrides["paths.train"].read_bytes())
    data[len(data) // 2] ^= 0xFF
    path = folder / "corrupt.spacy"
    path.write_bytes(data)
    return {"paths.train": path}, f"{path} is damaged, or not a .spacy file"


def _corrupt_dev(work: SimpleNamespace, folder: Path) -> tuple[dict, str]:
    path = folder / "dev.spacy"
    path.write_bytes(work.overrides["paths.dev"].read_bytes()[:-20])
    return {"paths.dev": path}, f"{path} is damaged, or not a .spacy file"


def _no_tokenizer(work: SimpleNamespace, folder: Path) -> tuple[dict, str]:
    encoder = build_encoder(folder / "bare", max_position_embeddings=300)
    for file in encoder.iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            file.unlink()
    return {"vars.encoder": encoder}, f"Could not load a tokenizer from {str(encoder)!r}"


@pytest.mark.parametrize(
    "fault", [_missing, _not_given, _empty, _corrupt, _corrupt_dev, _no_tokenizer]
)
def test_a_fault_ends_the_training_with_one_message(
    fault: Callable, work: SimpleNamespace, tmp_path: Path
) -> None:
    overrides, message = fault(work, tmp_path)
    line = options({**work.overrides, **overrides})
    result = run("train", CONFIGS / "mslm.cfg", "--output", tmp_path / "out", *line)
    assert result.returncode == 1
    told = result.stdout + result.stderr
    assert result.stderr.splitlines()[-1].startswith(f"ValueError: {message}")
    assert told.count(message) == 1
    assert not any(marker in told for marker in MARKERS)
    assert not (tmp_path / "out" / "model-last").exists()
