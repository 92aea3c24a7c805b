"""Tags of another pipeline as probabilities: from CompletedCorpus to the loss."""

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc
from spacy.training import Example
from torch.nn.functional import cross_entropy

from spacy_mslm.corpus.completed import CompletedCorpus
from spacy_mslm.corpus.gold import JOINT, soft_tags
from spacy_mslm.pieces.collate import _join_tags
from spacy_mslm.training.losses import _n_tags, mean_loss
from spacy_mslm.types import MISSING, B, I, O, one_hot
from spacy_mslm.util.extensions import annotated_labels, set_annotated_labels

TEXT = "renal failure and asthma after aspirin"
WORDS = TEXT.split()
TYPED = {"@architectures": "spacy_mslm.MSLM.v2"}


def genes(nlp):
    """One document that annotates a gene only: `asthma`."""
    example = Example.from_dict(nlp.make_doc(TEXT), {"entities": [(18, 24, "Gene")]})
    set_annotated_labels(example.reference, ["Gene"])
    yield example


def probabilities(nlp, words=WORDS) -> np.ndarray:
    pipe = nlp.get_pipe("mslm")
    (prediction,) = pipe.predict([Doc(nlp.vocab, words=list(words))])
    return prediction.bio


@pytest.mark.parametrize("typed", [False, True])
def test_a_pipe_learns_the_tags_of_the_old_one_where_nothing_is_annotated(
    typed, make_nlp, tmp_path
):
    old = make_nlp(**({"model": TYPED} if typed else {}))
    old.to_disk(tmp_path / "old")
    given = probabilities(old)
    new = spacy.load(tmp_path / "old")
    pipe = new.get_pipe("mslm")
    pipe.add_label("Gene")
    (example,) = CompletedCorpus(genes, str(tmp_path / "old"), soft=True)(new)
    gold = pipe.align(example)
    gene = WORDS.index("asthma")
    if typed:
        assert np.allclose(gold.soft[:, :-1], given)
        assert np.array_equal(gold.soft[:, -1], one_hot(gold.tags[:, -1]))
        assert gold.tags[gene, -1] == B
    else:
        others = np.arange(len(WORDS)) != gene
        assert np.allclose(gold.soft[others], given[others])
        assert gold.soft[gene].tolist() == one_hot(np.array(B)).tolist()
    # What it learns is what it says already: apart from the new mention, there is no gradient.
    losses = pipe.update([example], sgd=None)
    entropy = -(gold.soft * np.log(np.maximum(gold.soft, 1e-9))).sum(-1)
    assert losses["mslm_ed"] >= entropy.mean() * 0.99


def test_without_soft_there_are_only_tags(make_nlp, tmp_path):
    make_nlp().to_disk(tmp_path / "old")
    new = spacy.load(tmp_path / "old")
    (example,) = CompletedCorpus(genes, str(tmp_path / "old"))(new)
    assert example.reference._.soft_tags is None
    assert new.get_pipe("mslm").align(example).soft is None


def test_architectures_must_be_the_same(make_nlp, tmp_path):
    old = make_nlp()  # of two types, tagged together
    old.to_disk(tmp_path / "old")
    new = make_nlp(model=TYPED)
    new.get_pipe("mslm").add_label("Gene")
    (example,) = CompletedCorpus(genes, str(tmp_path / "old"), soft=True)(new)
    with pytest.raises(ValueError, match=r"tag in different ways.* Set soft = false"):
        new.get_pipe("mslm").align(example)
    old.get_pipe("mslm").add_label("Drug")
    old.to_disk(tmp_path / "more")
    two = CompletedCorpus(genes, [str(tmp_path / "old"), str(tmp_path / "more")], soft=True)
    with pytest.raises(ValueError, match=r"takes one pipeline with spacy_mslm\.MSLM\.v1"):
        list(two(new))


def test_a_pipeline_without_tags_cannot_teach(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler")
    nlp.to_disk(tmp_path / "rules")
    with pytest.raises(ValueError, match=r"has 0 mslm pipes"):
        list(CompletedCorpus(genes, str(tmp_path / "rules"), soft=True)(nlp))


def test_tokens_that_differ_keep_their_tags():
    """`renal failure` is one token of the reference and two of the prediction."""
    vocab = spacy.blank("en").vocab
    reference = Doc(vocab, words=["renal failure", "after", "aspirin"], ents=["O", "O", "B-Gene"])
    predicted = Doc(vocab, words=["renal", "failure", "after", "aspirin"])
    reference._.soft_tags = {JOINT: np.full((3, 3), [0.2, 0.3, 0.5])}
    soft = soft_tags(Example(predicted, reference), np.array([O, MISSING, O, B]), ["Gene"])
    assert soft[0].tolist() == [0, 0, 1] and soft[1].tolist() == [0, 0, 0]
    assert np.allclose(soft[2:], [0.2, 0.3, 0.5])
    assert annotated_labels(reference) is None


def test_loss_of_probabilities_by_hand():
    """Rows with tags and rows with probabilities in one batch: MISSING tags have no loss."""
    hard = np.array([[B, MISSING], [O, I]])
    soft = np.array([[[0.2, 0.3, 0.5], [0, 0, 0]]], dtype=np.float32)
    joined = _join_tags([hard, soft])
    assert joined.shape == (3, 2, 3) and _n_tags(joined) == 4
    logits = torch.randn(3, 2, 3, generator=torch.Generator().manual_seed(0))
    found = mean_loss(logits, torch.from_numpy(joined), 4)
    tags = cross_entropy(
        logits[:2].flatten(0, 1), torch.tensor([B, MISSING, O, I]), ignore_index=-1, reduction="sum"
    )
    own = -(torch.tensor([0.2, 0.3, 0.5]) * logits[2, 0].log_softmax(-1)).sum()
    assert found.item() == pytest.approx(((tags + own) / 4).item(), rel=1e-5)
