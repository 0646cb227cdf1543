"""Teaching many learners at once on a CUDA card: a grid of settings of Online Hashing over one stream of pairs.

One pair after the other has to be learned, so one learner cannot fill a card; but a card has many multiprocessors. Here
each block of threads is one learner: its functions stay in registers, and it goes through the whole stream alone. Dot
products are summed in the order of `numeric.dots` and the step is that of `learners.online_hashing_kernels`, so that
the functions learned must be equal to the CPU's to the last bit, which is checked. It is a trial, no part of the
library: one model, no centring, no feature map, one round.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import OnlineHashing
from onlinehash.gpu.card import describe, load_cupy
from onlinehash.learners.online_hashing import dissimilar_distance

cupy = load_cupy("this benchmark")

SOURCE = r"""
#define LANES 16               // of a dot product, each summed on its own: numeric/dots.py
#define EACH (D / LANES)       // values of a row of W that a thread holds
#define STRIDE (EACH + 4)      // so that the lanes read different banks
#define THREADS (LANES * R)
#define NEXT ((2 * D + THREADS - 1) / THREADS)

__device__ __forceinline__ float folded(float sum) {
    for (int far = LANES / 2; far; far /= 2) sum += __shfl_down_sync(~0u, sum, far, LANES);
    return sum;
}

// squares[row] = |X[row]|^2 in double precision. Sixteen threads take a row.
extern "C" __global__ void squares(const float *X, long long n, double *out) {
    long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    int lane = threadIdx.x % LANES;
    double sum = 0;
    if (row < n) for (int i = lane; i < D; i += LANES) sum = fma((double)X[row * D + i], (double)X[row * D + i], sum);
    for (int far = LANES / 2; far; far /= 2) sum += __shfl_down_sync(~0u, sum, far, LANES);
    if (row < n && lane == 0) out[row] = sum;
}

// A block learns all pairs (rows 2 t and 2 t + 1 of X) with its own settings. Threads 16 k, ..., 16 k + 15 have bit k.
extern "C" __global__ void __launch_bounds__(THREADS)
    teach(const float *X, const double *squares, const signed char *similar, long long n, const int *alphas,
          const double *ratios, const double *Cs, float *W, double *losses) {
    __shared__ __align__(16) float x[2][LANES * STRIDE];
    __shared__ float P[2][R];
    __shared__ double margins[R], step;
    __shared__ signed char sides[R];
    int k = threadIdx.x / LANES, lane = threadIdx.x % LANES, alpha = alphas[blockIdx.x];
    double b = ratios[blockIdx.x], C = Cs[blockIdx.x], total = 0;
    W += ((long long)blockIdx.x * R + k) * D;
    float w[EACH], next[NEXT];
#pragma unroll
    for (int j = 0; j < EACH; j++) w[j] = W[LANES * j + lane];
#pragma unroll
    for (int i = 0; i < NEXT; i++) {
        int at = i * THREADS + threadIdx.x;
        next[i] = at < 2 * D ? X[at] : 0;
    }
    for (long long t = 0; t < n; t++) {
#pragma unroll
        for (int i = 0; i < NEXT; i++) {
            int at = i * THREADS + threadIdx.x;
            if (at < 2 * D) x[at / D][at % LANES * STRIDE + at % D / LANES] = next[i];
            next[i] = at < 2 * D && t + 1 < n ? X[2 * D * (t + 1) + at] : 0;
        }
        bool is_similar = similar[t] > 0;
        __syncthreads();
        float sums[2] = {0, 0};
#pragma unroll
        for (int j = 0; j < EACH; j += 4)
#pragma unroll
            for (int side = 0; side < 2; side++) {
                float4 v = *(const float4 *)&x[side][lane * STRIDE + j];
                sums[side] = fmaf(w[j], v.x, sums[side]), sums[side] = fmaf(w[j + 1], v.y, sums[side]);
                sums[side] = fmaf(w[j + 2], v.z, sums[side]), sums[side] = fmaf(w[j + 3], v.w, sums[side]);
            }
#pragma unroll
        for (int side = 0; side < 2; side++) {
            sums[side] = folded(sums[side]);
            if (lane == 0) P[side][k] = sums[side];
        }
        __syncthreads();
        int distance = 0;  // every warp counts for itself
        for (int first = 0; first < R; first += 32) {
            int bit = first + threadIdx.x % 32;
            distance += __popc(__ballot_sync(~0u, bit < R && (P[0][bit % R] >= 0) != (P[1][bit % R] >= 0)));
        }
        double loss = is_similar ? max(0.0, (double)(distance - alpha)) : max(0.0, b - distance);
        if (loss == 0) {
            __syncthreads();
            continue;
        }
        total += loss;
        int flips = is_similar ? distance - alpha : (int)ceil(b - 1e-9) - distance;
        bool are_all = flips == (is_similar ? distance : R - distance);
        float mine[2] = {P[0][k], P[1][k]}, delta = min(fabsf(mine[0]), fabsf(mine[1]));
        bool is_wrong = ((mine[0] >= 0) != (mine[1] >= 0)) == is_similar;
        int rank = 0;  // wrong bits that come before this one: by index where all are flipped, else by what it costs
        for (int other = lane; other < R; other += LANES) {
            float p = P[0][other], q = P[1][other], cost = min(fabsf(p), fabsf(q));
            bool is_before = other < k ? are_all || cost <= delta : !are_all && cost < delta;
            rank += is_before && ((p >= 0) != (q >= 0)) == is_similar;
        }
        for (int far = LANES / 2; far; far /= 2) rank += __shfl_xor_sync(~0u, rank, far, LANES);
        bool is_chosen = is_wrong && rank < flips;
        int side = fabsf(mine[0]) <= fabsf(mine[1]) ? 0 : 1;
        if (is_chosen && lane == 0) margins[rank] = 2.0 * fabsf(mine[side]), sides[rank] = side;
        __syncthreads();
        if (threadIdx.x == 0) {  // summed one after the other, as on the CPU
            double sum = sqrt(loss), norm = 0, square[2] = {4 * squares[2 * t], 4 * squares[2 * t + 1]};
            for (int i = 0; i < flips; i++) sum += margins[i], norm += square[sides[i]];
            step = norm == 0 || C == 0 ? 0 : min(C, sum / norm);
        }
        __syncthreads();
        if (is_chosen && step != 0) {
            float factor = 2.0 * step * (mine[side] >= 0 ? -1 : 1);
#pragma unroll
            for (int j = 0; j < EACH; j++) w[j] = fmaf(factor, x[side][lane * STRIDE + j], w[j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) W[LANES * j + lane] = w[j];
    if (threadIdx.x == 0) losses[blockIdx.x] = total;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=float, default=1e5)
    parser.add_argument("--shapes", nargs="+", default=["512x64", "128x32"], help="values of a vector x bits")
    parser.add_argument("--learners", type=int, nargs="+", default=[1, 132, 1056])
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    args = parser.parse_args()
    card, results = describe(cupy), []
    print(f"{card.name}, {card.processors} multiprocessors, beside {os.cpu_count()} cores; {int(args.pairs):,} pairs")
    for shape in args.shapes:
        d, n_bits = map(int, shape.split("x"))
        for row in measured(d, n_bits, int(args.pairs), args.learners):
            results.append(row)
            each = row["seconds"] / row["learners"] / row["pairs"] * 1e9
            print(
                f"{d} values, {n_bits} bits, {row['learners']:>5} learners on the {row['where']}: "
                f"{row['seconds']:.2f} s, {each:,.1f} ns a pair and learner"
                + (f", {row['equal']} compared are equal" if row["equal"] else ""),
                flush=True,
            )
    common.write_json(results, args.json)


def measured(d: int, n_bits: int, n_pairs: int, numbers: list[int]) -> list[dict[str, Any]]:
    """Seconds on the CPU, one learner a core, and on the card."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((20, d)).astype(np.float32)
    labels = rng.integers(0, 20, (n_pairs, 2))
    labels[::2, 1] = labels[::2, 0]  # half of the pairs are similar
    X = centres[labels] + rng.standard_normal((n_pairs, 2, d)).astype(np.float32)
    A, B, similar = X[:, 0].copy(), X[:, 1].copy(), labels[:, 0] == labels[:, 1]
    most = max(numbers)
    grid = [
        {"C": float(10.0 ** rng.uniform(-4, 0)), "similar_radius": int(rng.integers(0, 3)),
         "dissimilar_ratio": float(rng.uniform(0.2, 0.6)), "init": rng.standard_normal((d, n_bits)).astype(np.float32)}
        for _ in range(most)
    ]  # fmt: skip
    cores = os.cpu_count() or 1

    def taught(settings: dict[str, Any], n: int = n_pairs) -> np.ndarray:
        learner = OnlineHashing(n_bits, centre="none", **settings)
        learner.partial_fit_pairs(A[:n], B[:n], similar[:n])
        return learner.projection_

    taught(grid[0], 100)  # compiled
    began = time.perf_counter()
    alone = taught(grid[0])
    rows: list[dict[str, Any]] = [{"where": "CPU", "learners": 1, "seconds": time.perf_counter() - began, "equal": 0}]
    began = time.perf_counter()
    with ThreadPoolExecutor(cores) as pool:
        expected = list(pool.map(taught, (grid * cores)[:cores]))
    rows.append({"where": "CPU", "learners": cores, "seconds": time.perf_counter() - began, "equal": 0})
    assert np.array_equal(alone, expected[0])
    module = cupy.RawModule(code=SOURCE, options=("-std=c++17", f"-DD={d}", f"-DR={n_bits}"))
    on_card, flags = cupy.asarray(X.reshape(-1, d)), cupy.asarray(np.where(similar, 1, -1).astype(np.int8))
    squares = cupy.empty(2 * n_pairs)
    module.get_function("squares")((-(-2 * n_pairs * 16 // 256),), (256,), (on_card, np.int64(2 * n_pairs), squares))
    for number in numbers:
        some = grid[:number]
        arguments = (
            cupy.asarray(np.array([s["similar_radius"] for s in some], np.int32)),
            cupy.asarray(np.array([dissimilar_distance(s["dissimilar_ratio"], n_bits) for s in some])),
            cupy.asarray(np.array([s["C"] for s in some])),
        )
        functions = np.array([s["init"].T for s in some], order="C")
        W, losses = cupy.asarray(functions), cupy.empty(number)
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        module.get_function("teach")(
            (number,), (16 * n_bits,), (on_card, squares, flags, np.int64(n_pairs), *arguments, W, losses)
        )
        cupy.cuda.Device().synchronize()
        seconds = time.perf_counter() - began
        compared = min(number, len(expected))
        learned = W[:compared].get()
        equal = sum(np.array_equal(learned[i].T, expected[i]) for i in range(compared))
        assert equal == compared, f"{equal} of {compared} are equal"
        rows.append({"where": "card", "learners": number, "seconds": seconds, "equal": equal})
    return [row | {"d": d, "bits": n_bits, "pairs": n_pairs} for row in rows]


if __name__ == "__main__":
    main()
