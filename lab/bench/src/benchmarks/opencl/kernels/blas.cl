// Linear algebra of dense vectors and matrices, which are row by row.

kernel void axpy(float a, global const float *x, global float *y) {
    size_t i = get_global_id(0);
    y[i] = a * x[i] + y[i];
}

kernel void scal(float a, global float *x) {
    x[get_global_id(0)] *= a;
}

kernel void rotate_planes(float c, float s, global float *x, global float *y) {
    size_t i = get_global_id(0);
    float a = x[i], b = y[i];
    x[i] = c * a + s * b;
    y[i] = c * b - s * a;
}

// Sums of a group's numbers, made by halves.
float group_sum(local float *part, float own) {
    uint l = get_local_id(0);
    part[l] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_of = get_local_size(0) / 2; half_of > 0; half_of /= 2) {
        if (l < half_of)
            part[l] += part[l + half_of];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return part[0];
}

kernel void dot_product(int n, global const float *x, global const float *y, global float *sums,
                        local float *part) {
    float sum = 0.0f;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        sum += x[i] * y[i];
    sum = group_sum(part, sum);
    if (get_local_id(0) == 0)
        sums[get_group_id(0)] = sum;
}

kernel void norm2(int n, global const float *x, global float *sums, local float *part) {
    float sum = 0.0f;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        sum += x[i] * x[i];
    sum = group_sum(part, sum);
    if (get_local_id(0) == 0)
        sums[get_group_id(0)] = sqrt(sum);
}

kernel void absolute_sum(int n, global const float *x, global float *sums, local float *part) {
    float sum = 0.0f;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        sum += fabs(x[i]);
    sum = group_sum(part, sum);
    if (get_local_id(0) == 0)
        sums[get_group_id(0)] = sum;
}

kernel void index_of_largest(int n, global const float *x, global int *places, local float *values,
                             local int *indices) {
    int l = get_local_id(0);
    float best = -1.0f;
    int place = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
        float value = fabs(x[i]);
        if (value > best) {
            best = value;
            place = i;
        }
    }
    values[l] = best;
    indices[l] = place;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_of = get_local_size(0) / 2; half_of > 0; half_of /= 2) {
        if (l < half_of) {
            float other = values[l + half_of];
            int other_place = indices[l + half_of];
            if (other > values[l] || (other == values[l] && other_place < indices[l])) {
                values[l] = other;
                indices[l] = other_place;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0)
        places[get_group_id(0)] = indices[0];
}

// A row of the matrix for each work-item.
kernel void gemv_rows(int n, global const float *a, global const float *x, global float *y) {
    int row = get_global_id(0);
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * x[k];
    y[row] = sum;
}

// A column of the matrix for each work-item.
kernel void gemv_columns(int n, global const float *a, global const float *x, global float *y) {
    int column = get_global_id(0);
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[k * n + column] * x[k];
    y[column] = sum;
}

// A row of the matrix for each work-group.
kernel void gemv_groups(int n, global const float *a, global const float *x, global float *y,
                        local float *part) {
    int row = get_group_id(0);
    float sum = 0.0f;
    for (int k = get_local_id(0); k < n; k += get_local_size(0))
        sum += a[row * n + k] * x[k];
    sum = group_sum(part, sum);
    if (get_local_id(0) == 0)
        y[row] = sum;
}

kernel void ger(int n, float alpha, global const float *x, global const float *y, global float *a) {
    int column = get_global_id(0), row = get_global_id(1);
    a[row * n + column] += alpha * x[row] * y[column];
}

// Solves L x = b for a lower triangle with ones on its diagonal; each work-item has a b of its own.
kernel void trsm(int n, int count, global const float *lower, global float *b) {
    int column = get_global_id(0);
    for (int row = 0; row < n; row++) {
        float x = b[row * count + column];
        for (int k = 0; k < row; k++)
            x -= lower[row * n + k] * b[k * count + column];
        b[row * count + column] = x;
    }
}

kernel void gemm_naive(int n, global const float *a, global const float *b, global float *c) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= n || y >= n)
        return;
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

// The second matrix is transposed.
kernel void gemm_transposed(int n, global const float *a, global const float *b, global float *c) {
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[x * n + k];
    c[y * n + x] = sum;
}

#define TILE 16
kernel void gemm_tiled(int n, global const float *a, global const float *b, global float *c) {
    local float left[TILE][TILE], right[TILE][TILE];
    int lx = get_local_id(0), ly = get_local_id(1);
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += TILE) {
        left[ly][lx] = a[y * n + tile + lx];
        right[ly][lx] = b[(tile + ly) * n + x];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TILE; k++)
            sum += left[ly][k] * right[k][lx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[y * n + x] = sum;
}

// Each of 16 x 16 work-items makes 4 x 4 numbers of a tile of 64 x 64.
#define WIDE 64
#define DEEP 16
kernel void gemm_registers(int n, global const float *a, global const float *b, global float *c) {
    local float left[DEEP][WIDE], right[DEEP][WIDE];
    int lx = get_local_id(0), ly = get_local_id(1);
    int own = ly * 16 + lx;
    int first_row = get_group_id(1) * WIDE, first_column = get_group_id(0) * WIDE;
    float sums[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            sums[i][j] = 0.0f;
    for (int tile = 0; tile < n; tile += DEEP) {
        for (int i = own; i < DEEP * WIDE; i += 256) {
            left[i % DEEP][i / DEEP] = a[(first_row + i / DEEP) * n + tile + i % DEEP];
            right[i / WIDE][i % WIDE] = b[(tile + i / WIDE) * n + first_column + i % WIDE];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < DEEP; k++) {
            float rows[4], columns[4];
            for (int i = 0; i < 4; i++) {
                rows[i] = left[k][ly + 16 * i];
                columns[i] = right[k][lx + 16 * i];
            }
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sums[i][j] += rows[i] * columns[j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(first_row + ly + 16 * i) * n + first_column + lx + 16 * j] = sums[i][j];
}

// Each work-item makes four numbers that are next to each other.
kernel void gemm_float4(int n, global const float *a, global const float4 *b, global float4 *c) {
    int x = get_global_id(0), y = get_global_id(1);
    float4 sum = (float4)(0.0f);
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * (n / 4) + x];
    c[y * (n / 4) + x] = sum;
}

// A product of two small matrices for each work-item.
kernel void gemm_batched(global const float *a, global const float *b, global float *c) {
    size_t at = get_global_id(0) * 16;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            float sum = 0.0f;
            for (int k = 0; k < 4; k++)
                sum += a[at + 4 * i + k] * b[at + 4 * k + j];
            c[at + 4 * i + j] = sum;
        }
}

// Symmetric rank-k update of the lower triangle.
kernel void syrk(int n, int depth, global const float *a, global float *c) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x > y)
        return;
    float sum = 0.0f;
    for (int k = 0; k < depth; k++)
        sum += a[k * n + y] * a[k * n + x];
    c[y * n + x] += sum;
}

kernel void transpose_naive(int n, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    out[x * n + y] = in[y * n + x];
}

kernel void transpose_tiled(int n, global const float *in, global float *out) {
    local float tile[TILE][TILE + 1];
    int lx = get_local_id(0), ly = get_local_id(1);
    tile[ly][lx] = in[get_global_id(1) * n + get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    int x = get_group_id(1) * TILE + lx, y = get_group_id(0) * TILE + ly;
    out[y * n + x] = tile[lx][ly];
}

// One step of a decomposition into triangles: what is below and right of the pivot changes.
kernel void lu_scale(int n, int pivot, global float *a) {
    int row = get_global_id(0);
    if (row > pivot && row < n)
        a[row * n + pivot] /= a[pivot * n + pivot];
}

kernel void lu_update(int n, int pivot, global float *a) {
    int column = get_global_id(0), row = get_global_id(1);
    if (row > pivot && column > pivot)
        a[row * n + column] -= a[row * n + pivot] * a[pivot * n + column];
}
