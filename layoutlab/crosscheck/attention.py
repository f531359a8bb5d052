"""The witnesses of the handoffs around P in the attention kernel: its PTX replayed, and both sides read off the run.

Settings of the catalogue become the kernel's: a planted mistake is the kernel's planted fault. What the kernel does not
have is refused with what it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from layoutlab.crosscheck import replayed
from layoutlab.crosscheck.sides import testimony
from layoutlab.crosscheck.testimony import Testimony
from layoutlab.crosscheck.tmem_p import KV_TILE, TIMEOUT_SECONDS
from layoutlab.cutedsl.jobs import Job, run_jobs
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict

OBSERVE = "layoutlab.kernels.attention_sides:observe"
BUFFER_ALIGNMENT = 1024
ROWS = 128
MOST_HEADS = 64

Params = Mapping[str, Any]
Request = dict[str, Any]
"""What `layoutlab.kernels.attention_sides.observe` takes."""


def ask(model: Handoff, verdict: Verdict) -> Testimony:
    """Runs the attention kernel under the model's settings and holds the model against it."""
    return observed(model, verdict, REQUESTS[model.name](model.params))


def observed(model: Handoff, verdict: Verdict, request: Request) -> Testimony:
    """What the run that a request asks for says of the model."""
    started = time.perf_counter()
    (answer,) = run_jobs([Job(OBSERVE, request)], timeout_seconds=TIMEOUT_SECONDS)
    if answer.kind != "result":
        raise LayoutError(f"the kernel's PTX was not run to its end ({answer.reason})")
    found = testimony(model, verdict, moved(answer.result, model.params))
    return Testimony(found.name, found.verdict, found.why, found.agrees, time.perf_counter() - started)


def ask_sp(model: Handoff, verdict: Verdict) -> Testimony:
    """Runs the P handoff kernel and, under settings that the attention kernel has too, that one as well."""
    small = replayed.ask(model, verdict)
    request = passed_request(model.params)
    if request is None:
        return small
    whole = observed(model, verdict, request)
    why = f"{small.why}; in the attention kernel {whole.why}"
    return Testimony("replay", small.verdict, why, small.agrees and whole.agrees, small.seconds + whole.seconds)


def passed_request(params: Params) -> Request | None:
    """The run that shows sP; None for settings that the attention kernel does not have.

    >>> from layoutlab.catalogue import sP
    >>> passed_request(sP(store="composition").params)["settings"]["route"]
    'composition'
    >>> passed_request(sP(write_swizzle="none").params) is None
    True
    """
    own = {"write_swizzle": "absolute", "k_order": "012", "load": "x32", "first_warp": 0}
    own["kv"] = KV_TILE[params["head_dim"]]
    other = params["store"] not in ROUTES or params["dtype"] not in ("bf16", "f16")
    if other or params["base"] % BUFFER_ALIGNMENT or any(params[name] != value for name, value in own.items()):
        return None
    route = ROUTES[params["store"]]
    settings = {"head_dim": params["head_dim"], "dtype": params["dtype"], "p": "smem", "route": route}
    return {"handoff": "passed", "settings": settings}


ROUTES = {"tiled_copy_d": "vector", "coordinate": "coordinate", "composition": "composition"}
"""The attention kernel's routes of P to shared memory, by the catalogue's names."""


def moved(seen: Mapping[str, Any], params: Params) -> Mapping[str, Any]:
    """What was seen of a tile that starts at 0, as of one that starts at the setting `base`."""
    base = 8 * params.get("base", 0)
    if not base or seen["stopped"] is not None:
        return seen
    return {**seen, **{name: [place + base for place in seen[name]] for name in ("wrote", "reads")}}


def must(params: Params, **right: Any) -> None:
    """Refuses settings that are not the kernel's own."""
    wrong = {name: value for name, value in right.items() if params[name] != value}
    if wrong:
        has = " and ".join(f"{name}={value}, not {params[name]}" for name, value in wrong.items())
        ways = " ".join(f"--set {name}={value}" for name, value in wrong.items())
        raise LayoutError(f"the attention kernel has {has}: {ways}")


def planted(mistakes: Mapping[str, bool]) -> str:
    """The one fault that settings plant, or none; refuses two at a time."""
    found = [fault for fault, there in mistakes.items() if there]
    if len(found) > 1:
        raise LayoutError(f"the attention kernel plants one fault at a time, not {' and '.join(found)}")
    return found[0] if found else "none"


def loaded_request(operand: str, params: Params) -> Request:
    """The run that shows sQ, sK or sV.

    >>> from layoutlab.catalogue import sK
    >>> loaded_request("k", sK(slot=1, tma_swizzle="none").params)["settings"]["fault"]
    'k_unswizzled'
    """
    p, head_dim = params, params["head_dim"]
    kv = KV_TILE[head_dim]
    must(p, box="atom", descriptor="right", **({} if operand == "q" else {"kv": kv}))
    must(p, **({"read_major": "MN"} if operand == "v" else {"major": "K"}))
    if p["dtype"] not in ("bf16", "f16"):
        raise LayoutError(f"the attention kernel has dtype=bf16 or f16, not {p['dtype']}")
    rows = ROWS if operand == "q" else kv
    if p["seq"] < rows:
        raise LayoutError(f"of rows that lie outside of the tensor a run shows no place: seq={rows} or more")
    if p["base"] % BUFFER_ALIGNMENT:
        raise LayoutError(
            f"the attention kernel's tiles start at multiples of {BUFFER_ALIGNMENT} bytes, not {p['base']}"
        )
    if p["tma_swizzle"] not in ("matching", "none", "128"):
        raise LayoutError(f"the attention kernel has tma_swizzle=matching or none, not {p['tma_swizzle']}")
    always = p["k_step"] != "right" and (
        operand == "v" or head_dim > 64
    )  # in one atom of 128 bytes nothing else is right
    fault = planted({f"{operand}_unswizzled": p["tma_swizzle"] == "none", f"{operand}_steps": always})
    settings = {"head_dim": head_dim, "dtype": p["dtype"], "fault": fault}
    slot = {} if operand == "q" else {"slot": p["slot"]}
    return {"handoff": "loaded", "settings": settings, "operand": operand, **slot}


def rescaled_request(params: Params) -> Request:
    """The run that shows oRescale."""
    p, column = params, 2 * KV_TILE[params["head_dim"]]
    must(p, column=column, load="32x32b.x32", factors="thread", first_warp=4)
    shifted = column + p["head_dim"]  # what lies there is loaded by nobody
    if p["store_column"] not in (column, shifted):
        raise LayoutError(
            f"the attention kernel puts O back at store_column={column}, or by its fault at {shifted}, "
            f"not at {p['store_column']}"
        )
    if p["store"] not in ("32x32b.x32", "16x64b.x16"):
        raise LayoutError(
            f"the attention kernel puts O back by 32x32b.x32, or by its fault 16x64b.x16, not {p['store']}"
        )
    faults = {"rescale_shifted": p["store_column"] != column, "rescale_unpaired": p["store"] != "32x32b.x32"}
    return {"handoff": "rescaled", "settings": {"head_dim": p["head_dim"], "fault": planted(faults)}}


def epilogue_request(params: Params) -> Request:
    """The run that shows the epilogue."""
    p = params
    must(p, epi_n=64, first_warp=4, route="vector", bits=32 if p["store_as"] == "16x256b.x4" else 128)
    for name, known in EPILOGUE_CHOICES.items():
        if p[name] not in known:
            raise LayoutError(f"the attention kernel has {name}={' or '.join(map(str, known))}, not {p[name]}")
    faults = {"o_unswizzled": p["tma_swizzle"] == "none", "epilogue_unpaired": p["store_as"] == "16x256b.x4"}
    return {
        "handoff": "epilogue",
        "settings": {"head_dim": p["n"], "dtype": p["dtype"], "fault": planted(faults)},
    }


EPILOGUE_CHOICES: dict[str, tuple[Any, ...]] = {
    "n": (64, 128, 256),
    "dtype": ("bf16", "f16"),
    "load": ("widest", "32x32b.x64"),
    "store_as": ("paired", "16x256b.x4"),
    "tma_swizzle": ("matching", "none", "128"),
}


def stored_request(params: Params) -> Request:
    """The run that shows the store of O."""
    if params["heads"] > MOST_HEADS:
        raise LayoutError(f"a run is of at most {MOST_HEADS} heads, a CTA for each, not {params['heads']}")
    fault = "o_heads_first" if params["order"] == "heads" else "none"
    settings = {"head_dim": params["head_dim"], "dtype": params["dtype"], "fault": fault}
    return {"handoff": "stored", "settings": settings, "rows": params["rows"], "heads": params["heads"]}


REQUESTS: dict[str, Callable[[Params], Request]] = {
    "sQ": lambda params: loaded_request("q", params),
    "sK": lambda params: loaded_request("k", params),
    "sV": lambda params: loaded_request("v", params),
    "oRescale": rescaled_request,
    "epilogue": epilogue_request,
    "store": stored_request,
}
