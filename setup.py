"""Metadata, requirements and entry points. Every registered name of the package is listed here,
which is how spaCy finds it: no import of ours is needed before a config that uses it."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


class BuildWithConfigs(build_py):
    """Puts the training configs into the package, which `spacy mslm init` copies. In an editable
    installation it reads them where they are."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "spacy_mslm" / "configs"
            target.mkdir(exist_ok=True)
            for name in ("mslm.cfg", "vanilla.cfg"):
                shutil.copy(HERE / "configs" / name, target)


ENTRY_POINTS = {
    "spacy_factories": [
        "mslm = spacy_mslm.pipeline.factory:make_mslm",
        "mslm_context = spacy_mslm.weak.context_pipe:make_context_pipe",
        "mslm_kb_ids = spacy_mslm.weak.kb_ids:make_kb_ids",
    ],
    "spacy_architectures": [
        "spacy_mslm.MSLM.v1 = spacy_mslm.model.architecture:build_mslm_v1",
        "spacy_mslm.MSLM.v2 = spacy_mslm.model.architecture:build_mslm_v2",
        "spacy_mslm.Listener.v1 = spacy_mslm.model.listener:build_listener_v1",
        "spacy_mslm.Encoder.v1 = spacy_mslm.model.encoder_layer:build_encoder_v1",
    ],
    "spacy_misc": [
        "spacy_mslm.Adaptation.v1 = spacy_mslm.training.adaptation:Adaptation",
        "spacy_mslm.SelfTraining.v1 = spacy_mslm.training.self_training:SelfTraining",
        "spacy_mslm.Pretraining.v1 = spacy_mslm.training.pretraining:Pretraining",
        "spacy_mslm.JointMasking.v1 = spacy_mslm.masking.strategies:JointMasking",
        "spacy_mslm.TokenMasking.v1 = spacy_mslm.masking.strategies:TokenMasking",
        "spacy_mslm.SpanMasking.v1 = spacy_mslm.masking.strategies:SpanMasking",
        "spacy_mslm.PMIMasking.v1 = spacy_mslm.masking.strategies:PMIMasking",
        "spacy_mslm.EvenMasking.v1 = spacy_mslm.masking.even:EvenMasking",
        "spacy_mslm.NoMasking.v1 = spacy_mslm.masking.strategies:NoMasking",
        "spacy_mslm.MaskSpecificWeights.v1 = spacy_mslm.masking.weights:MaskSpecificWeights",
        "spacy_mslm.MaskSpecificWeights.v2 = spacy_mslm.masking.weights:MaskSpecificWeightsV2",
        "spacy_mslm.UniformWeights.v1 = spacy_mslm.masking.weights:UniformWeights",
        "spacy_mslm.FixedWeights.v1 = spacy_mslm.masking.weights:FixedWeights",
        "spacy_mslm.updates.v1 = spacy_mslm.training.budget:count_updates",
        "spacy_mslm.eval_frequency.v1 = spacy_mslm.training.budget:eval_frequency",
        "spacy_mslm.Notes.v1 = spacy_mslm.weak.notes:Notes",
        "spacy_mslm.RuleSentences.v1 = spacy_mslm.weak.documents:make_rule_sentences",
        "spacy_mslm.PysbdSentences.v1 = spacy_mslm.weak.documents:make_pysbd_sentences",
        "spacy_mslm.terminology.v1 = spacy_mslm.weak.annotators.terminology:TerminologyAnnotator",
        "spacy_mslm.regex.v1 = spacy_mslm.weak.annotators.regex:RegexAnnotator",
        "spacy_mslm.pipeline.v1 = spacy_mslm.weak.annotators.pipeline:PipelineAnnotator",
        "spacy_mslm.scispacy_linker.v1 = spacy_mslm.weak.annotators.scispacy_linker:ScispacyLinker",
        "spacy_mslm.LocalCandidates.v1 = spacy_mslm.weak.kb_ids:make_candidates",
        "spacy_mslm.medcat.v1 = spacy_mslm.weak.annotators.medcat:MedcatAnnotator",
        "spacy_mslm.Clusters.v1 = spacy_mslm.weak.clusters:Clusters",
        "spacy_mslm.Priority.v1 = spacy_mslm.weak.aggregation:Priority",
        "spacy_mslm.LabelModel.v1 = spacy_mslm.weak.label_model:LabelModel",
        "spacy_mslm.Context.v1 = spacy_mslm.weak.context:Context",
    ],
    "spacy_scorers": ["spacy_mslm.entity_scorer.v1 = spacy_mslm.scoring.scorer:make_entity_scorer"],
    "spacy_readers": [
        "spacy_mslm.Corpus.v1 = spacy_mslm.corpus.readers:make_corpus",
        "spacy_mslm.PartialCorpus.v1 = spacy_mslm.corpus.mixed:PartialCorpus",
        "spacy_mslm.CompletedCorpus.v1 = spacy_mslm.corpus.completed:CompletedCorpus",
        "spacy_mslm.MixedCorpus.v1 = spacy_mslm.corpus.mixed:MixedCorpus",
        "spacy_mslm.TextCorpus.v1 = spacy_mslm.corpus.text_corpus:TextCorpus",
        "spacy_mslm.WeakCorpus.v1 = spacy_mslm.corpus.weak_corpus:WeakCorpus",
    ],
    "spacy_tokenizers": ["spacy_mslm.Tokenizer.v1 = spacy_mslm.text.tokenizer:make_tokenizer"],
    "spacy_loggers": ["spacy_mslm.ConsoleLogger.v1 = spacy_mslm.training.logger:console_logger"],
    "spacy_callbacks": [
        "spacy_mslm.add_labels.v1 = spacy_mslm.pipeline.labels:make_add_labels",
        "spacy_mslm.safe_save.v1 = spacy_mslm.pipeline.saving:make_safe_save",
        "spacy_mslm.report_duplicates.v1 = spacy_mslm.corpus.duplicates:make_duplicate_report",
    ],
    "spacy_cli": ["mslm = spacy_mslm.cli:mslm_cli"],
    "thinc_optimizers": ["spacy_mslm.AdamW.v1 = spacy_mslm.model.optimizer:make_adamw"],
    "thinc_schedules": [
        "spacy_mslm.warmup_decay.v1 = spacy_mslm.model.schedules:warmup_decay",
        "spacy_mslm.warmup_decay.v2 = spacy_mslm.training.budget:warmup_decay_v2",
    ],
}

# The versions that a release was tested with are in constraints.txt.
BASE = [
    "numpy>=1.26",
    "spacy>=3.8.2,<3.9.0",
    "thinc>=8.3.4,<8.4.0",
    # Below 2.6 transformers refuses `.bin` weights.
    "torch>=2.6",
    "transformers>=4.48,<6",
    "typer>=0.9",
]
# A peer in benchmarks, and a partner: its pipes can read our encoder. It pins transformers below
# 4.53.3.
SPACY_TRANSFORMERS = "spacy-transformers>=1.4.0,<1.5.0"
EXTRAS = {
    # scispaCy pins numpy below 2, of which there is no wheel from Python 3.13 on.
    "weak": ["pysbd>=0.3.4", "scispacy>=0.6.2,<0.7; python_version < '3.13'"],
    "spacy-transformers": [SPACY_TRANSFORMERS],
    "skweak": ["skweak==0.3.3"],
    # From 26 on it refuses the numpy below 2 that scispaCy needs; below 16 it refuses numpy 2.
    "parquet": ["pyarrow>=16,<26"],
    "plots": ["matplotlib>=3.8"],
    # `spacy mslm optimize` writes with onnx; a pipeline that it has written needs onnxruntime.
    "onnx": ["onnx>=1.16", "onnxruntime>=1.18"],
    # What the workflows of project.yml need: `spacy package --build wheel`, and pictures.
    "project": ["build", "matplotlib>=3.8", SPACY_TRANSFORMERS],
    # Its actors are used, not Ray Data, which would add pandas and pyarrow.
    "ray": ["ray>=2.55"],
    # A sampler of `spacy mslm sweep`.
    "optuna": ["optuna>=4"],
    # `spacy mslm serve`.
    "serve": ["fastapi>=0.115", "prometheus-client>=0.20", "uvicorn>=0.30"],
    "cuda12x": ["cupy-cuda12x>=13.0"],
    # The documentation: `mkdocs serve`. Below 2, as MkDocs 2 has neither plugins nor hooks.
    "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.5", "mkdocstrings[python]>=0.27"],
}
EXTRAS["dev"] = [
    "accelerate>=0.26",  # the Trainer of transformers, a peer of `python -m benchmarks train`
    "build",
    "fastapi>=0.115",
    "httpx>=0.27",  # the test client of FastAPI
    "hypothesis>=6.100",
    "matplotlib>=3.8",
    "mypy>=1.10",
    "nervaluate>=1.2",
    "onnx>=1.16",
    "onnxruntime>=1.18",
    "optuna>=4",
    "prometheus-client>=0.20",
    "pyarrow>=16,<26",
    "pysbd>=0.3.4",
    "pytest>=8.0",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "ray>=2.55",
    "ruff>=0.6",
    "seqeval>=1.2.2",
    "skweak==0.3.3",
    SPACY_TRANSFORMERS,
    "uvicorn>=0.30",
]
ALL = ("weak", "onnx", "optuna", "plots", "ray", "serve", "spacy-transformers")
EXTRAS["all"] = sorted({r for name in ALL for r in EXTRAS[name]})

setup(
    name="spacy-mslm",
    version="0.1.0",
    description="Mask-specific language modeling (MSLM) for biomedical entities in spaCy",
    long_description=(HERE / "README.md").read_text(encoding="utf8"),
    long_description_content_type="text/markdown",
    license="MIT",
    author="The spacy-mslm team",
    python_requires=">=3.10",
    cmdclass={"build_py": BuildWithConfigs},
    packages=find_packages(include=["spacy_mslm", "spacy_mslm.*"]),
    package_data={
        "spacy_mslm": [
            "py.typed",
            *("data/*.json", "data/*.yml", "data/paper/*"),
            "server/assets/*",
        ]
    },
    install_requires=BASE,
    extras_require=EXTRAS,
    entry_points=ENTRY_POINTS,
    classifiers=[
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Medical Science Apps.",
        "Topic :: Text Processing :: Linguistic",
    ],
)
