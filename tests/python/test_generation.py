"""lfarm.generate() and seeds: if these fail, tokens are not eager's, or random numbers no seed's."""

import pytest

import lfarm

BUDGET = {"budget_candidates": 2, "threads": 1}


@pytest.fixture(scope="module")
def decoder(farm):
    session = lfarm.Session(deadline=60, **BUDGET)
    return lambda folder: session.load(folder / "decode.pt2").generator()


@pytest.fixture
def folder(fixture):
    return fixture("mlp").parent.parent / "decoder"


def ids(file):
    return list(map(int, file.read_text().split()))


def test_gives_eagers_tokens_one_by_one(decoder, folder):
    told = []
    model = decoder(folder)
    tokens = lfarm.generate(
        model, ids(folder / "prompt.txt"), 30, on_token=lambda *token: told.append(token)
    )
    assert tokens == ids(folder / "tokens.txt")
    assert told == [(0, step, token) for step, token in enumerate(tokens)]


def test_draws_by_its_seed_and_stops(decoder, folder):
    model, prompt = decoder(folder), ids(folder / "prompt.txt")
    drawn = lfarm.generate(model, [prompt], 12, temperature=2.0, seed=5)
    assert drawn == lfarm.generate(model, [prompt], 12, temperature=2.0, seed=5)
    assert drawn != lfarm.generate(model, [prompt], 12, temperature=2.0, seed=6)
    (tokens,) = drawn
    stopped = lfarm.generate(model, prompt, 12, temperature=2.0, seed=5, stop=[tokens[3]])
    assert stopped == tokens[: tokens.index(tokens[3]) + 1]
    ended = lfarm.generate(model, prompt, 12, on_token=lambda sequence, step, token: step < 1)
    assert len(ended) == 2


def test_errors_leave_the_callback_and_the_library(decoder, folder):
    model, prompt = decoder(folder), ids(folder / "prompt.txt")

    def fail(*token):
        raise KeyError(token)

    with pytest.raises(KeyError):
        lfarm.generate(model, prompt, 3, on_token=fail)
    with pytest.raises(lfarm.Error, match="outside of"):
        lfarm.generate(model, [100_000], 3)
    with pytest.raises(ValueError, match="one length"):
        lfarm.generate(model, [[1, 2], [3]], 3)
    with pytest.raises(lfarm.Error, match="top-p"):
        lfarm.generate(model, prompt, 3, temperature=1.0, top_p=2.0)


def test_a_model_that_draws_nothing_takes_no_seed(decoder, folder):
    with pytest.raises(lfarm.Error, match="draws no random numbers"):
        decoder(folder).seed(3)
