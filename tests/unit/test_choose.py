"""Static head sets: chosen by a score, by group, at random, and as a file."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest

from headviz.analysis.choose import HeadSet, choose, head_set, random_sets, savings, too_small
from headviz.analysis.headfile import read_heads, write_heads
from headviz.errors import BadInput, UnknownName
from headviz.types import Geometry
from tests.fakes import fake_table


def shape(layers=2, heads=6, kv_heads=2, head_dim=4, hidden=24):
    return Geometry(
        family="tiny", layers=layers, heads=heads, kv_heads=kv_heads, head_dim=head_dim, hidden=hidden
    )


SMOL = shape(30, 9, 3, 64, 576)


def numbers(geometry, seed=0):
    return np.random.default_rng(seed).random((geometry.layers, geometry.heads))


def slow_choice(scores, count, high):
    """Sort all heads, most inactive first, ties by layer then head; take the first `count`."""
    every = [(-v if high else v, layer, head) for (layer, head), v in np.ndenumerate(scores)]
    return tuple(sorted((layer, head) for _, layer, head in sorted(every)[:count]))


@pytest.mark.parametrize(("metric", "count"), list(itertools.product(("awft", "ahon_ln"), (0, 1, 5, 12))))
def test_the_most_inactive_heads(metric, count):
    scores = numbers(shape()).round(1)  # with ties
    chosen = choose(scores, metric, count=count, geometry=shape())
    assert chosen.heads == slow_choice(scores, count, high=metric == "awft")
    assert chosen.count == count


def test_ties_go_by_layer_then_head():
    assert choose(np.ones((2, 6)), "ahon", count=7, geometry=shape()).heads == tuple(
        [(0, h) for h in range(6)] + [(1, 0)]
    )


def test_share_rounds_to_the_nearest_head():
    assert choose(numbers(SMOL), "ahon", share=0.2, geometry=SMOL).count == 54
    chosen = choose(numbers(shape()), "ahon", share=0.2, geometry=shape())  # 2.4 of 12
    assert (chosen.count, chosen.share) == (2, 2 / 12)
    assert choose(numbers(shape()), "ahon", share=1.5 / 12, geometry=shape()).count == 2  # halves up
    assert choose(numbers(shape()), "ahon", share=1, geometry=shape()).share == 1


def test_a_threshold_takes_what_is_strictly_beyond_it():
    scores = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, np.nan]] * 2)
    assert choose(scores, "ahon", threshold=0.3, geometry=shape()).heads == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert choose(scores, "awft", threshold=0.4, geometry=shape()).heads == ((0, 4), (1, 4))


def test_a_head_without_a_value_is_never_chosen():
    scores = np.arange(12.0).reshape(2, 6)
    scores[0, :3] = np.nan
    assert choose(scores, "ahon", count=2, geometry=shape()).heads == ((0, 3), (0, 4))
    assert (0, 0) not in choose(scores, "awft", count=9, geometry=shape()).heads
    with pytest.raises(BadInput, match="only 9 of 12 have a value"):
        choose(scores, "ahon", count=10, geometry=shape())
    whole = choose(scores, "ahon", count=3, by="group", geometry=shape())
    assert whole.heads == ((0, 3), (0, 4), (0, 5))


def test_equal_budget_per_layer():
    scores = numbers(SMOL)
    chosen = choose(scores, "ahon", share=0.2, per_layer=True, geometry=SMOL)
    assert chosen.per_layer().tolist() == [2] * 30  # 1.8, rounded: 22% of the heads
    for layer in range(30):
        assert [h for la, h in chosen.heads if la == layer] == sorted(np.argsort(scores[layer])[:2])
    assert choose(scores, "ahon", count=60, per_layer=True, geometry=SMOL) == chosen
    with pytest.raises(BadInput, match="50 heads cannot be shared out equally over 30 layers"):
        choose(scores, "ahon", count=50, per_layer=True, geometry=SMOL)
    with pytest.raises(BadInput, match="cannot be equal per layer"):
        choose(scores, "ahon", threshold=0.5, per_layer=True, geometry=SMOL)


# ------------------------------------------------------------------------------------------------------ groups


def test_groups_go_by_the_mean_of_their_heads():
    scores = np.array([[0.0, 0.9, 0.9, 0.3, 0.3, 0.3], [0.5, 0.5, 0.5, 0.7, 0.7, 0.7]])
    assert choose(scores, "ahon", count=3, by="group", geometry=shape()).heads == ((0, 3), (0, 4), (0, 5))
    assert choose(scores, "awft", count=3, by="group", geometry=shape()).heads == ((1, 3), (1, 4), (1, 5))
    below = choose(scores, "ahon", threshold=0.55, by="group", geometry=shape())
    assert below.per_layer().tolist() == [3, 3]


@pytest.mark.parametrize(("count", "expected"), [(2, 0), (3, 3), (5, 3), (6, 6), (11, 9)])
def test_a_budget_is_never_passed(count, expected):
    assert choose(numbers(shape()), "ahon", count=count, by="group", geometry=shape()).count == expected


@pytest.mark.parametrize(("count", "expected"), [(3, 3), (6, 3), (8, 3), (9, 9), (12, 12)])
def test_equal_groups_stand_or_fall_together(count, expected):
    scores = np.repeat([[0.1, 0.5], [0.5, 0.9]], 3, axis=1)  # two groups at 0.5
    assert choose(scores, "ahon", count=count, by="group", geometry=shape()).count == expected


def test_equal_groups_per_layer():
    scores = np.repeat([[0.5, 0.5], [0.5, 0.9]], 3, axis=1)
    assert choose(
        scores, "ahon", count=6, by="group", per_layer=True, geometry=shape()
    ).per_layer().tolist() == [0, 3]


def test_whole_groups_of_a_set():
    some = HeadSet(heads=((0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 4), (1, 5)), geometry=shape())
    assert some.whole_groups().tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("bad", [{"share": 0.1, "count": 2}, {}, {"share": 0.1, "threshold": 1.0}])
def test_one_way_to_say_how_many(bad):
    with pytest.raises(BadInput, match="in one way"):
        choose(numbers(shape()), "ahon", geometry=shape(), **bad)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"share": 20}, r"not at 20\. 20% is 0\.2\."),
        ({"share": 1.2}, "between 0 and 1, where 1 is 100%"),
        ({"share": -0.1}, "between 0 and 1"),
        ({"share": float("nan")}, "between 0 and 1"),
        ({"count": 13}, "The model has 12 heads; 13 cannot"),
        ({"count": -1}, "0 or more, not -1"),
        ({"count": 2.5}, "0 or more, not 2.5"),
        ({"count": 2, "by": "layer"}, "by 'head' or by 'group'"),
    ],
)
def test_bad_budgets_are_a_sentence(options, says):
    with pytest.raises(BadInput, match=says):
        choose(numbers(shape()), "ahon", geometry=shape(), **options)


def test_bad_scores_are_a_sentence():
    with pytest.raises(BadInput, match="2 layers of 6 heads; these numbers have shape"):
        choose(numbers(SMOL), "ahon", count=1, geometry=shape())
    with pytest.raises(UnknownName, match="Did you mean 'ahon_ln'"):
        choose(numbers(shape()), "ahon_lm", count=1, geometry=shape())


# -------------------------------------------------------------------------------------------------------- sets


def test_a_set_is_sorted_and_knows_its_mask():
    some = HeadSet(heads=((1, 2), (0, 5), (1, 0)), geometry=shape())
    assert some.heads == ((0, 5), (1, 0), (1, 2))
    assert some.mask().sum() == some.count == 3
    assert some.per_layer().tolist() == [1, 2]
    assert head_set(some.mask(), shape()) == some
    assert HeadSet(heads=(), geometry=shape()).mask().sum() == 0


@pytest.mark.parametrize(
    ("heads", "says"),
    [
        (((2, 0),), r"no head L02\.H00: the model has layers 0 to 1 and heads 0 to 5"),
        (((0, 6),), r"no head L00\.H06"),
        (((0, -1),), "no head"),
        (((0, 1), (0, 1)), r"L00\.H01 is in the set twice"),
        (((0, 1.0),), "two whole numbers"),
        (((0, True),), "two whole numbers"),
        (((0, 1, 2),), "a layer and a head number"),
        ((3,), "a layer and a head number"),
    ],
)
def test_impossible_sets_are_a_sentence(heads, says):
    with pytest.raises(BadInput, match=says):
        HeadSet(heads=heads, geometry=shape())


# ------------------------------------------------------------------------------------------------------ random


def test_random_sets_are_uniform_over_heads():
    sets = random_sets(4, shape(), 3000, seed=0)
    assert {s.count for s in sets} == {4}
    hits = sum(s.mask().astype(int) for s in sets)
    assert hits == pytest.approx(np.full((2, 6), 1000), abs=110)  # 4 standard deviations of 26
    assert len({s.heads for s in sets}) > 480  # of the 495 there are


def test_layer_matched_sets_keep_each_layers_number():
    like = HeadSet(heads=((0, 0), (1, 1), (1, 2), (1, 3)), geometry=shape())
    sets = random_sets(4, shape(), 1500, seed=0, layer_matched=like)
    assert {tuple(s.per_layer()) for s in sets} == {(1, 3)}
    seen = Counter(s.heads for s in sets)
    assert len(seen) == 6 * 20
    assert any(tuple(s.per_layer()) != (1, 3) for s in random_sets(4, shape(), 20, seed=0))


def test_more_draws_extend_the_first_ones():
    assert random_sets(54, SMOL, 3, seed=7) == random_sets(54, SMOL, 20, seed=7)[:3]
    assert random_sets(54, SMOL, 1, seed=7) != random_sets(54, SMOL, 1, seed=8)


def test_random_groups_are_whole():
    sets = random_sets(54, SMOL, 10, seed=0, by="group")
    assert all(s.count == 54 and s.whole_groups().sum() == 18 for s in sets)
    like = sets[0]
    matched = random_sets(54, SMOL, 10, seed=1, layer_matched=like, by="group")
    assert all((s.per_layer() == like.per_layer()).all() and s.whole_groups().sum() == 18 for s in matched)
    with pytest.raises(BadInput, match="Whole KV groups have 3 heads each"):
        random_sets(55, SMOL, 1, seed=0, by="group")


def test_bad_random_sets_are_a_sentence():
    like = HeadSet(heads=((0, 0),), geometry=shape())
    with pytest.raises(BadInput, match="at least one draw"):
        random_sets(1, shape(), 0, seed=0)
    with pytest.raises(BadInput, match="need a set of 2 heads of the same model, not of 1"):
        random_sets(2, shape(), 1, seed=0, layer_matched=like)
    with pytest.raises(BadInput, match="12 heads; 13"):
        random_sets(13, shape(), 1, seed=0)


# ----------------------------------------------------------------------------------------------------- savings


def test_only_whole_groups_could_save():
    whole = [(0, h) for h in range(3)]
    chosen = HeadSet(heads=(*whole, (5, 0), (5, 1)), geometry=SMOL)  # group 0 of layer 5 keeps a head
    found = savings(chosen, context=100)
    assert (found.groups, found.groups_total, found.share) == (1, 90, 1 / 90)
    assert found.kv_bytes_per_token == 2 * 64 * 2  # a key and a value of 64 numbers, 2 bytes each
    assert found.kv_bytes_total == 30 * 3 * 256
    # query and output of three heads, key and value of one; scores and weighted sum of three heads over 100 tokens
    assert found.flops_per_token == 2 * (3 * 2 * 576 * 64 + 2 * 576 * 64) + 3 * 2 * (2 * 100 * 64)
    assert found.flops_per_token / found.flops_total == pytest.approx(found.share)
    assert savings(chosen, context=100, bytes_per_number=4).kv_bytes_per_token == 512


def test_all_off_saves_what_all_attention_costs():
    every = head_set(np.ones((30, 9), dtype=bool), SMOL)
    found = savings(every, context=1)
    assert (found.share, found.flops_per_token) == (1, found.flops_total)
    assert savings(HeadSet(heads=(), geometry=SMOL), context=1).kv_bytes_per_token == 0
    with pytest.raises(BadInput, match="at least one token"):
        savings(every, context=0)


# ------------------------------------------------------------------------------------------------------- files

SET = HeadSet(heads=((0, 5), (1, 0)), geometry=shape())


def test_a_file_comes_back_as_it_was(tmp_path):
    text = write_heads(SET, model="org/name", revision="abc", how={"score": "ahon_ln", "share_asked": 0.2})
    path = tmp_path / "heads.json"
    path.write_text(text)
    for source in (text, text.encode(), path):
        assert read_heads(source, model="org/name", revision="abc", geometry=shape()) == SET
    tree = json.loads(text)
    assert (tree["count"], tree["share"], tree["how"]["score"]) == (2, 2 / 12, "ahon_ln")
    assert "  [0, 5],\n" in text  # a head a line
    empty = HeadSet(heads=(), geometry=shape())
    assert read_heads(write_heads(empty, model="m"), model="m", geometry=shape()) == empty


def test_a_file_by_hand_needs_only_the_model_and_the_heads():
    text = '{"model": "org/name", "heads": [[1, 0], "L00.H05"]}'
    assert read_heads(text, model="org/name", revision="abc", geometry=shape()) == SET


def changed(**fields):
    tree = json.loads(write_heads(SET, model="org/name", revision="abc"))
    return json.dumps({name: value for name, value in (tree | fields).items() if value is not None})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (changed(model={"name": "org/other"}), "for org/other, not for org/name"),
        (
            changed(model={"name": "org/name", "revision": "xyz"}),
            "revision xyz of org/name, but abc is loaded",
        ),
        (changed(model=None), "does not say which model"),
        (changed(model=3), "does not say which model"),
        (changed(geometry={"layers": 30}), "a model with 30 layers; org/name has 2"),
        (changed(geometry={"kv_heads": 6}), "a model with 6 kv_heads; org/name has 2"),
        (changed(geometry=[1]), "not a JSON object"),
        (changed(heads=[[0, 9]], count=1), r"no head L00\.H09"),
        (changed(heads=[[0, 1], [0, 1]]), "twice"),
        (changed(heads=[[0, 1.5]], count=1), "two whole numbers"),
        (changed(heads=["H1"], count=1), r"written \[layer, head\] or L03\.H07, not 'H1'"),
        (changed(heads={"0": 1}), "no head set"),
        (changed(count=3), "says it has 3 heads but lists 2"),
        (changed(version=2), "version 2"),
        (changed(format="something"), "'something'"),
        ("[]", "no head set"),
        ("{", "not JSON"),
        (b"\xff\xff", "not JSON"),
    ],
)
def test_bad_files_are_a_sentence(text, says):
    with pytest.raises(BadInput, match=says):
        read_heads(text, model="org/name", revision="abc", geometry=shape())


def test_no_such_file(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        read_heads(tmp_path / "none.json", model="m", geometry=shape())


@pytest.mark.parametrize("metric", ["awft", "ahon_ln"])
def test_turned_takes_the_other_end(metric):
    scores = numbers(shape()).round(1)  # with ties
    chosen = choose(scores, metric, count=5, geometry=shape(), turned=True)
    assert chosen.heads == slow_choice(scores, 5, high=metric != "awft")
    rest = choose(scores, metric, count=7, geometry=shape())
    values = scores[chosen.mask()], scores[rest.mask()]
    assert values[0].min() >= values[1].max() if metric != "awft" else values[0].max() <= values[1].min()
    beyond = choose(scores, metric, threshold=0.5, geometry=shape(), turned=True)
    assert (beyond.mask() == (scores < 0.5 if metric == "awft" else scores > 0.5)).all()
    missing = scores.copy()
    missing[0, 0] = np.nan
    assert (0, 0) not in choose(missing, metric, count=11, geometry=shape(), turned=True).heads


@pytest.mark.parametrize(
    ("share", "by", "per_layer", "told"),
    [
        (0.2, "group", True, "20% of 9 heads a layer is fewer than one KV group of 3; the next step is 28%"),
        (0.28, "group", True, ""),
        (0.005, "group", False, "0.5% of 270 heads is fewer than one KV group of 3; the next step is 1%"),
        (0.05, "head", True, "5% of 9 heads a layer is fewer than half a head; the next step is 6%"),
        (0.0, "group", True, ""),
    ],
)
def test_a_share_too_small_says_what_is_enough(share, by, per_layer, told):
    shape = fake_table().geometry
    assert too_small(share, shape, by, per_layer) == told
