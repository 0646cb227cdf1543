// Kernels on vectors: signs of projections under the numeric law, and the nearest by Euclidean distance. REAL is float
// or double, the precision of the vectors.

typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ double sum_of_warp(double sum) {
    for (int far = 16; far; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
    return __shfl_sync(~0u, sum, 0);
}

// |z| of each row, in the precision of its values, summed in any order. A warp takes a row.
extern "C" __global__ void norms(const REAL *Z, long long n, int d, double *out) {
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (long long row = (long long)blockIdx.x * warps + threadIdx.x / 32; row < n; row += (long long)gridDim.x * warps) {
        const REAL *z = Z + row * d;
        REAL sum = 0;
        for (int i = lane; i < d; i += 32) sum += z[i] * z[i];
        for (int far = 16; far; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
        if (lane == 0) out[row] = sqrt((double)sum);
    }
}

// What a comparison needs of the functions: thresholds, norms, and the error that no vector adds to (numeric/signs.py).
struct Functions {
    const double *values;
    int stride;
    __device__ double threshold(int k) const { return values[k]; }
    __device__ double error(int k, double eps, double reach) const {
        return eps * reach * values[stride + k] + values[2 * stride + k];
    }
};

// Bits of rows whose projections P (n, k) and norms are given, into planes[block][byte][64]. columns[8 byte + bit] is
// the column of a place, or -1 where there is none. Bits in doubt become 0 and are listed as row * k + column.
extern "C" __global__ void bits(const REAL *P, const double *norms, long long n, int k, int d, const double *functions,
                                int stride, const int *columns, int n_planes, double eps, double smallest,
                                unsigned char *planes, u64 *found, u64 *doubts, u64 room, u32 *overflowed) {
    Functions f = {functions, stride};
    long long total = (n + 63) / 64 * 64 * n_planes;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < total;
         i += (long long)gridDim.x * blockDim.x) {
        int lane = i % 64, plane = i / 64 % n_planes;
        long long row = i / 64 / n_planes * 64 + lane;
        if (row >= n) continue;
        double reach = (d + 2) * (norms[row] + smallest);
        if (!(norms[row] < __longlong_as_double(0x7ff0000000000000ll))) *overflowed = 1;
        u32 octet = 0;
        for (int bit = 0; bit < 8; bit++) {
            int column = columns[8 * plane + bit];
            if (column < 0) continue;
            double gap = (double)P[row * k + column] - f.threshold(column);
            bool is_certain = fabs(gap) > f.error(column, eps, reach);
            octet |= (u32)(is_certain && gap >= 0) << bit;
            if (!is_certain) {
                u64 at = atomicAdd(found, 1ull);
                if (at < room) doubts[at] = row * k + column;
            }
        }
        planes[i] = octet;
    }
}

// w . z summed in index order with compensated products and sums, each operation rounded on its own: `canonical_dot` of
// numeric/signs.py to the last bit.
__device__ double canonical_dot(const REAL *w, const REAL *z, int d) {
    const double split = 134217729.0;
    double total = 0, lost = 0;
    for (int i = 0; i < d; i++) {
        double a = w[i], b = z[i], product = __dmul_rn(a, b);
        double a_far = __dmul_rn(a, split), b_far = __dmul_rn(b, split);
        double a_high = __dsub_rn(a_far, __dsub_rn(a_far, a)), b_high = __dsub_rn(b_far, __dsub_rn(b_far, b));
        double a_low = __dsub_rn(a, a_high), b_low = __dsub_rn(b, b_high);
        double rest = __dsub_rn(product, __dmul_rn(a_high, b_high));
        rest = __dsub_rn(__dsub_rn(rest, __dmul_rn(a_low, b_high)), __dmul_rn(a_high, b_low));
        double product_error = __dsub_rn(__dmul_rn(a_low, b_low), rest);
        double sum = __dadd_rn(total, product), bigger = __dsub_rn(sum, total);
        double sum_error = __dadd_rn(__dsub_rn(total, __dsub_rn(sum, bigger)), __dsub_rn(product, bigger));
        total = sum;
        lost = __dadd_rn(lost, __dadd_rn(product_error, sum_error));
    }
    return __dadd_rn(total, lost);
}

// Decide bits in doubt: by a product in double precision and, where that leaves a doubt, by the canonical one. A warp
// takes a bit. places[column] is where the bit of a column lies, as 8 * byte + bit.
extern "C" __global__ void settle(const REAL *Z, const REAL *W, const double *norms, int k, int d,
                                  const double *functions, int stride, const int *places, int n_planes, double smallest,
                                  const u64 *doubts, u64 n_doubts, unsigned char *planes) {
    Functions f = {functions, stride};
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (u64 i = (u64)blockIdx.x * warps + threadIdx.x / 32; i < n_doubts; i += (u64)gridDim.x * warps) {
        long long row = doubts[i] / k;
        int column = doubts[i] % k;
        const REAL *z = Z + row * d, *w = W + (long long)column * d;
        double sum = 0;
        for (int j = lane; j < d; j += 32) sum += (double)w[j] * (double)z[j];
        double gap = sum_of_warp(sum) - f.threshold(column);
        double reach = (d + 2) * (norms[row] + smallest);
        bool is_positive = gap >= 0;
        if (!(fabs(gap) > f.error(column, 2.220446049250313e-16, reach))) {
            if (lane == 0) is_positive = canonical_dot(w, z, d) >= f.threshold(column);
        }
        if (lane == 0 && is_positive) {
            u64 byte = (u64)(row / 64 * n_planes + places[column] / 8) * 64 + row % 64;
            atomicOr((u32 *)planes + byte / 4, 1u << (byte % 4 * 8 + places[column] % 8));
        }
    }
}

// Rows moved by -mean and scaled, rounded to float, and their squared lengths. A warp takes a row.
extern "C" __global__ void centre(const REAL *rows, const double *mean, double factor, long long n, int d, float *points,
                                  float *squares) {
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (long long row = (long long)blockIdx.x * warps + threadIdx.x / 32; row < n; row += (long long)gridDim.x * warps) {
        double sum = 0;
        for (int i = lane; i < d; i += 32) {
            float value = (rows[row * d + i] - mean[i]) * factor;
            points[row * d + i] = value;
            sum += (double)value * value;
        }
        sum = sum_of_warp(sum);
        if (lane == 0) squares[row] = sum;
    }
}

// From products P (queries, rows) of centred vectors to the rows that may be among the nearest: those whose squared
// distance |x|^2 + |y|^2 - 2 x.y, less what it may be off, is at most the query's reach. Kept are the row's number, and
// the least and the greatest that the distance can be. Grid: (parts of the rows, queries).
extern "C" __global__ void sift(const float *P, const float *squares, const float *row_squares, long long n_rows,
                                long long first, float relative, float absolute, const float *reaches, u32 *found,
                                long long *rows, float *least, float *greatest, u64 room) {
    long long query = blockIdx.y;
    float own = squares[query], reach = reaches[query];
    for (long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x; j < n_rows;
         j += (long long)gridDim.x * blockDim.x) {
        float square = own + row_squares[j], distance = square - 2 * P[query * n_rows + j];
        float error = relative * square + absolute;
        if (distance - error <= reach) {
            u64 at = atomicAdd(found + query, 1u);
            if (at < room) {
                at += query * room;
                rows[at] = first + j, least[at] = distance - error, greatest[at] = distance + error;
            }
        }
    }
}

// The squared distance of row queries[i] of X and row rows[i] of the base, summed in float64 and in index order, each
// operation rounded on its own: as in numeric/neighbours.py to the last bit.
extern "C" __global__ void compare(const REAL *X, const REAL *base, int d, const long long *queries,
                                   const long long *rows, long long n, double *out) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        const REAL *x = X + queries[i] * d, *y = base + rows[i] * d;
        double total = 0;
        for (int j = 0; j < d; j++) {
            double difference = __dsub_rn(x[j], y[j]);
            total = __dadd_rn(total, __dmul_rn(difference, difference));
        }
        out[i] = total;
    }
}

// out[list] = the k-th least of the first min(lengths[list], width) values of each list, by choosing eight bits at a
// time. Grid: lists; 256 threads.
extern "C" __global__ void kth(const float *values, const u32 *lengths, long long width, u32 k, float *out) {
    __shared__ u32 bins[256], chosen, before;
    const u32 *list = (const u32 *)values + blockIdx.x * width;
    long long n = min((long long)lengths[blockIdx.x], width);
    u32 prefix = 0, left = k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        bins[threadIdx.x] = 0;
        __syncthreads();
        for (long long i = threadIdx.x; i < n; i += blockDim.x) {
            u32 bits = list[i], key = bits ^ (bits >> 31 ? ~0u : 1u << 31);  // in the order of the values
            if (shift == 24 || key >> (shift + 8) == prefix) atomicAdd(bins + (key >> shift & 255), 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 sum = 0, bin = 0;
            while (bin < 255 && sum + bins[bin] < left) sum += bins[bin++];
            chosen = bin, before = sum;
        }
        __syncthreads();
        prefix = prefix << 8 | chosen, left -= before;
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = __uint_as_float(prefix >> 31 ? prefix ^ 1u << 31 : ~prefix);
}
