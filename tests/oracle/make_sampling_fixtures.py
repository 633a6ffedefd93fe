"""Makes tests/fixtures/sampling/sampling.json: what NumPy says of bias, penalties, filters and log-probabilities.

    python tests/oracle/make_sampling_fixtures.py [folder]

Written from the definitions in docs/sampling.md, in float64, over the whole vocabulary at once.

greedy         random logits, bias and penalties; the token that temperature 0 takes, and the log-probabilities
distributions  temperature, top-k, top-p, min-p, alone and together; the probability of every token
limit          of chi-square over DRAWS draws: passed by one sound run in a thousand (Wilson and Hilferty, 1931)
noticed        how many cases have another answer when one thing is left out or done wrongly; the maker refuses too few

A bias of null is -inf. Cases in which rounding could decide are not written.
"""

import json
import platform
import sys
from pathlib import Path
from statistics import NormalDist

import numpy as np

GREEDY_CASES, DRAWS, CLEAR = 400, 100_000, 1e-6
NEUTRAL = {"logit_bias": [], "repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
           "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # fmt: skip
PENALTY_ORDER = ("bias", "repeat", "count")
FILTER_ORDER = ("temperature", "top_k", "top_p", "min_p")


# ---- the definitions ----


def add_bias(scores, options):
    for token, value in options["logit_bias"]:
        scores[token] += -np.inf if value is None else value


def penalise_repetition(scores, options, tokens):
    seen = np.isin(np.arange(scores.size), tokens)
    penalty = options["repeat_penalty"]
    scores[:] = np.where(seen, np.where(scores > 0, scores / penalty, scores * penalty), scores)


def penalise_counts(scores, options, tokens):
    counts = np.bincount(tokens, minlength=scores.size)
    scores -= counts * options["frequency_penalty"] + (counts > 0) * options["presence_penalty"]


def scores_of(case, order=PENALTY_ORDER, seen=("prompt", "generated"), counted=("generated",)):
    tokens = lambda parts: np.array(sum((case[part] for part in parts), []), int)  # noqa: E731
    scores = np.array(case["logits"], np.float64)
    for step in order:
        if step == "bias":
            add_bias(scores, case)
        elif step == "repeat":
            penalise_repetition(scores, case, tokens(seen))
        else:
            penalise_counts(scores, case, tokens(counted))
    return scores


def log_softmax(logits):
    shifted = np.asarray(logits, np.float64) - np.max(logits)
    return shifted - np.log(np.exp(shifted).sum())


def by_size(values):
    return np.argsort(-values, kind="stable")  # of equal ones the lowest id first


def keep(probabilities, kept):
    probabilities = np.where(kept, probabilities, 0)
    return probabilities / probabilities.sum()


def apply(step, probabilities, options):
    if step == "temperature":
        with np.errstate(divide="ignore"):
            return np.exp(log_softmax(np.log(probabilities) / options["temperature"]))
    if step == "top_k" and options["top_k"] > 0:
        kept = np.zeros(probabilities.size, bool)
        kept[by_size(probabilities)[: options["top_k"]]] = True
        return keep(probabilities, kept)
    if step == "top_p":
        order = by_size(probabilities)
        before = np.cumsum(probabilities[order]) - probabilities[order]
        kept = np.zeros(probabilities.size, bool)
        kept[order[(before < options["top_p"]) | (np.arange(order.size) == 0)]] = True
        return keep(probabilities, kept)
    if step == "min_p":
        return keep(probabilities, probabilities >= options["min_p"] * probabilities.max())
    return probabilities


def probabilities_of(case, order=FILTER_ORDER, scores=None):
    probabilities = np.exp(log_softmax(scores_of(case) if scores is None else scores))
    for step in order:
        probabilities = apply(step, probabilities, case)
    return probabilities


# ---- cases ----


def some_tokens(rng, vocab, most):
    return rng.integers(0, vocab, rng.integers(0, most + 1)).tolist()


def greedy_case(rng, vocab=24):
    logits = np.round(rng.normal(0, 2, vocab) * 16) / 16  # exact as float32 and short as text
    biased = rng.choice(vocab, rng.integers(0, 13), replace=False)
    hundredths = lambda low, high: round(float(rng.uniform(low, high)), 2)  # noqa: E731
    bias = [[int(token), None if rng.random() < 0.3 else hundredths(-3, 3)] for token in biased]
    case = dict(NEUTRAL, logits=logits.tolist(), prompt=some_tokens(rng, vocab, 20) or [0], logit_bias=bias,
                generated=some_tokens(rng, vocab, 20), repeat_penalty=hundredths(0.5, 2),
                presence_penalty=hundredths(-2, 2), frequency_penalty=hundredths(-2, 2))  # fmt: skip
    scores = scores_of(case)
    first, second = scores[by_size(scores)[:2]]
    if first - second < CLEAR:
        return greedy_case(rng, vocab)
    logprobs = log_softmax(logits)
    case["token"] = int(scores.argmax())
    case["logprob"] = float(logprobs[case["token"]])
    case["top"] = [[int(token), float(logprobs[token])] for token in by_size(logits)[:3]]
    return case


def greedy_variants(case):
    """What else the token might be when one thing is left out or done wrongly."""
    variants = {name: scores_of(dict(case, **{name: NEUTRAL[name]})) for name in list(NEUTRAL)[:4]}
    variants |= {
        "bias after repetition": scores_of(case, order=("repeat", "bias", "count")),
        "repetition after counts": scores_of(case, order=("bias", "count", "repeat")),
        "repetition of generated tokens alone": scores_of(case, seen=("generated",)),
        "repetition of the prompt alone": scores_of(case, seen=("prompt",)),
        "counts with the prompt": scores_of(case, counted=("prompt", "generated")),
    }
    scores = scores_of(dict(case, repeat_penalty=1.0), order=("bias",))
    tokens = np.array(case["prompt"] + case["generated"], int)
    factors = case["repeat_penalty"] ** np.bincount(tokens, minlength=scores.size)
    scores = np.where(scores > 0, scores / factors, scores * factors)
    penalise_counts(scores, case, np.array(case["generated"], int))
    variants["repetition once for each time"] = scores
    return {name: int(scores.argmax()) for name, scores in variants.items()}


def distribution_case(rng, vocab=20, **options):
    case = NEUTRAL | {"temperature": 1.0, "prompt": [0], "generated": []} | options
    while True:
        case["logits"] = (np.round(rng.normal(0, 1.2, vocab) * 16) / 16).tolist()
        probabilities = probabilities_of(case)
        before = probabilities_of(case, order=("temperature", "top_k"))
        gaps = np.abs(np.cumsum(np.sort(before)[::-1]) - case["top_p"]) if case["top_p"] < 1 else np.ones(1)
        if 0 < case["min_p"] < 1:
            gaps = np.append(gaps, np.abs(before - case["min_p"] * before.max()))
        if gaps.min() > CLEAR and probabilities[probabilities > 0].min() * DRAWS > 5:
            break
    case["probabilities"] = probabilities.tolist()
    degrees = np.count_nonzero(probabilities) - 1
    case["limit"] = chi_square_limit(degrees) if degrees else 0.0
    return case


def chi_square_limit(degrees, share=1e-3):
    """Wilson and Hilferty's approximation of the quantile."""
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + NormalDist().inv_cdf(1 - share) * spread**0.5) ** 3


def distribution_cases(rng):
    settings = [
        {}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 1}, {"top_k": 5}, {"top_k": 1000}, {"top_p": 0.0},
        {"top_p": 0.7}, {"top_p": 0.95}, {"min_p": 0.1}, {"min_p": 1.0}, {"temperature": 1.5, "top_k": 7},
        {"temperature": 0.7, "top_p": 0.8}, {"temperature": 1.7, "min_p": 0.2}, {"top_k": 6, "top_p": 0.8},
        {"top_p": 0.9, "min_p": 0.15}, {"top_p": 0.75, "min_p": 0.25}, {"top_p": 0.85, "min_p": 0.2},
        {"top_k": 9, "min_p": 0.1},
        {"temperature": 0.8, "top_k": 8, "top_p": 0.9, "min_p": 0.1},
        {"temperature": 1.3, "top_k": 12, "top_p": 0.85, "min_p": 0.05},
    ]  # fmt: skip
    cases = [distribution_case(rng, **setting) for setting in settings]
    return cases + [
        distribution_case(rng, temperature=0.9, top_k=10, top_p=0.9, min_p=0.05, repeat_penalty=1.3, presence_penalty=0.4,
                          frequency_penalty=0.3, logit_bias=[[3, 1.5], [4, None], [5, -1.0]], prompt=[1, 2, 3, 3],
                          generated=[2, 7, 7, 7, 9]),
    ]  # fmt: skip


def distribution_variants(case):
    variants = {name: probabilities_of(dict(case, **{name: 1.0 if name == "temperature" else NEUTRAL[name]}))
                for name in FILTER_ORDER}  # fmt: skip
    return variants | {
        "temperature last": probabilities_of(case, order=("top_k", "top_p", "min_p", "temperature")),
        "top-p before top-k": probabilities_of(case, order=("temperature", "top_p", "top_k", "min_p")),
        "min-p before top-p": probabilities_of(case, order=("temperature", "top_k", "min_p", "top_p")),
    }


def main(folder):
    rng = np.random.default_rng(20220301)
    greedy = [greedy_case(rng) for _ in range(GREEDY_CASES)]
    distributions = distribution_cases(rng)
    noticed = {}
    for case in greedy:
        for name, token in greedy_variants(case).items():
            noticed[name] = noticed.get(name, 0) + (token != case["token"])
    for name, count in noticed.items():
        assert count >= 10, f"{name}: only {count} of {GREEDY_CASES} cases notice it"
    in_draws = {}
    for case in distributions:
        expected = np.array(case["probabilities"])
        for name, found in distribution_variants(case).items():
            in_draws[name] = in_draws.get(name, 0) + bool(np.abs(found - expected).sum() > 0.05)
    for name, count in in_draws.items():
        assert count >= 2, f"{name}: only {count} of {len(distributions)} distributions notice it"
    text = {
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "draws": DRAWS,
        "noticed": {"greedy": noticed, "distributions": in_draws},
    }
    lines = json.dumps(text)[:-1]
    for name, cases in (("greedy", greedy), ("distributions", distributions)):
        lines += f', "{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sampling.json").write_text(lines + "}\n")
    print(noticed, in_draws)


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "fixtures" / "sampling"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
