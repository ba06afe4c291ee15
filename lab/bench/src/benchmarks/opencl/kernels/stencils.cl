// Grids of which each point changes by its neighbours.

kernel void stencil5(int w, int h, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1)
        return;
    int at = y * w + x;
    out[at] = 0.2f * (in[at] + in[at - 1] + in[at + 1] + in[at - w] + in[at + w]);
}

kernel void stencil9(int w, int h, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && y > 0 && x < w - 1 && y < h - 1) {
        float sum = 0.0f;
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                sum += in[(y + dy) * w + x + dx] * (dx == 0 && dy == 0 ? 0.2f : 0.1f);
        out[y * w + x] = sum;
    }
}

kernel void stencil7(int w, int h, int d, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    if (x < 1 || y < 1 || z < 1 || x >= w - 1 || y >= h - 1 || z >= d - 1)
        return;
    int at = (z * h + y) * w + x;
    out[at] = 0.4f * in[at] + 0.1f * (in[at - 1] + in[at + 1] + in[at - w] + in[at + w] +
                                      in[at - w * h] + in[at + w * h]);
}

// At the edges the grid goes on at the other side.
kernel void life(int w, int h, global const uchar *in, global uchar *out) {
    int x = get_global_id(0), y = get_global_id(1);
    int left = x == 0 ? w - 1 : x - 1, right = x == w - 1 ? 0 : x + 1;
    int up = y == 0 ? h - 1 : y - 1, down = y == h - 1 ? 0 : y + 1;
    int near = in[up * w + left] + in[up * w + x] + in[up * w + right] + in[y * w + left] +
               in[y * w + right] + in[down * w + left] + in[down * w + x] + in[down * w + right];
    out[y * w + x] = near == 3 || (near == 2 && in[y * w + x]);
}

// Tiles of 16 x 16 with a border, in local memory.
#define SIDE 16
kernel void heat_tile(int w, int h, float rate, global const float *in, global float *out) {
    local float tile[SIDE + 2][SIDE + 2];
    int lx = get_local_id(0), ly = get_local_id(1);
    int x = get_global_id(0), y = get_global_id(1);
    tile[ly + 1][lx + 1] = in[y * w + x];
    if (lx == 0)
        tile[ly + 1][0] = x > 0 ? in[y * w + x - 1] : 0.0f;
    if (lx == SIDE - 1)
        tile[ly + 1][SIDE + 1] = x < w - 1 ? in[y * w + x + 1] : 0.0f;
    if (ly == 0)
        tile[0][lx + 1] = y > 0 ? in[(y - 1) * w + x] : 0.0f;
    if (ly == SIDE - 1)
        tile[SIDE + 1][lx + 1] = y < h - 1 ? in[(y + 1) * w + x] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    float middle = tile[ly + 1][lx + 1];
    out[y * w + x] = middle + rate * (tile[ly + 1][lx] + tile[ly + 1][lx + 2] + tile[ly][lx + 1] +
                                      tile[ly + 2][lx + 1] - 4.0f * middle);
}

// Several steps of a line in local memory.
kernel void heat_line(int steps, float rate, global float *data) {
    local float now[2][256];
    int l = get_local_id(0), n = get_local_size(0);
    int from = 0;
    now[0][l] = data[get_global_id(0)];
    for (int step = 0; step < steps; step++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        float left = l > 0 ? now[from][l - 1] : 0.0f;
        float right = l < n - 1 ? now[from][l + 1] : 0.0f;
        now[1 - from][l] = now[from][l] + rate * (left + right - 2.0f * now[from][l]);
        from = 1 - from;
    }
    data[get_global_id(0)] = now[from][l];
}

kernel void wave(int w, int h, float speed, global const float *now, global float *before) {
    int x = get_global_id(0), y = get_global_id(1);
    int at = y * w + x;
    float left = x > 0 ? now[at - 1] : 0.0f, right = x + 1 < w ? now[at + 1] : 0.0f;
    float up = y > 0 ? now[at - w] : 0.0f, down = y + 1 < h ? now[at + w] : 0.0f;
    float middle = now[at];
    before[at] = 2.0f * middle - before[at] + speed * (left + right + up + down - 4.0f * middle);
}

// A step of a gas on a lattice of nine directions: numbers are in planes.
constant int along_x[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
constant int along_y[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
constant float weights[9] = {4.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9,
                             1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};
kernel void lattice_gas(int w, int h, float rate, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    int plane = w * h;
    float f[9], density = 0.0f, vx = 0.0f, vy = 0.0f;
    for (int i = 0; i < 9; i++) {
        int sx = (x - along_x[i] + w) & (w - 1), sy = (y - along_y[i] + h) & (h - 1);
        f[i] = in[i * plane + sy * w + sx];
        density += f[i];
        vx += f[i] * along_x[i];
        vy += f[i] * along_y[i];
    }
    vx /= density;
    vy /= density;
    float square = 1.5f * (vx * vx + vy * vy);
    for (int i = 0; i < 9; i++) {
        float along = 3.0f * (vx * along_x[i] + vy * along_y[i]);
        float still = weights[i] * density * (1.0f + along + 0.5f * along * along - square);
        out[i * plane + y * w + x] = f[i] + rate * (still - f[i]);
    }
}
