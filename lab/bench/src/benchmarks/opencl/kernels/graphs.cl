// Sparse matrices, graphs and dynamic programming.

kernel void csr_rows(global const int *starts, global const int *columns, global const float *values,
                     global const float *x, global float *y) {
    int row = get_global_id(0);
    float sum = 0.0f;
    for (int k = starts[row]; k < starts[row + 1]; k++)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}

// 32 work-items for each row.
kernel void csr_groups(global const int *starts, global const int *columns, global const float *values,
                       global const float *x, global float *y) {
    local float part[32];
    int l = get_local_id(0), row = get_group_id(0);
    float sum = 0.0f;
    for (int k = starts[row] + l; k < starts[row + 1]; k += 32)
        sum += values[k] * x[columns[k]];
    part[l] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 16; step > 0; step /= 2) {
        if (l < step)
            part[l] += part[l + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0)
        y[row] = part[0];
}

kernel void ell(int most, global const int *columns, global const float *values, global const float *x,
                global float *y) {
    int row = get_global_id(0), n = get_global_size(0);
    float sum = 0.0f;
    for (int k = 0; k < most; k++) {
        int column = columns[k * n + row];
        if (column >= 0)
            sum += values[k * n + row] * x[column];
    }
    y[row] = sum;
}

kernel void page_rank(float damping, global const int *starts, global const int *sources,
                      global const int *degrees, global const float *rank, global float *next) {
    int page = get_global_id(0);
    float sum = 0.0f;
    for (int k = starts[page]; k < starts[page + 1]; k++) {
        int source = sources[k];
        sum += rank[source] / (float)degrees[source];
    }
    next[page] = (1.0f - damping) / get_global_size(0) + damping * sum;
}

// Those reached in one more step.
kernel void bfs_step(int level, global const int *starts, global const int *edges, global int *levels) {
    int at = get_global_id(0);
    if (levels[at] != level)
        return;
    for (int k = starts[at]; k < starts[at + 1]; k++) {
        int to = edges[k];
        if (levels[to] < 0)
            levels[to] = level + 1;
    }
}

kernel void floyd_warshall(int n, int through, global float *paths) {
    int x = get_global_id(0), y = get_global_id(1);
    float direct = paths[y * n + x], other = paths[y * n + through] + paths[through * n + x];
    if (other < direct)
        paths[y * n + x] = other;
}

// One diagonal of the table of two texts' likeness.
kernel void smith_waterman(int diagonal, int n, global const uchar *a, global const uchar *b,
                           global const int *before2, global const int *before, global int *now) {
    int i = get_global_id(0);
    int j = diagonal - i;
    if (j < 0 || j >= n)
        return;
    int match = a[i] == b[j] ? 2 : -1;
    int both = (i > 0 && j > 0 ? before2[i - 1] : 0) + match;
    int one = (i > 0 ? before[i - 1] : 0) - 1, other = (j > 0 ? before[i] : 0) - 1;
    now[i] = max(max(both, 0), max(one, other));
}

// The longest common part of two short texts, a pair for each work-item.
kernel void common_part(global const uchar *a, global const uchar *b, global int *out) {
    size_t i = get_global_id(0), n = get_global_size(0);
    int row[33];
    for (int k = 0; k <= 32; k++)
        row[k] = 0;
    for (int y = 0; y < 32; y++) {
        uchar own = a[y * n + i];
        int corner = 0;
        for (int x = 0; x < 32; x++) {
            int up = row[x + 1];
            row[x + 1] = b[x * n + i] == own ? corner + 1 : max(up, row[x]);
            corner = up;
        }
    }
    out[i] = row[32];
}

// How many letters two words differ in, words of changing length.
kernel void edit_distance(global const uchar *a, global const uchar *b, global const int *lengths,
                          global int *out) {
    size_t i = get_global_id(0);
    global const uchar *one = a + i * 24, *other = b + i * 24;
    int length = lengths[i];
    int row[25];
    for (int x = 0; x <= 24; x++)
        row[x] = x;
    for (int y = 0; y < length; y++) {
        int corner = row[0];
        row[0] = y + 1;
        for (int x = 0; x < 24; x++) {
            int up = row[x + 1];
            int changed = corner + (one[y] != other[x]);
            row[x + 1] = min(changed, min(up, row[x]) + 1);
            corner = up;
        }
    }
    out[i] = row[24];
}

kernel void knapsack_row(int weight, int value, global const int *before, global int *now) {
    int room = get_global_id(0);
    int best = before[room];
    if (room >= weight)
        best = max(best, before[room - weight] + value);
    now[room] = best;
}

kernel void kmeans_assign(int clusters, int axes, int n, global const float *points,
                          global const float *centres, global int *nearest) {
    int i = get_global_id(0);
    float least = FLT_MAX;
    int at = 0;
    for (int c = 0; c < clusters; c++) {
        float distance = 0.0f;
        for (int axis = 0; axis < axes; axis++) {
            float difference = points[axis * n + i] - centres[c * axes + axis];
            distance += difference * difference;
        }
        if (distance < least) {
            least = distance;
            at = c;
        }
    }
    nearest[i] = at;
}

// The four nearest of all points, in order.
kernel void nearest_four(int n, global const float2 *points, global const float2 *queries, global int4 *out) {
    int i = get_global_id(0);
    float2 own = queries[i];
    float best[4] = {FLT_MAX, FLT_MAX, FLT_MAX, FLT_MAX};
    int places[4] = {-1, -1, -1, -1};
    for (int k = 0; k < n; k++) {
        float2 way = points[k] - own;
        float distance = way.x * way.x + way.y * way.y;
        if (distance < best[3]) {
            int at = 3;
            while (at > 0 && best[at - 1] > distance) {
                best[at] = best[at - 1];
                places[at] = places[at - 1];
                at--;
            }
            best[at] = distance;
            places[at] = k;
        }
    }
    out[i] = (int4)(places[0], places[1], places[2], places[3]);
}

kernel void find_text(int length, global const uchar *text, constant uchar *sought, global uchar *found) {
    size_t i = get_global_id(0);
    int same = 0;
    while (same < length && text[i + same] == sought[same])
        same++;
    found[i] = same == length;
}

// Texts of words: how many letters are capital ones, in which case they are changed.
kernel void lower_case(global const uchar *in, global uchar *out) {
    size_t i = get_global_id(0);
    uchar letter = in[i];
    out[i] = letter >= 'A' && letter <= 'Z' ? letter + 32 : letter;
}

kernel void binary_search(int n, global const int *sorted, global const int *keys, global int *places) {
    size_t i = get_global_id(0);
    int key = keys[i], low = 0, high = n;
    while (low < high) {
        int middle = (low + high) >> 1;
        if (sorted[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    places[i] = low;
}
