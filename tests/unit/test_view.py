"""The view in the URL: every value round-trips, every bad one is named."""

from urllib.parse import parse_qsl

import pytest

from headviz.errors import BadInput
from headviz.readers import parse_head, parse_heads, write_heads
from headviz.view import VIEW, query, read_url, written

CHANGED = {
    "model": "org/model",
    "revision": "v1",
    "dtype": "bfloat16",
    "quantization": "8bit",
    "corpus": "hub",
    "dataset": "owner/name",
    "config": "en",
    "split": "train",
    "column": "text",
    "data_revision": "b" * 40,
    "text": "0" * 64,
    "part": "all",
    "inputs": 3,
    "tokens": 17,
    "seed": 5,
    "bos": "never",
    "chat": True,
    "metric": "awft",
    "rule": "value",
    "share": 12.5,
    "threshold": 0.1 + 0.2,
    "shows": "inactive",
    "head": "L03.H07",
    "panel": "ranking",
    "picture": "png",
    "target": "quiz",
    "off": 10.0,
    "by": "group",
    "even": True,
    "draws": 20,
    "scoring": "text",
    "shots": "0",
    "each": 5,
    "look": "subjects",
    "mode": "per-input",
    "turned": True,
    "pick": "hand",
    "picked": "3:0,4,7;5:1",
    "scores": "awft,ahon",
    "questions": "1" * 64,
    "subjects": "anatomy,virology",
    "template": True,
    "chosen": "stdlib-code",
    "chosen_part": "train",
    "chosen_inputs": 8,
    "strict": "value",
    "cut": 0.3,
    "wide": True,
    "by_whom": "mine.json",
    "picked_on": "0123abcd[null]",
    "half": "first",
    "points": 0.5,
    "nats": 0.1,
    "alone": "whole",
    "shown": "cost",
    "prompt": "Once upon a time",
    "length": 12,
    "turn": True,
    "instead": "mean",
    "others": "layer_matched",
    "against": "org/one@v2,mine",
    "other_dtype": "float16",
    "other_quantization": "4bit",
    "other_data": "stdlib-code",
    "other_bos": "always",
    "pair": 2,
    "share_by": "share",
    "differs": "stable",
    "texts": "docstrings,wikitext",
    "lengths": "64,256",
    "first": "ahon",
    "second": "avvn",
    "budget_by": "share",
    "budget": 12.5,
    "line_first": 0.1 + 0.2,
    "line_second": 0.7,
    "follow": "model",
    "marked": "3:0,4;5:1",
    "looked": "5:1",
    "boxes": False,
    "facet": "cards",
    "agree_by": "overlap",
    "agreed": True,
    "step": 3,
    "order": "index",
    "rows": "later",
    "dead_above": 0.8,
    "sink_above": 0.4,
    "nats_below": 0.3,
    "band_over": 10.0,
    "reported": False,
    "overlaid": "org/one,mine",
    "aspect": "kernel",
    "instead_of_bos": ".",
    "repair": "band",
    "treat_by": "hand",
    "treat_rule": "bos>0.5 & slope<0.1 & layers 5-22",
    "treated": "1:9,10;2:15",
    "treated_from": "mine.json",
    "repair_arms": "repair,removed",
    "repair_seeds": "4,2",
    "train_on": "left",
    "train_windows": 100,
    "train_tokens": 128,
    "shuffled": True,
    "held_on": "wikitext",
    "held_windows": 32,
    "other_on": "none",
    "repair_steps": 40,
    "every": 5,
    "patience": 3,
    "passes": 2,
    "repair_threads": 2,
    "recipe": "edited",
    "init": "xavier-normal",
    "joint": False,
    "rate": 0.0003,
    "decay": 0.01,
    "clip": 0.5,
    "batch": 4,
    "accumulate": 2,
    "warmup": 10,
    "schedule": "constant",
    "master": "model",
    "recompute": True,
    "stage": "watch",
    "operation": "2" * 64,
    "versus": "3" * 64,
    "recovery": "film",
    "arm_shown": "no-reinit",
    "seed_shown": 2,
    "pass_shown": 2,
    "loss_as": "perplexity",
    "among": "all",
    "point": "last",
    "inside": True,
    "input": 2,
}


def test_every_parameter_is_tried_here():
    assert set(CHANGED) == set(VIEW)
    assert all(CHANGED[name] != VIEW[name].default for name in VIEW)


@pytest.mark.parametrize(
    ("name", "by", "page"),
    [("off", "strict", "ablation"), ("share", "rule", "heads"), ("budget", "budget_by", "disagreement")],
)
def test_a_share_in_a_link_is_meant_and_one_that_the_page_found_is_not_written(name, by, page):
    assert read_url({name: "12.5"})[0] == {name: 12.5, by: "share"}
    assert read_url({name: "12.5", by: "auto"})[0][by] == "auto"
    assert written({name: 12.5, by: "auto"}, page, defaults=False) == {}
    assert written({name: 12.5, by: "share"}, page, defaults=False) == {name: "12.5", by: "share"}


def test_a_link_gives_back_every_value_exactly():
    back = {}
    for page in ("heads", "ablation", "disagreement", "compare", "bands", "surgery"):
        values, ignored = read_url(dict(parse_qsl(query(CHANGED, page))))
        assert ignored == []
        back |= values
    assert back == CHANGED


def test_a_link_writes_defaults_too_and_the_address_bar_does_not():
    defaults = {name: parameter.default for name, parameter in VIEW.items()}
    assert "metric=ahon_ln" in query(defaults, "heads")
    assert written(defaults, "heads", defaults=False) == {}


def test_a_threshold_of_zero_is_one_that_somebody_set():
    values, ignored = read_url({"line_first": "0", "line_second": ""})
    assert ignored == []
    assert values == {"line_first": 0.0, "line_second": None}
    assert written(values, "disagreement", defaults=False) == {"line_first": "0.0"}


def test_a_page_writes_only_what_it_uses():
    assert "metric" not in written(CHANGED, "jobs", defaults=True)
    assert written(CHANGED, "jobs", defaults=True)["model"] == "org/model"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"metric": "ahno_ln"}, "Did you mean 'ahon_ln'"),
        ({"inputs": "0"}, "whole number from 1 to 2,000"),
        ({"inputs": "-3"}, "whole number"),
        ({"share": "140"}, "0 to 100"),
        ({"share": "nan"}, "0 to 100"),
        ({"head": "nonsense"}, "L03.H07"),
        ({"text": "../../etc/passwd"}, "64 hex digits"),
        ({"chat": "yes"}, "true, false"),
        ({"nothing": "1"}, "`nothing` is no parameter"),
        ({"model": "a\x00b"}, "control characters"),
        ({"repair_seeds": ","}, "whole numbers, such as 0,1,2"),
        ({"repair_seeds": "0,x"}, "whole number"),
        ({"repair_arms": "repair,nothing"}, "nothing"),
        ({"operation": "12ab"}, "64 hex digits"),
    ],
)
def test_a_bad_value_is_ignored_aloud(parameters, said):
    values, ignored = read_url(parameters)
    assert values == {}
    assert len(ignored) == 1
    assert said in ignored[0]


@pytest.mark.parametrize("text", ["L03.H07", "l3.h7", "3.7", "3 7", " L3:H7 ", "3,7"])
def test_heads_are_read_the_ways_people_write_them(text):
    assert parse_head(text) == (3, 7)


@pytest.mark.parametrize("text", ["", "L3", "H7", "L-1.H2", "three"])
def test_what_is_no_head_says_how_to_write_one(text):
    with pytest.raises(BadInput, match=r"L03\.H07"):
        parse_head(text)


@pytest.mark.parametrize(
    ("text", "heads"),
    [
        ("", ()),
        ("3:7", ((3, 7),)),
        ("5:1;3:7,0,4", ((3, 0), (3, 4), (3, 7), (5, 1))),
        ("3:0,0;3:1", ((3, 0), (3, 1))),
    ],
)
def test_heads_in_a_url_are_a_set(text, heads):
    assert parse_heads(text) == heads
    assert parse_heads(write_heads(heads)) == heads


@pytest.mark.parametrize("text", ["3", "3:", ":1", "3:1,", "3:1;", "L3:1", "3:1 5:2", "3:1000", "-1:2"])
def test_what_is_no_list_of_heads_says_how_to_write_one(text):
    with pytest.raises(BadInput, match="Write it like 3:0,4,7;5:1"):
        parse_heads(text)
    values, ignored = read_url({"picked": text})
    assert (values, len(ignored)) == ({}, 1)


def test_an_empty_box_that_a_link_fills_wrongly_goes_back_to_its_default_in_words():
    values, ignored = read_url({"train_tokens": "0"})
    assert "train_tokens" not in values
    assert ignored == [
        "`train_tokens=0` was ignored: it must be a whole number from 2 to 8,192. Shown instead: the default."
    ]
