"""Exact search on a CUDA card: one query and batches, beside what the card can do and beside plain PyTorch and CuPy.

Limits are measured in the same run: the bandwidth of a copy on the card, and how many pairs of codes its bit counts
(`__popc`), its tensor cores on single bits and its tensor cores on int8 could compare in a second if nothing else were
to be done. A kernel's time is taken by events, with the card kept busy before so that nothing waits for Python. *Of
copy* is the share of the bandwidth of a large copy, *of its* of a copy that moves as many bytes as the codes have, *of
limit* that of single bits on tensor cores where each sum is looked at. A whole call is from the query in the memory of
the host to the answer there. Up to `--on-host` bytes of codes, whole calls go through `GpuIndex` too; more are made on
the card. The first, the middle and the last query of each batch are compared with a search that counts all distances
and, where there is a `GpuIndex`, with `FlatIndex`. Codes are uniform, in clusters (4,096 of them, a bit in sixteen
flipped), duplicates (1,000 different codes), both in any order, or all equal.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import Codes, FlatIndex, GpuIndex, LiveIndex, OnlineHashing, bulk, evaluate, refresh
from onlinehash.codes.layout import LANES, aligned_planes
from onlinehash.gpu.card import describe, load_cupy
from onlinehash.gpu.codes import CardCodes
from onlinehash.gpu.kernels import Kernels
from onlinehash.gpu.neighbours import nearest_positions
from onlinehash.gpu.shape import GROUP, Shape

cupy = load_cupy("this benchmark")

K = 10

#: Codes or values that are made on the card at once, in bytes.
CHUNK_BYTES = 1 << 28

#: Codes that those of each kind are made from.
CENTRES = {"clusters": 4096, "duplicates": 1000, "equal": 1}

#: How fast units of the card are when they do nothing else: each thread has sixteen results on their way.
LIMITS = r"""
#define MMA(SHAPE, A, B, ...) asm volatile("mma.sync.aligned." SHAPE " {%0,%1,%2,%3}, " A ", " B ", {%0,%1,%2,%3};" \
    : "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3]) : __VA_ARGS__)
template <int KIND> __device__ void work(int *out) {
    unsigned a[4], b[2] = {threadIdx.x * 40503u, threadIdx.x * 2654435761u};
    int d[16][4] = {}, sum = 0;
    for (int i = 0; i < 4; i++) a[i] = threadIdx.x * 2654435761u + i;
    for (int round = 0; round < 4096; round++) {
#pragma unroll
        for (int i = 0; i < 16; i++) {
            if (KIND == 0) for (int j = 0; j < 4; j++) d[i][j] = __popc(d[i][j] ^ a[j]);
            if (KIND == 1) MMA("m16n8k128.row.col.s32.b1.b1.s32.and.popc", "{%4,%5}", "{%6}",
                               "r"(a[0]), "r"(a[1]), "r"(b[0]));
            if (KIND == 2) MMA("m16n8k256.row.col.s32.b1.b1.s32.and.popc", "{%4,%5,%6,%7}", "{%8,%9}",
                               "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            if (KIND == 3) MMA("m16n8k32.row.col.s32.s8.s8.s32", "{%4,%5,%6,%7}", "{%8,%9}",
                               "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        }
    }
    for (int i = 0; i < 16; i++) for (int j = 0; j < 4; j++) sum += d[i][j];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void popc(int *out) { work<0>(out); }
extern "C" __global__ void bits_128(int *out) { work<1>(out); }
extern "C" __global__ void bits_256(int *out) { work<2>(out); }
extern "C" __global__ void int8(int *out) { work<3>(out); }

// The same products of bits with operands of their own, and each sum looked at, as a search has to: registers are read
// and written much more.
template <bool LONG> __device__ void see(const unsigned *in, int *out) {
    unsigned a[8][4], b[4][2];
    int from[8][4];
    float near[4][2] = {}, sum = 0;
    in += threadIdx.x * 80;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++) a[i][j] = in[4 * i + j], from[i][j] = in[32 + 4 * i + j] & 63;
    for (int i = 0; i < 4; i++) b[i][0] = in[64 + i], b[i][1] = in[68 + i];
    for (int round = 0; round < 2048; round++) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            unsigned *q = a[i % 8], *x = b[i / 8];
            int *c = from[i % 8], s[4];
            if (LONG)
                asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                    "{%8,%9}, {%10,%11,%12,%13};" : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]) : "r"(q[0]),
                    "r"(q[1]), "r"(q[2]), "r"(q[3]), "r"(x[0]), "r"(x[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
            else
                asm volatile("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5}, {%6}, "
                    "{%7,%8,%9,%10};" : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]) : "r"(q[0]), "r"(q[1]),
                    "r"(x[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
            near[i / 8][0] = fmaf(__int_as_float(s[0]), __int_as_float(s[2]), near[i / 8][0]);
            near[i / 8][1] = fmaf(__int_as_float(s[1]), __int_as_float(s[3]), near[i / 8][1]);
        }
    }
    for (int i = 0; i < 4; i++) sum += near[i][0] + near[i][1];
    out[blockIdx.x * blockDim.x + threadIdx.x] = __float_as_int(sum);
}
extern "C" __global__ void __launch_bounds__(256, 2) seen_128(const unsigned *in, int *out) { see<false>(in, out); }
extern "C" __global__ void __launch_bounds__(256, 2) seen_256(const unsigned *in, int *out) { see<true>(in, out); }
"""


def main() -> None:
    args = arguments()
    results: list[dict[str, Any]] = []
    card = describe(cupy)
    print(f"{card.name}, {card.memory / 1e9:.0f} GB, {card.processors} multiprocessors; CuPy {cupy.__version__}")
    limits = measured_limits(card.processors)
    results.append(limits)
    print(
        f"copy {limits['copy']:.2f} TB/s; pairs of 64 bits a second, if there were nothing else to do: popcount "
        f"{limits['popc 64']:.2f} T, bits on tensor cores {limits['bits 64']:.1f} T, and {limits['seen 64']:.1f} T "
        f"where each sum is looked at, int8 on tensor cores {limits['int8 64']:.1f} T"
    )
    print(
        f"{'codes':>14} {'':10} {'bits':>4} {'queries':>7} {'kernel ms':>9} {'of copy':>7} {'of its':>7} "
        f"{'Tpair/s':>7} {'of limit':>8} {'bit counts ms':>13} {'tensor cores ms':>15} {'call ms':>8} "
        f"{'index ms':>8} {'found':>7}"
    )
    tables = [(n, bits, "uniform") for bits in args.bits for n in (args.sizes if bits == 64 else args.other_sizes)]
    tables += [(n, 64, kind) for kind in CENTRES for n in args.unlike_sizes]
    for n, bits, kind in tables:
        batches = args.batches if (bits, kind) == (64, "uniform") else args.other_batches
        for row in measured(int(n), bits, kind, batches, limits, args.on_host):
            results.append(row)
            print(shown(row), flush=True)
    if args.peers:
        for row in peers(10_000_000, 64):
            results.append(row)
            print(f"{row['name']:>34}, {row['n']:,} codes, {row['queries']} queries: {row['ms']:.3f} ms", flush=True)
    if args.vectors:
        for row in on_vectors(int(args.vectors), limits["copy"]):
            results.append(row)
            print(f"{row['name']}: {row['seconds'] * 1e3:,.1f} ms; {row['beside']}", flush=True)
    if args.items:
        for row in live(int(args.items)):
            results.append(row)
            print(f"{row['name']}: card {row['card']:,.3f} ms, CPU {row['cpu']:,.3f} ms", flush=True)
    for work, n in ((from_files, args.filed), (refreshed, args.refreshed)):
        if n:
            row = work(int(n))
            results.append(row)
            print(f"{row['name']}: {row['seconds']:,.2f} s; {row['beside']}", flush=True)
    common.write_json(results, args.json)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e7, 8e7, 1e9, 1e10], help="codes of 64 bits")
    parser.add_argument("--other-sizes", type=float, nargs="+", default=[8e7], help="codes of other widths")
    parser.add_argument("--unlike-sizes", type=float, nargs="*", default=[8e7], help="codes that are not uniform")
    parser.add_argument("--bits", type=int, nargs="*", default=[64, 16, 32, 128, 256, 512])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64, 100, 128, 1024])
    parser.add_argument("--other-batches", type=int, nargs="+", default=[1, 4, 16, 100, 128, 1024])
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--vectors", type=float, default=1e7, help="of 512 values, to encode and search; 0: none")
    parser.add_argument("--items", type=float, default=1e6, help="of a LiveIndex, on the card and not; 0: none")
    parser.add_argument("--filed", type=float, default=1e6, help="vectors of 512 values in a file, as a base; 0: none")
    parser.add_argument("--refreshed", type=float, default=1e6, help="items of 512 values of a LiveIndex; 0: none")
    parser.add_argument("--on-host", type=float, default=1e10, help="bytes of codes, at most, that an index is made of")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    return parser.parse_args()


# ------------------------------------------------------------------ clocks


def kernel_ms(work: Callable[[], Any], before: Callable[[], Any] = lambda: None, repeats: int = 7) -> float:
    """The best time of what `work` does on the card; it is called while the card still copies something."""
    busy = cupy.empty(1 << 28, np.uint8)
    times = []
    for _ in range(repeats + 1):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        for _ in range(8):
            busy[: 1 << 27] = busy[1 << 27 :]
        before()
        first.record()
        work()
        last.record()
        last.synchronize()
        times.append(cupy.cuda.get_elapsed_time(first, last))
    return min(times[1:])


def call_ms(work: Callable[[], Any], repeats: int = 20) -> float:
    """The median time by the clock on the wall, as a single call has no best."""
    times = []
    for _ in range(repeats + 2):
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        work()
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - began)
    return 1e3 * float(np.median(times[2:]))


def measured_limits(processors: int) -> dict[str, float]:
    """TB/s of a copy, and 10^12 pairs a second at each width."""
    source, target = cupy.ones(1 << 30, np.uint32), cupy.empty(1 << 30, np.uint32)
    copy = 2 * source.nbytes / kernel_ms(lambda: cupy.copyto(target, source)) / 1e9
    module, out = cupy.RawModule(code=LIMITS, options=("-std=c++17",)), cupy.empty(processors * 1024, np.int32)

    given = cupy.random.default_rng(0).integers(0, 1 << 32, 256 * 80, np.uint32)

    def rate(name: str, per_thread: float = 128 / 32) -> float:
        function, arguments = module.get_function(name), (given, out) if name.startswith("seen") else (out,)
        ms = kernel_ms(lambda: function((processors * 4,), (256,), arguments))
        return processors * 4 * 256 * 4096 * 16 * per_thread / ms / 1e9

    popc = rate("popc", 4)
    tiles = {name: rate(name) for name in ("bits_128", "bits_256", "int8", "seen_128", "seen_256")}
    limits = {"copy": copy}
    for bits in (16, 32, 64, 128, 256, 512):
        words = -(-bits // 32)
        limits[f"popc {bits}"] = popc / words
        limits[f"bits {bits}"] = tiles["bits_128"] if words <= 2 else tiles["bits_256"] / -(-words // 4)
        limits[f"int8 {bits}"] = tiles["int8"] / words
        again = -(-words // 4) - 1  # products after the first add to sums that nobody looks at yet
        limits[f"seen {bits}"] = (
            tiles["seen_128"] if words <= 2 else 1 / (1 / tiles["seen_256"] + again / tiles["bits_256"])
        )
    return limits


def copy_ms(n_bytes: int) -> float:
    """A copy on the card that reads and writes so many bytes together; of many, the time of some and scaled."""
    size = min(n_bytes // 2, 1 << 32)
    source, target = cupy.ones(size, np.uint8), cupy.empty(size, np.uint8)
    return kernel_ms(lambda: cupy.copyto(target, source)) * n_bytes / (2 * size)


# ------------------------------------------------------------------ ours


def measured(
    n: int, bits: int, kind: str, batches: list[int], limits: dict[str, float], on_host: float
) -> Iterator[dict[str, Any]]:
    """Kernels and whole calls at one size, all batches."""
    index = flat = None
    if n * bits / 8 <= on_host:
        codes = made(n, bits, kind)
        index, flat = GpuIndex(codes), FlatIndex(codes, n_jobs=-1)
        card = index._card
    else:
        card = made_on_card(n, bits)
    copied = copy_ms(card._words.nbytes)
    for n_queries in batches:
        queries = Codes.from_faiss(drawn(cupy.random.default_rng(1), n_queries, bits, kind).get(), bits)
        words = card.shape.words_of(queries.rows())
        nearest = card.nearest(words, K)
        few = np.unique([0, n_queries // 2, n_queries - 1])
        if index is not None and flat is not None:
            assert np.array_equal(index.search(queries, K).ids[few], flat.search(queries[few], K).ids)
        assert np.array_equal(nearest[few], card._nearest_exactly(cupy.asarray(words[few]), K, None))
        row = {"n": n, "kind": kind, "bits": bits, "queries": n_queries} | kernels_alone(card, words, n)
        ms = row["kernel ms"] = min(row[name] for name in ("few ms", "many ms") if row[name] is not None)
        pairs = n * n_queries / ms / 1e9
        limit = max(limits[f"seen {bits}"], limits[f"popc {bits}"])
        row |= {
            "of copy": card._words.nbytes / ms / 1e9 / limits["copy"],
            "of its copy": copied / ms,
            "Tpair/s": pairs,
            "of limit": pairs / limit,
        }
        row["call ms"] = call_ms(partial(card.nearest, words, K), 20 if n < 5e8 else 5)
        row["index ms"] = None if index is None else call_ms(partial(index.search, queries, K), 20 if n < 5e8 else 5)
        yield row


def kernels_alone(card: CardCodes, words: np.ndarray, n: int) -> dict[str, float | None]:
    """The pass over all codes, by bit counts and by tensor cores, at the bounds that a search takes."""
    from onlinehash.gpu import codes as gpu_codes

    work = gpu_codes._Work(cupy, card.shape, len(words), K, gpu_codes.ROOM)
    work.queries[...] = cupy.asarray(words)
    card._enqueue(work, None)  # which leaves the bounds

    def zero() -> None:
        work.found.data.memset_async(0, work.found.nbytes, cupy.cuda.get_current_stream())

    times: dict[str, float | None] = {}
    for name, kernel in (("few ms", card._runs.keep_few), ("many ms", card._runs.keep_many)):
        if name == "few ms" and len(words) > 16:
            times[name] = None  # it would only be slower
            continue
        run = partial(kernel, card._words, None, n, work.queries, work.bounds, work.found, work.keys)
        times[name] = kernel_ms(run, zero, 7 if n < 5e8 else 3)
    return times | {"found": float(work.found.mean())}


def drawn(rng: Any, n: int, bits: int, kind: str) -> Any:
    """Codes as rows of bytes, on the card."""
    shape = (n, bits // 8)
    if kind == "uniform":
        return rng.integers(0, 256, shape, np.uint8)
    centres = cupy.random.default_rng(2).integers(0, 256, (CENTRES[kind], shape[1]), np.uint8)
    rows = centres[rng.integers(0, len(centres), n)]
    if kind == "clusters":
        first, *others = (rng.integers(0, 256, shape, np.uint8) for _ in range(4))
        for other in others:
            first &= other
        rows ^= first
    return rows


def made(n: int, bits: int, kind: str) -> Codes:
    """Codes in the memory of the host; n is a multiple of 64."""
    planes, rng = aligned_planes(n, bits // 8), cupy.random.default_rng(0)
    size = CHUNK_BYTES // (bits // 8) // LANES
    for start in range(0, len(planes), size):
        part = planes[start : start + size]
        rows = drawn(rng, len(part) * LANES, bits, kind).reshape(len(part), LANES, -1)
        cupy.ascontiguousarray(rows.swapaxes(1, 2)).get(out=part)
    return Codes.from_planes(planes, n, bits)


def made_on_card(n: int, bits: int) -> CardCodes:
    shape = Shape(1, -(-bits // 8))
    card = CardCodes(Kernels(shape))
    card._words = cupy.empty((shape.n_groups(n), shape.row, GROUP), np.uint32)
    flat, rng = card._words.reshape(-1), cupy.random.default_rng(0)
    for start in range(0, flat.size, 1 << 28):
        part = flat[start : start + (1 << 28)]
        part[...] = rng.integers(0, 1 << 32, part.size, np.uint32)
    card.n = n
    return card


def shown(row: dict[str, Any]) -> str:
    index = f"{row['index ms']:8.3f}" if row["index ms"] is not None else " " * 8
    few = f"{row['few ms']:13.3f}" if row["few ms"] is not None else " " * 13
    return (
        f"{row['n']:>14,} {row['kind']:10} {row['bits']:>4} {row['queries']:>7} {row['kernel ms']:9.3f} "
        f"{row['of copy']:7.0%} {row['of its copy']:7.0%} {row['Tpair/s']:7.2f} {row['of limit']:8.0%} {few} "
        f"{row['many ms']:15.3f} {row['call ms']:8.3f} {index} {row['found']:7.0f}"
    )


# ------------------------------------------------------------------ others


def peers(n: int, bits: int) -> list[dict[str, Any]]:
    """What one writes without us, on the same codes; answers compared by distance, as their ties come in any order."""
    codes, asked_first = made(n, bits, "uniform"), drawn(cupy.random.default_rng(1), 100, bits, "uniform").get()
    all_queries = Codes.from_faiss(asked_first, bits)
    rows, found = [], GpuIndex(codes).search(all_queries, K).distances
    words = cupy.asarray(codes.rows().view(np.uint64)[:, 0])
    popc = cupy.ElementwiseKernel("uint64 x, uint64 q", "uint8 d", "d = __popcll(x ^ q)", "distance")
    for n_queries in (1, 100):
        asked = all_queries[:n_queries].rows().view(np.uint64)[:, 0]

        def by_cupy() -> np.ndarray:
            return np.array([np.sort(cupy.partition(popc(words, q), K - 1)[:K].get()) for q in asked])

        assert np.array_equal(by_cupy(), found[:n_queries])
        rows.append({"name": "CuPy: popcount and partition", "ms": call_ms(by_cupy, 3), "queries": n_queries, "n": n})
    rows += torch_peer(codes, all_queries, found, n)
    rows += faiss_peer(codes, all_queries, found, n)
    rows += numba_peer(words, n)
    return rows


def faiss_peer(codes: Codes, all_queries: Codes, found: np.ndarray, n: int) -> list[dict[str, Any]]:
    try:
        import faiss
    except ImportError:
        return []
    if not hasattr(faiss, "GpuIndexBinaryFlat"):  # a FAISS of the CPU alone
        return []
    index = faiss.GpuIndexBinaryFlat(faiss.StandardGpuResources(), codes.n_bits)
    index.add(codes.rows())
    rows = []
    for n_queries in (1, 100):
        search = partial(index.search, all_queries[:n_queries].rows(), K)
        assert np.array_equal(search()[0], found[:n_queries])
        rows.append({"name": f"FAISS {faiss.__version__}: GpuIndexBinaryFlat", "ms": call_ms(search, 5)})
        rows[-1] |= {"queries": n_queries, "n": n}
    return rows


def torch_peer(codes: Codes, all_queries: Codes, found: np.ndarray, n: int) -> list[dict[str, Any]]:
    try:
        import torch
    except ImportError:
        return []
    signs = torch.from_numpy(codes.bits()).cuda().half() * 2 - 1
    rows = []
    for n_queries in (1, 100):
        queries = torch.from_numpy(all_queries[:n_queries].bits()).cuda().half() * 2 - 1

        def by_torch() -> np.ndarray:
            parts = [torch.topk(queries[at : at + 20] @ signs.T, K).values for at in range(0, n_queries, 20)]
            return ((codes.n_bits - torch.cat(parts)) / 2).int().cpu().numpy()

        assert np.array_equal(by_torch(), found[:n_queries])
        rows.append(
            {"name": "PyTorch: half product and topk", "ms": call_ms(by_torch, 5), "queries": n_queries, "n": n}
        )
    return rows


def numba_peer(words: Any, n: int) -> list[dict[str, Any]]:
    """The pass for one query as numba-cuda compiles it, and what a launch costs there and in CuPy."""
    try:
        if not hasattr(np, "row_stack"):  # which some versions of numba-cuda still ask of newer NumPy
            vars(np)["row_stack"] = np.vstack
        from numba import cuda

        @cuda.jit
        def scan(words: Any, query: Any, bound: Any, found: Any, keys: Any) -> None:
            i = cuda.grid(1)
            while i < words.size:
                if cuda.popc(words[i] ^ query) <= bound:
                    at = cuda.atomic.add(found, 0, 1)
                    if at < keys.size:
                        keys[at] = i
                i += cuda.gridsize(1)

        found, keys = cupy.zeros(1, np.int32), cupy.zeros(1 << 16, np.uint64)
        arrays = [cuda.as_cuda_array(a) for a in (words, found, keys)]
        run, small = scan[132 * 8, 256], scan[1, 32]
        query = np.uint64(0x0123456789ABCDEF)
        rows = [
            {"name": "numba-cuda: kernel of one query", "ms": kernel_ms(lambda: run(arrays[0], query, 12, *arrays[1:]))}
        ]
        began = time.perf_counter()
        for _ in range(500):
            small(arrays[0], query, -1, *arrays[1:])
        rows.append({"name": "numba-cuda: launch", "ms": (time.perf_counter() - began) * 2})
    except Exception as error:  # whatever a foreign compiler says is shown, and ends nothing
        print(f"numba-cuda: {type(error).__name__}: {error}")
        return []
    noop = cupy.RawKernel('extern "C" __global__ void noop(long long *a, long long *b, long long c) {}', "noop")
    cupy.cuda.Device().synchronize()
    noop((1,), (32,), (found, keys, np.int64(1)))
    began = time.perf_counter()
    for _ in range(500):
        noop((1,), (32,), (found, keys, np.int64(1)))
    rows.append({"name": "CuPy: launch", "ms": (time.perf_counter() - began) * 2})
    return [row | {"queries": 1, "n": n} for row in rows]


# ------------------------------------------------------------------ vectors


def normal(n: int, d: int) -> Iterator[tuple[slice, Any]]:
    """n random vectors, some at a time: which, and an array of the card."""
    rng, size = cupy.random.default_rng(0), CHUNK_BYTES // (4 * d)
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        yield rows, rng.standard_normal((rows.stop - start, d), np.float32)


def on_vectors(n: int, copy: float, d: int = 512, n_queries: int = 10_000) -> Iterator[dict[str, Any]]:
    """Encoding, mean average precision and exact neighbours, of vectors on the card and in the memory of the host."""
    X = cupy.empty((n, d), np.float32)
    for rows, vectors in normal(n, d):
        X[rows] = vectors
    some = X[:20_000].get()
    encoder = OnlineHashing(n_bits=64, random_state=0).observe(some).snapshot()
    codes = encoder.encode(X, device="cuda")
    assert codes[: len(some)] == encoder.encode(some)
    W, size = cupy.asarray(encoder.weights), 1 << 20
    product = sum(kernel_ms(lambda: cupy.matmul(X[at : at + size], W.T), repeats=1) for at in range(0, n, size)) / 1e3
    reading = n * d * 4 / copy / 1e12
    began = time.perf_counter()
    for _ in range(3):
        encoder.encode(X, device="cuda")
    seconds = (time.perf_counter() - began) / 3
    beside = f"the product alone {product * 1e3:.1f} ms, reading the vectors once {reading * 1e3:.1f} ms"
    yield {"name": f"encode {n:,} x {d} float32, 64 bits", "seconds": seconds, "beside": beside}
    host = X.get()
    began = time.perf_counter()
    assert encoder.encode(host, device="cuda") == codes
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    X.set(host)
    upload = time.perf_counter() - began
    began = time.perf_counter()
    assert encoder.encode(host) == codes
    on_cpu = time.perf_counter() - began
    beside = f"to copy the vectors to the card {upload * 1e3:,.0f} ms, the CPU's cores {on_cpu * 1e3:,.0f} ms"
    yield {"name": "the same from the memory of the host", "seconds": seconds, "beside": beside}
    labels = np.random.default_rng(0).integers(0, 10, n)
    queries, truth = codes[:n_queries], evaluate.same_label(labels[:n_queries], labels)
    evaluate.rank(queries[:8], codes, evaluate.same_label(labels[:8], labels), ["map"], device="cuda")  # compiled
    began = time.perf_counter()
    values = evaluate.rank(queries, codes, truth, ["map"], device="cuda", per_query=True)["map"]
    seconds, few = time.perf_counter() - began, min(64, n_queries)
    began = time.perf_counter()
    theirs = evaluate.rank(
        queries[:few], codes, evaluate.same_label(labels[:few], labels), ["map"], n_jobs=-1, per_query=True
    )
    on_cpu = (time.perf_counter() - began) / few * n_queries
    assert np.array_equal(theirs["map"], values[:few])
    rate = n * n_queries / seconds / 1e12
    beside = f"the CPU's {os.cpu_count()} cores {on_cpu:.0f} s, from {few} queries; {rate:.2f} Tpair/s"
    yield {"name": f"mAP of {n_queries:,} queries over {n:,} codes", "seconds": seconds, "beside": beside}
    asked = cupy.random.default_rng(1).standard_normal((n_queries, d), np.float32)
    nearest_positions(asked[:8], X[:10_000], 100)  # compiled
    began = time.perf_counter()
    near = nearest_positions(asked, X, 100)
    seconds = time.perf_counter() - began
    for q in (0, n_queries // 2, n_queries - 1):
        parts = [((X[at : at + size].astype(np.float64) - asked[q]) ** 2).sum(axis=1) for at in range(0, n, size)]
        distances = cupy.concatenate(parts).get()
        assert np.array_equal(np.sort(np.argpartition(distances, 99)[:100]), near[q])
    beside = f"2 n d products a query at this rate: {2 * n * d * n_queries / seconds / 1e12:.0f} TFLOP/s"
    yield {"name": f"100 nearest of {n:,} x {d} for {n_queries:,} queries", "seconds": seconds, "beside": beside}
    X = cupy.empty((0, d), np.float32)  # room for the copy that evaluate.nearest makes
    cupy.get_default_memory_pool().free_all_blocks()
    began = time.perf_counter()
    truth = evaluate.nearest(asked.get(), host, k=100, device="cuda")
    seconds = time.perf_counter() - began
    assert np.array_equal(np.flatnonzero(truth.block(slice(0, 1))[0]), near[0])
    beside = f"to copy the vectors to the card {upload * 1e3:,.0f} ms"
    yield {"name": "the same by evaluate.nearest, from the memory of the host", "seconds": seconds, "beside": beside}


def from_files(n: int, d: int = 512, n_queries: int = 10_000, k: int = 100) -> dict[str, Any]:
    """Exact neighbours in a base that is read from a file, on the card and by all cores."""
    queries = np.random.default_rng(0).standard_normal((n_queries, d), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "base.npy"
        base = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
        for rows, vectors in normal(n, d):
            base[rows] = vectors.get()
        nearest_positions(queries[:8], np.array(base[:10_000]), k)  # compiled
        reading = read_seconds(base)
        began = time.perf_counter()
        near = bulk.ground_truth(queries, path, k, device="cuda")
        seconds = time.perf_counter() - began
        few = 16
        began = time.perf_counter()
        theirs = bulk.ground_truth(queries[:few], path, k)
        on_cpu = time.perf_counter() - began
    assert np.array_equal(near.rows[:few], theirs.rows)
    assert np.array_equal(near.squared_distances[:few], theirs.squared_distances)
    name = f"ground_truth: {k} nearest of {n:,} x {d} in a file for {n_queries:,} queries"
    beside = f"reading the file once, by {os.cpu_count()} threads, {reading:.2f} s"
    beside += f"; {os.cpu_count()} processes of the CPU for {few} of the queries {on_cpu:.1f} s"
    return {"name": name, "seconds": seconds, "beside": beside}


def refreshed(n: int, d: int = 512) -> dict[str, Any]:
    """A refresh of all codes of a `LiveIndex` in memory."""
    taken, codes = {}, []
    for device in ("cuda", "cpu"):
        index = LiveIndex(OnlineHashing(64, random_state=0), refresh.by_hand(), device=device, n_jobs=-1)
        for _, vectors in normal(n, d):
            index.add(None, vectors.get())
        rng, seconds = np.random.default_rng(0), []
        for _ in range(3):
            a, b = rng.standard_normal((2, 500, d), np.float32)
            index.learn_pairs(a, b, rng.random(500) < 0.5)
            began = time.perf_counter()
            index.refresh()
            seconds.append(time.perf_counter() - began)
        taken[device] = float(np.median(seconds))
        codes.append(index.codes)
    assert codes[0] == codes[1]
    reading = read_seconds(np.ones((n, d), np.float32))
    name = f"LiveIndex of {n:,} x {d}: a refresh after 500 pairs"
    beside = f"on the CPU {taken['cpu']:.2f} s, reading as many bytes by {os.cpu_count()} threads {reading:.2f} s"
    return {"name": name, "seconds": taken["cuda"], "beside": beside}


def read_seconds(X: np.ndarray) -> float:
    """How long all cores take to read an array once."""
    with ThreadPoolExecutor() as threads:
        began = time.perf_counter()
        list(threads.map(np.max, np.array_split(X, 256)))
        return time.perf_counter() - began


# ------------------------------------------------------------------ a live index


def live(n: int, d: int = 64) -> Iterator[dict[str, Any]]:
    """Whole calls of a `LiveIndex` in memory, with its codes on the card and without; the answers are compared."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), np.float32)
    pairs = X[:500], X[500:1000], rng.random(500) < 0.5
    times: dict[str, dict[str, float]] = {}
    answers = {}
    for device in ("cuda", "cpu"):
        index = LiveIndex(OnlineHashing(64, random_state=0), refresh.by_hand(), device=device, n_jobs=-1)
        index.add(None, X)
        column = times[device] = {}
        for n_queries in (1, 100):
            column[f"search for {n_queries}"] = call_ms(partial(index.search, X[:n_queries], K))
        after: dict[str, list[float]] = {"add an item": [], "first search then": [], "second": [], "third": []}
        for turn in range(20):
            works = [partial(index.add, None, X[turn : turn + 1] + 1)] + 3 * [partial(index.search, X[:1], K)]
            for name, work in zip(after, works, strict=True):
                began = time.perf_counter()
                work()
                after[name].append(1e3 * (time.perf_counter() - began))
        column |= {name: float(np.median(found)) for name, found in after.items()}
        changes: dict[str, Callable[[int], Any]] = {
            "update an item": lambda turn: index.update([turn], X[turn : turn + 1]),
            "remove an item": lambda turn: index.remove([100 + turn]),
            "500 pairs and a refresh": lambda turn: (index.learn_pairs(*pairs), index.refresh()),
        }
        for name, change in changes.items():
            taken = []
            for turn in range(5):
                began = time.perf_counter()
                change(turn)
                taken.append(1e3 * (time.perf_counter() - began))
            column[name] = float(np.median(taken))
        answers[device] = index.search(X[:200], K)
    assert np.array_equal(answers["cuda"].ids, answers["cpu"].ids)
    for name, ms in times["cuda"].items():
        yield {"name": f"LiveIndex of {n:,} items: {name}", "card": ms, "cpu": times["cpu"][name]}


if __name__ == "__main__":
    main()
