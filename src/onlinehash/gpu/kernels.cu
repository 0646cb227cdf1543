// The kernels of a search on a card. Compiled when first used, for one shape of codes:
//
//   WORDS   words of 32 bits in a model's code          MODELS  models, of whose distances the least counts
//   AHEAD   groups that a warp of `few` looks at       TILES   queries that `many` takes at a time, in sixteens
//
// Codes lie in groups of 128: words[group][word of the code][128], so that a warp reads 512 consecutive bytes, 16 a
// thread, whatever the width. Thread `lane` of a warp sees the codes 4 lane, ..., 4 lane + 3 of a group.
//
// A key is (distance << 48 | position): keys in ascending order are in the order of (distance, insertion). A query
// keeps what is below its bound, or at its bound and before its limit (a position).

typedef unsigned int u32;
typedef unsigned long long u64;

#define GROUP 128
#define ROW (WORDS * MODELS)
#define FARTHEST (32 * WORDS)
#define BINS (FARTHEST + 1)
#define WARPS (blockDim.x / 32)

// Counters of a distance in a block of `count`, as most codes are at few distances and would wait for one another.
#define COPIES (BINS <= 520 ? 8 : 1)

// A list that `pick` sorts within a block is at most so long.
#define PICKED 2048

// Where more than so many times the codes that are needed lie at a bound, the bound gets a limit.
#define CROWD 4

// A limit that no position reaches.
#define NO_LIMIT 0x7fffffffffffffffll

struct Kept {
    const u64 *alive;  // a bit for each position, or null where all are alive
    long long n;       // positions
    const int *bounds;
    const long long *limits;
    u64 *found;  // how many keys were kept for each query; more than there is room for: at least so many
    u64 *keys;   // [query][room]
    u64 room;
};

__device__ __forceinline__ bool is_alive(const u64 *alive, long long n, long long position) {
    return position < n && (alive == nullptr || (alive[position >> 6] >> (position & 63) & 1));
}

__device__ __forceinline__ void keep(const Kept &to, int query, int distance, long long position) {
    int bound = to.bounds[query];
    if (distance > bound || (distance == bound && position >= to.limits[query])) return;
    if (!is_alive(to.alive, to.n, position)) return;
    if (*(volatile u64 *)(to.found + query) > to.room) return;  // overfull already: others need not queue up
    u64 at = atomicAdd(to.found + query, 1ull);
    if (at < to.room) to.keys[query * to.room + at] = (u64)distance << 48 | (u64)position;
}

// The distances of the four codes that a thread sees in a group, to one or several queries.
template <int QUERIES>
__device__ __forceinline__ void distances(const uint4 *group, const u32 (*queries)[ROW], uint4 *least) {
#pragma unroll
    for (int model = 0; model < MODELS; model++) {
        uint4 sums[QUERIES];
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            uint4 x = __ldcs(group + (model * WORDS + w) * 32);
#pragma unroll
            for (int i = 0; i < QUERIES; i++) {
                u32 q = queries[i][model * WORDS + w];
                uint4 sum = w ? sums[i] : make_uint4(0, 0, 0, 0);
                sum.x += __popc(x.x ^ q), sum.y += __popc(x.y ^ q), sum.z += __popc(x.z ^ q), sum.w += __popc(x.w ^ q);
                sums[i] = sum;
            }
        }
#pragma unroll
        for (int i = 0; i < QUERIES; i++) {
            uint4 d = sums[i], old = model ? least[i] : d;
            least[i] = make_uint4(min(d.x, old.x), min(d.y, old.y), min(d.z, old.z), min(d.w, old.w));
        }
    }
}

// The distance of one code.
__device__ __forceinline__ int distance(const u32 *words, long long position, const u32 *query) {
    const u32 *code = words + position / GROUP * (ROW * GROUP) + position % GROUP;
    int least = FARTHEST;
    for (int model = 0; model < MODELS; model++) {
        int sum = 0;
#pragma unroll
        for (int w = 0; w < WORDS; w++)
            sum += __popc(code[(model * WORDS + w) * GROUP] ^ query[model * WORDS + w]);
        least = min(least, sum);
    }
    return least;
}

__device__ __forceinline__ const uint4 *group_at(const u32 *words, long long group, int lane) {
    return (const uint4 *)(words + group * (ROW * GROUP)) + lane;
}

// ------------------------------------------------------------------------------------------------ codes

// Blocks of 64 codes as they lie in memory, planes[block][byte of the code][64], to words; block b goes to blocks[b],
// or to first + b.
extern "C" __global__ void pack(const unsigned char *planes, const long long *blocks, long long first,
                                long long n_blocks, int per_model, u32 *words) {
    long long total = n_blocks * ROW * 64;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < total;
         i += (long long)gridDim.x * blockDim.x) {
        int lane = i % 64, word = i / 64 % ROW;
        long long from = i / 64 / ROW, to = blocks ? blocks[from] : first + from;
        const unsigned char *plane =
            planes + ((from * MODELS + word / WORDS) * per_model + word % WORDS * 4) * 64 + lane;
        u32 value = 0;
        for (int byte = 0; byte < 4; byte++)
            if (word % WORDS * 4 + byte < per_model) value |= (u32)plane[byte * 64] << 8 * byte;
        words[(to / 2 * ROW + word) * GROUP + to % 2 * 64 + lane] = value;
    }
}

// ------------------------------------------------------------------------------------------------ counting

// counts[query][distance] of the living codes in every step-th group. Where `bounds` is given, the last block that ends
// writes each query's bound: the least distance at which `wanted` codes or more were counted. Where `masks` are given,
// hits[query][distance] counts those whose bit is set in masks[which[query]], each of `stride` words.
// Grid: (parts of the groups, queries), with as many parts as the card holds at a time: for the counters of a block to
// overflow, each would have to look at 2^32 codes, all of them together at terabytes.
extern "C" __global__ void count(const u32 *words, const u64 *alive, long long n, long long n_groups, long long step,
                                 const u32 *queries, u64 *counts, u64 wanted, int *bounds, u32 *ended, const u64 *masks,
                                 const int *which, long long stride, u64 *hits) {
    __shared__ u32 bins[2 * BINS * COPIES];  // of what is not relevant, and of what is
    __shared__ bool is_last;
    u32 query[1][ROW];
    for (int w = 0; w < ROW; w++) query[0][w] = queries[blockIdx.y * ROW + w];
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 2 * BINS * COPIES; i += blockDim.x) bins[i] = 0;
    u32 *own = bins + lane % COPIES;
    if (masks) masks += which[blockIdx.y] * stride;
    __syncthreads();
    for (long long g = ((long long)blockIdx.x * WARPS + threadIdx.x / 32) * step; g < n_groups;
         g += (long long)gridDim.x * WARPS * step) {
        uint4 d;
        distances<1>(group_at(words, g, lane), query, &d);
        long long position = g * GROUP + 4 * lane;
        u32 relevant = masks ? masks[position >> 6] >> (position & 63) & 15 : 0;
        if (is_alive(alive, n, position)) atomicAdd(own + COPIES * (d.x + (relevant & 1) * BINS), 1);
        if (is_alive(alive, n, position + 1)) atomicAdd(own + COPIES * (d.y + (relevant >> 1 & 1) * BINS), 1);
        if (is_alive(alive, n, position + 2)) atomicAdd(own + COPIES * (d.z + (relevant >> 2 & 1) * BINS), 1);
        if (is_alive(alive, n, position + 3)) atomicAdd(own + COPIES * (d.w + (relevant >> 3) * BINS), 1);
    }
    __syncthreads();
    u64 *sums = counts + (long long)blockIdx.y * BINS;
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
        u64 others = 0, relevant = 0;
        for (int copy = 0; copy < COPIES; copy++)
            others += bins[COPIES * i + copy], relevant += bins[COPIES * (BINS + i) + copy];
        if (others + relevant) atomicAdd(sums + i, others + relevant);
        if (relevant) atomicAdd(hits + (long long)blockIdx.y * BINS + i, relevant);
    }
    if (bounds == nullptr) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(ended + blockIdx.y, 1) == gridDim.x - 1;
    __syncthreads();
    if (!is_last || threadIdx.x >= 32) return;
    __threadfence();
    u64 before = 0;
    for (int start = 0; start < BINS; start += 32) {
        u64 sum = start + lane < BINS ? ((volatile u64 *)sums)[start + lane] : 0;
        for (int far = 1; far < 32; far *= 2) {
            u64 other = __shfl_up_sync(~0u, sum, far);
            if (lane >= far) sum += other;
        }
        u32 enough = __ballot_sync(~0u, before + sum >= wanted);
        if (enough) {
            if (lane == 0) bounds[blockIdx.y] = min(start + __ffs(enough) - 1, FARTHEST);
            return;
        }
        before += __shfl_sync(~0u, sum, 31);
    }
    if (lane == 0) bounds[blockIdx.y] = FARTHEST;
}

// Where more than CROWD times as many codes lie at the very distance of a query's bound as are needed (what is wanted
// of them, or `spare` if that is more), limits[query] is the position of a group before which there are about as many
// as needed, by what `count` has counted in every step-th group, each of which stands for those up to the next. `past`,
// 0 at first, becomes the last limit, and beyond[query] what is the bound past a limit. Not part of `count`, which it
// would slow down by a seventh. Grid: queries.
extern "C" __global__ void limit(const u32 *words, const u64 *alive, long long n, long long n_groups, long long step,
                                 const u32 *queries, const u64 *counts, u64 wanted, u64 spare, const int *bounds,
                                 long long *limits, long long *past, int *beyond) {
    __shared__ u32 tied[32];
    int lane = threadIdx.x % 32, bound = bounds[blockIdx.x];
    counts += (long long)blockIdx.x * BINS;
    u64 before = 0, there = counts[bound];
    for (int i = lane; i < bound; i += 32) before += counts[i];
    for (int far = 16; far; far /= 2) before += __shfl_xor_sync(~0u, before, far);
    u64 needed = max(wanted - min(wanted, before), spare);
    if (there <= CROWD * needed) {
        if (threadIdx.x == 0) limits[blockIdx.x] = NO_LIMIT, beyond[blockIdx.x] = bound;
        return;
    }
    u32 query[1][ROW];
    for (int w = 0; w < ROW; w++) query[0][w] = queries[blockIdx.x * ROW + w];
    before = 0;
    for (long long start = 0; start < n_groups; start += 32 * step) {
#pragma unroll 4
        for (int i = threadIdx.x / 32; i < 32; i += WARPS) {
            long long g = start + i * step, position = g * GROUP + 4 * lane;
            u32 sum = 0;
            if (g < n_groups) {
                uint4 d;
                distances<1>(group_at(words, g, lane), query, &d);
                sum += d.x == bound && is_alive(alive, n, position);
                sum += d.y == bound && is_alive(alive, n, position + 1);
                sum += d.z == bound && is_alive(alive, n, position + 2);
                sum += d.w == bound && is_alive(alive, n, position + 3);
            }
            sum = __reduce_add_sync(~0u, sum);
            if (lane == 0) tied[i] = sum;
        }
        __syncthreads();
        u32 own = tied[lane], sum = own;
        for (int far = 1; far < 32; far *= 2) {
            u32 other = __shfl_up_sync(~0u, sum, far);
            if (lane >= far) sum += other;
        }
        u32 enough = __ballot_sync(~0u, before + sum >= needed);
        if (enough) {
            int i = __ffs(enough) - 1;
            own = __shfl_sync(~0u, own, i), sum = __shfl_sync(~0u, sum, i);
            u64 left = needed - (before + sum - own);
            long long position = (start + i * step + (long long)((step * left + own - 1) / own)) * GROUP;
            if (threadIdx.x == 0)
                limits[blockIdx.x] = position, beyond[blockIdx.x] = bound - 1, atomicMax(past, position);
            return;
        }
        before += __shfl_sync(~0u, sum, 31);
        __syncthreads();
    }
}

// tallies[chunk] = how many living codes of a chunk of groups lie at exactly this distance. Grid: chunks.
extern "C" __global__ void tally(const u32 *words, const u64 *alive, long long n, long long n_groups, int per_chunk,
                                 const u32 *queries, int wanted, u32 *tallies) {
    __shared__ u32 total;
    u32 query[1][ROW];
    for (int w = 0; w < ROW; w++) query[0][w] = queries[w];
    int lane = threadIdx.x % 32, sum = 0;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    long long stop = min(n_groups, ((long long)blockIdx.x + 1) * per_chunk);
    for (long long g = (long long)blockIdx.x * per_chunk + threadIdx.x / 32; g < stop; g += WARPS) {
        uint4 d;
        distances<1>(group_at(words, g, lane), query, &d);
        long long position = g * GROUP + 4 * lane;
        sum += d.x == wanted && is_alive(alive, n, position);
        sum += d.y == wanted && is_alive(alive, n, position + 1);
        sum += d.z == wanted && is_alive(alive, n, position + 2);
        sum += d.w == wanted && is_alive(alive, n, position + 3);
    }
    atomicAdd(&total, (u32)sum);
    __syncthreads();
    if (threadIdx.x == 0) tallies[blockIdx.x] = total;
}

// ------------------------------------------------------------------------------------------------ few queries

// A warp looks at AHEAD groups, all of which it reads first, and ends: blocks that come and go share the memory better
// than blocks that stay and go round. Grid: as many warps as that takes.

template <int QUERIES>
__device__ __forceinline__ void look(const u32 *words, long long n_groups, const u32 *queries, const Kept &to) {
    int lane = threadIdx.x % 32;
    long long start = ((long long)blockIdx.x * WARPS + threadIdx.x / 32) * AHEAD;
    int bounds[QUERIES];
    u32 own[QUERIES][ROW];
#pragma unroll
    for (int q = 0; q < QUERIES; q++) {
        bounds[q] = to.bounds[q] - (start * GROUP >= to.limits[q]);  // past its limit, what is at the bound is not kept
#pragma unroll
        for (int w = 0; w < ROW; w++) own[q][w] = queries[q * ROW + w];
    }
    uint4 d[AHEAD][QUERIES];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
        long long g = min(start + a, n_groups - 1);  // the last group is looked at again, and not kept again
        distances<QUERIES>(group_at(words, g, lane), own, d[a]);
    }
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
        if (start + a >= n_groups) break;
        long long position = (start + a) * GROUP + 4 * lane;
#pragma unroll
        for (int q = 0; q < QUERIES; q++) {
            uint4 x = d[a][q];
            if ((int)min(min(x.x, x.y), min(x.z, x.w)) <= bounds[q]) {
                keep(to, q, x.x, position), keep(to, q, x.y, position + 1);
                keep(to, q, x.z, position + 2), keep(to, q, x.w, position + 3);
            }
        }
    }
}

#define FEW(QUERIES)                                                                                           \
    extern "C" __global__ void __launch_bounds__(256) few_##QUERIES(                                           \
        const u32 *__restrict__ words, const u64 *alive, long long n, long long n_groups,                      \
        const u32 *__restrict__ queries, const int *bounds, const long long *limits, u64 *found, u64 *keys,    \
        u64 room) {                                                                                            \
        look<QUERIES>(words, n_groups, queries, Kept{alive, n, bounds, limits, found, keys, room});            \
    }

FEW(1)
FEW(2)
FEW(4)

// ------------------------------------------------------------------------------------------------ many queries

// Tensor cores count the bits of a & b over 256 (or 128) bits, for 16 x 8 pairs at a time. The distance is the count of
// (q & ~x) and (~q & x): queries come as their words and the complements, codes as complements and words. Sums begin at
// -(bound + 1), so that a pair is to be kept where the sum is negative. To look at each sum would take longer than to
// compute it. But a small negative number, read as a float, is not a number, a small positive one is next to zero, and a
// multiply-add has no number for a result as soon as one of its inputs has none: each looks at two sums at once, at the
// full rate. The few pairs that are to be kept are computed again.

#ifdef TILES

#define SHORT (WORDS <= 2)                 // one product of 128 bits; else products of 256 bits, four words each
#define STEPS (SHORT ? 1 : (WORDS + 3) / 4)
#define QUERY_REGISTERS (SHORT ? 2 : 4)    // of a thread, for 16 queries and one product
#define CODE_REGISTERS (SHORT ? 1 : 2)
#define PRODUCTS (STEPS * MODELS)          // for a pair
#define QUARTERS (PRODUCTS == 1 ? 4 : PRODUCTS == 2 ? 2 : 1)  // of a group that are read together
#define REGISTERS (QUARTERS * 4 * PRODUCTS + TILES * (QUERY_REGISTERS * PRODUCTS + 4) + 42)  // about
#define BLOCKS_EACH (REGISTERS <= 64 ? 4 : REGISTERS <= 80 ? 3 : 2)                          // on a multiprocessor

__device__ __forceinline__ void multiply(int *sums, const int *start, const u32 *q, const u32 *x) {
#if WORDS <= 2
    asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(q[0]), "r"(q[1]), "r"(x[0]), "r"(start[0]), "r"(start[1]), "r"(start[2]), "r"(start[3]));
#else
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(q[0]), "r"(q[1]), "r"(q[2]), "r"(q[3]), "r"(x[0]), "r"(x[1]), "r"(start[0]), "r"(start[1]),
          "r"(start[2]), "r"(start[3]));
#endif
}

// Words of the code that thread `part` of four holds in a product, and whether as a complement.
__device__ __forceinline__ int word_of(int step, int part) { return SHORT ? part % 2 : 4 * step + part; }

// Keep what is near among the 32 codes from `first` on. Bit 2 i + e of `met` says that code 4 (2 part + e) + i is near
// one of this thread's queries, which are those with the same remainder of 8. Not part of the loop that calls it, which
// has to fit the instruction cache.
__device__ __noinline__ void collect(const Kept &to, const u32 *words, const u32 *queries, int n_queries,
                                     long long first, u32 met) {
    int lane = threadIdx.x % 32;
    bool is_dense = __reduce_add_sync(~0u, __popc(met)) > n_queries;  // all pairs take less then, a code a thread
    for (int query = is_dense ? 0 : n_queries; query < n_queries; query++)
        keep(to, query, distance(words, first + lane, queries + query * ROW), first + lane);
    if (is_dense) met = 0;
    for (int bit = 0; bit < 8; bit++)
        for (u32 threads = __ballot_sync(~0u, met >> bit & 1); threads; threads &= threads - 1) {
            int thread = __ffs(threads) - 1;
            long long position = first + 4 * (2 * (thread % 4) + bit % 2) + bit / 2;
            for (int query = 8 * lane + thread / 4; query < n_queries; query += 8 * 32)
                keep(to, query, distance(words, position, queries + query * ROW), position);
        }
}

// Grid: (parts of the groups, queries in parts of 16 TILES) or, where `past` and `beyond` are given, two such grids:
// for the groups before the last limit, and for those past it.
extern "C" __global__ void __launch_bounds__(256, BLOCKS_EACH)
    many(const u32 *__restrict__ words, const u64 *alive, long long n, long long n_groups,
         const u32 *__restrict__ queries, int n_queries, const int *bounds, const long long *limits, u64 *found,
         u64 *keys, u64 room, const long long *past, const int *beyond) {
    int lane = threadIdx.x % 32, row = lane / 4, part = lane % 4;
    int first = blockIdx.y * (16 * TILES);  // the queries of this block
    queries += (long long)first * ROW;
    n_queries = min(n_queries - first, 16 * TILES);
    Kept to = {alive, n, bounds + first, limits + first, found + first, keys + first * room, room};
    long long g = (long long)blockIdx.x * WARPS + threadIdx.x / 32, end = n_groups;
    const int *within = bounds + first;
    if (past && *past) end = min(n_groups, *past / GROUP);
    if (blockIdx.z) g += end, end = n_groups, within = beyond + first;
    if (g >= end) return;
    u32 inverted = part < 2 ? ~0u : 0;
    u32 q[TILES][MODELS][STEPS][QUERY_REGISTERS];
    int start[TILES][4];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {  // a thread holds words of queries `row` and `row` + 8 of a tile
            int query = 16 * tile + 8 * half + row;
            for (int i = 0; i < 2; i++)  // read twice: of values known to be equal the compiler would keep only one
                start[tile][2 * half + i] = query < n_queries ? -1 - *(volatile const int *)(within + query) : 0;
#pragma unroll
            for (int model = 0; model < MODELS; model++) {
#pragma unroll
                for (int step = 0; step < STEPS; step++) {
                    int word = word_of(step, part);
                    bool is_there = word < WORDS && query < n_queries;
                    u32 value = is_there ? queries[query * ROW + model * WORDS + word] : 0, other = is_there ? ~value : 0;
                    if (SHORT) {
                        q[tile][model][step][half] = part < 2 ? value : other;
                    } else {
                        q[tile][model][step][half] = value;
                        q[tile][model][step][2 % QUERY_REGISTERS + half] = other;
                    }
                }
            }
        }
    }
    for (; g < end; g += (long long)gridDim.x * WARPS) {
        if (alive != nullptr && (alive[2 * g] | alive[2 * g + 1]) == 0) continue;
        const uint4 *group = group_at(words, g, row);
#pragma unroll 1
        for (int first = 0; first < 4; first += QUARTERS) {
            uint4 x[QUARTERS][MODELS][STEPS];  // words of the codes 32 quarter + 4 row, ..., + 3
#pragma unroll
            for (int quarter = 0; quarter < QUARTERS; quarter++)
#pragma unroll
                for (int model = 0; model < MODELS; model++)
#pragma unroll
                    for (int step = 0; step < STEPS; step++) {
                        int word = word_of(step, part);
                        const uint4 *at = group + (model * WORDS + word) * 32 + 8 * (first + quarter);
                        x[quarter][model][step] = word < WORDS ? __ldcs(at) : make_uint4(0, 0, 0, 0);
                    }
#pragma unroll
            for (int quarter = 0; quarter < QUARTERS; quarter++) {
                float near[4][2];  // no number where a code is to be kept for any query: codes 4 (2 part + e) + i
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    near[i][0] = near[i][1] = 0;
#pragma unroll
                    for (int model = 0; model < MODELS; model++) {
                        u32 code[STEPS][CODE_REGISTERS];
#pragma unroll
                        for (int step = 0; step < STEPS; step++) {
                            uint4 four = x[quarter][model][step];
                            u32 value = i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
                            if (SHORT) {
                                code[step][0] = value ^ inverted;
                            } else {
                                code[step][0] = ~value;
                                code[step][1 % CODE_REGISTERS] = value;
                            }
                        }
#pragma unroll
                        for (int tile = 0; tile < TILES; tile++) {
                            int sums[4];
                            multiply(sums, start[tile], q[tile][model][0], code[0]);
#pragma unroll
                            for (int step = 1; step < STEPS; step++)
                                multiply(sums, sums, q[tile][model][step], code[step]);
                            near[i][0] = fmaf(__int_as_float(sums[0]), __int_as_float(sums[2]), near[i][0]);
                            near[i][1] = fmaf(__int_as_float(sums[1]), __int_as_float(sums[3]), near[i][1]);
                        }
                    }
                }
                float any = fmaf(near[0][0], near[0][1], near[1][0]) + fmaf(near[1][1], near[2][0], near[2][1]) +
                            fmaf(near[3][0], near[3][1], 0.0f);
                if (__any_sync(~0u, any != any)) {
                    u32 met = 0;
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        met |= (u32)(near[i][0] != near[i][0]) << 2 * i | (u32)(near[i][1] != near[i][1]) << (2 * i + 1);
                    collect(to, words, queries, n_queries, g * GROUP + 32 * (first + quarter), met);
                }
            }
        }
    }
}

#endif

// ------------------------------------------------------------------------------------------------ the nearest

// bins[bin] += 1 for each thread, by one addition for those of a warp that have the same bin, as many of them do.
__device__ __forceinline__ void tally_together(u32 *bins, u32 bin) {
    u32 same = __match_any_sync(__activemask(), bin);
    if (threadIdx.x % 32 == __ffs(same) - 1) atomicAdd(bins + bin, __popc(same));
}

// out[query][k], the k least keys of each list in order, where k is at most PICKED, and at least k and at most `room`
// keys were found; picked[query] says whether it was so. Grid: queries; as many threads as half of PICKED.
extern "C" __global__ void pick(const u64 *found, const u64 *keys, u64 room, int k, u64 *out, u64 *picked) {
    __shared__ u32 bins[BINS], digits[256];
    __shared__ u64 list[PICKED];
    __shared__ u32 length, below, digit;
    __shared__ int last;
    u64 n = found[blockIdx.x];
    const u64 *mine = keys + blockIdx.x * room;
    bool can = k <= PICKED && n >= k && n <= room;
    if (threadIdx.x == 0) picked[blockIdx.x] = can;
    if (!can) return;
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) bins[i] = 0;
    if (threadIdx.x == 0) length = 0;
    __syncthreads();
    for (u64 i = threadIdx.x; i < n; i += blockDim.x) tally_together(bins, mine[i] >> 48);
    __syncthreads();
    if (threadIdx.x < 32) {  // the distance of the k-th, and how many are nearer
        u32 before = 0;
        for (int start = 0; start < BINS; start += 32) {
            u32 own = start + threadIdx.x < BINS ? bins[start + threadIdx.x] : 0, sum = own;
            for (int far = 1; far < 32; far *= 2) {
                u32 other = __shfl_up_sync(~0u, sum, far);
                if (threadIdx.x >= far) sum += other;
            }
            u32 enough = __ballot_sync(~0u, before + sum >= k);
            if (enough) {
                if (threadIdx.x == __ffs(enough) - 1) last = start + threadIdx.x, below = before + sum - own;
                break;
            }
            before += __shfl_sync(~0u, sum, 31);
        }
    }
    __syncthreads();
    u64 most = (u64)(last + 1) << 48;  // keys below it are sorted
    if (below + bins[last] > PICKED) {  // of those at the distance of the k-th only the first: eight bits at a time
        u32 left = k - below;
        most = last;
        for (int shift = 40; shift >= 0; shift -= 8) {
            for (int i = threadIdx.x; i < 256; i += blockDim.x) digits[i] = 0;
            __syncthreads();
            for (u64 i = threadIdx.x; i < n; i += blockDim.x)
                if (mine[i] >> (shift + 8) == most) tally_together(digits, mine[i] >> shift & 255);
            __syncthreads();
            if (threadIdx.x == 0) {
                u32 sum = 0, i = 0;
                while (sum + digits[i] < left) sum += digits[i++];
                digit = i, below = sum;
            }
            __syncthreads();
            most = most << 8 | digit, left -= below;
        }
        most++;
    }
    for (u64 i = threadIdx.x; i < n; i += blockDim.x) {
        u64 key = mine[i];
        if (key < most) list[atomicAdd(&length, 1)] = key;
    }
    __syncthreads();
    int size = 2;
    while (size < length) size *= 2;
    for (int i = length + threadIdx.x; i < size; i += blockDim.x) list[i] = ~0ull;
    for (int run = 2; run <= size; run *= 2)  // bitonic: runs that rise and fall in turn are merged
        for (int far = run / 2; far; far /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < size / 2; i += blockDim.x) {
                int low = i / far * far * 2 + i % far, high = low + far;
                u64 a = list[low], b = list[high];
                if ((a > b) == ((low & run) == 0)) list[low] = b, list[high] = a;
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < k; i += blockDim.x) out[(u64)blockIdx.x * k + i] = list[i];
}
