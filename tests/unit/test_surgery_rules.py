"""From a rule to heads, and from heads to their healthy counterparts."""

from dataclasses import replace

import numpy as np
import pytest

from headviz.analysis.bands import Thresholds
from headviz.errors import BadInput, UnknownName
from headviz.surgery.healthy import matched_healthy
from headviz.surgery.rules import EXAMPLES, QUANTITIES, Measured, heads_by_rule, needs, parse
from headviz.types import Bands, Geometry, ScoreTable
from tests.unit.samples import provenance

L, H = 3, 4
SHAPE = Geometry(
    family="bloom", layers=L, heads=H, kv_heads=H, head_dim=8, hidden=32, slopes=(0.25, 0.0625, 0.015625, 0.00390625)
)  # fmt: skip
MASS = np.array([[0.1, 0.1, 0.2, 0.3], [0.1, 0.2, 0.6, 0.96], [0.1, 0.1, 0.4, 0.7]])
ENTROPY = np.array([[0.2, 2.0, 2.0, 2.0], [2.0, 2.0, 1.0, 0.1], [2.0, 2.0, 2.0, 2.0]])


def bands(mass=MASS, entropy=ENTROPY, shape=SHAPE) -> Bands:
    N = 2
    return Bands(
        mass=np.stack([mass - 0.01, mass + 0.01]).astype(np.float32),
        entropy=np.stack([entropy] * N).astype(np.float32),
        lengths=np.full(N, 9, np.int32), cluster=np.arange(N, dtype=np.int32), documents=("a", "b"),
        first_is_bos=np.zeros(N, bool), first=("The", "An"), geometry=shape, provenance=provenance(),
    )  # fmt: skip


def scores(**more) -> ScoreTable:
    ahon = np.arange(L * H, dtype=np.float32)[::-1].reshape(1, 1, L, H).copy()
    ahon[0, 0, 0, 0] = np.nan
    fields = {
        "metrics": ("ahon_ln",), "values": ahon, "reasons": {}, "lengths": np.array([5], np.int32),
        "tokens": np.zeros((1, 5), np.int32), "pieces": {}, "documents": ("d",), "cluster": np.zeros(1, np.int32),
        "first_is_bos": np.zeros(1, bool), "geometry": SHAPE, "provenance": provenance(),
    }  # fmt: skip
    return ScoreTable(**(fields | more))


KNOWN = Measured(geometry=SHAPE, bands=bands(), scores=scores())


@pytest.mark.parametrize(
    ("rule", "heads"),
    [
        ("bos>0.5", ((1, 2), (1, 3), (2, 3))),
        ("BOS > 0.5", ((1, 2), (1, 3), (2, 3))),
        ("bos>0.5 & slope<0.01 & layers 1-1", ((1, 3),)),
        ("bos>0.5 and layer 2", ((2, 3),)),
        ("bos>=0.35 & indices 2", ((1, 2), (2, 2))),
        ("class=dead", ((1, 3),)),
        ("class=sink", ((1, 2), (2, 3))),
        ("class=dead,sink", ((1, 2), (1, 3), (2, 3))),
        ("class=collapsed", ((1, 2), (1, 3), (2, 3))),
        ("class=low entropy", ((0, 0),)),
        ("class=low-entropy", ((0, 0),)),
        ("entropy<0.5", ((0, 0), (1, 3))),
        ("lowest 2 by ahon_ln", ((2, 2), (2, 3))),
        ("highest 1 by ahon_ln", ((0, 1),)),
        ("lowest 2 by ahon_ln & layers 0-1", ((1, 2), (1, 3))),
        ("lowest 1 by bos & heads 3", ((0, 3),)),
        ("heads L02.H01 L00.H03", ((0, 3), (2, 1))),
        ("L2.H1, L0.H3", ((0, 3), (2, 1))),
        ("heads L02.H01 L01.H03 & bos>0.5", ((1, 3),)),
    ],
)
def test_rules(rule, heads):
    assert heads_by_rule(rule, KNOWN) == heads


@pytest.mark.parametrize("rule", EXAMPLES)
def test_the_examples_can_be_read(rule):
    assert parse(rule)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("bos>0.99", "No head has BOS mass over 0.99; the largest is 0.96 (L01.H03)."),
        ("bos<0.01", "No head has BOS mass under 0.01; the smallest is 0.1 (L00.H00)."),
        ("bos>0.8 & layers 2", "No head in layer 2 has BOS mass over 0.8; the largest is 0.7 (L02.H03)."),
        ("bos>0.5 & slope>0.2", "No head with slope over 0.2 has BOS mass over 0.5; the largest is 0.1 (L00.H00)."),
        ("entropy<0.05", "No head has entropy under 0.05 nats; the smallest is 0.1 (L01.H03)."),
        ("slope>2", "No head has slope over 2; the largest is 0.25 (L00.H00)."),
        ("class=dead & layers 0", "No head in layer 0 is dead: there are 0 dead, 0 sink, 1 low entropy, 3 healthy."),
        ("heads L00.H01 & layers 2", "No head of those named is in layer 2."),
    ],
)  # fmt: skip
def test_no_head_is_a_sentence_with_the_nearest_one(rule, sentence):
    with pytest.raises(BadInput) as error:
        heads_by_rule(rule, KNOWN)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("", "is empty"),
        ("bos>0.5 &", "empty part"),
        ("bos", "cannot be read"),
        ("bos>high", "'high' is no number"),
        ("bos>nan", "is no number"),
        ("layers 1-9", "has layers 0 to 2"),
        ("heads 7", "has heads 0 to 3"),
        ("layers 2-1", "backwards"),
        ("heads L09.H00", "no head L09.H00"),
        ("lowest 99 by ahon_ln", "Ask for 1 to 11"),
        ("lowest 0 by ahon_ln", "Ask for 1 to 11"),
        ("lowest 1 by bos & highest 1 by bos", "twice"),
        ("ahon>1", "ahon, which was not measured"),
    ],
)
def test_bad_rules_are_sentences(rule, says):
    with pytest.raises(BadInput, match=says):
        heads_by_rule(rule, KNOWN)


@pytest.mark.parametrize(("rule", "says"), [("bass>0.5", "bos"), ("class=dad", "Did you mean 'dead'")])
def test_unknown_names_are_suggested(rule, says):
    with pytest.raises(UnknownName, match=says):
        heads_by_rule(rule, KNOWN)


def test_what_was_not_measured_is_said():
    bare = Measured(geometry=SHAPE)
    for rule in ("bos>0.5", "class=dead", "lowest 2 by ahon_ln"):
        with pytest.raises(BadInput, match="not measured"):
            heads_by_rule(rule, bare)
    assert heads_by_rule("slope<0.01", bare) == ((0, 3), (1, 3), (2, 3))
    with pytest.raises(BadInput, match="no slope"):
        heads_by_rule("slope<0.01", replace(bare, geometry=replace(SHAPE, slopes=None)))


def test_what_a_rule_needs():
    assert needs("bos>0.5 & slope<1 & layers 1") == {"bands"}
    assert needs("lowest 2 by ahon_ln & class=dead") == {"bands", "scores"}
    assert needs("heads L01.H01") == set()
    assert all(row.help for row in QUANTITIES.values())


def test_thresholds_of_the_plan_decide_the_classes():
    assert heads_by_rule("class=dead", replace(KNOWN, at=Thresholds(dead=0.65))) == ((1, 3), (2, 3))


# ------------------------------------------------------------------------------------------------- healthy heads


def test_healthy_heads_have_the_same_slope_where_there_are_some():
    # of index 2: L00 and L02 are healthy; of index 3: only L00
    assert matched_healthy(((1, 2), (1, 3)), KNOWN) == ((0, 2), (0, 3))
    assert matched_healthy(((2, 2),), KNOWN) == ((0, 2),), "never itself, never a collapsed one"


def test_then_the_nearest_slope_in_the_nearest_layer():
    # (1, 3) takes the only healthy head of index 3; (2, 3) gets index 2, the nearest slope, in its own layer
    assert matched_healthy(((1, 3), (2, 3)), KNOWN) == ((0, 3), (2, 2))


def test_an_exact_match_is_not_taken_by_a_near_one():
    # the only healthy head of index 2 goes to (1, 2), although (0, 3) comes first and has none of its own
    assert matched_healthy(((0, 3), (1, 2), (2, 2)), KNOWN) == ((0, 1), (0, 2), (2, 1))


def test_too_few_healthy_heads_are_a_sentence():
    every = tuple((layer, head) for layer in range(L) for head in range(H))
    with pytest.raises(BadInput, match="has 3 healthy heads that are not treated, and 9 are treated"):
        matched_healthy(every[:9], replace(KNOWN, bands=bands(np.full((L, H), 0.1), np.full((L, H), 2.0))))


def test_without_slopes_the_nearest_layer():
    flat = replace(SHAPE, slopes=None, family="llama")
    known = Measured(geometry=flat, bands=bands(shape=flat))
    assert matched_healthy(((1, 3),), known) == ((1, 0),)
