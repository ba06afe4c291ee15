// Fourier transforms and their relatives.

float2 product(float2 a, float2 b) {
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

float2 root(float turn) {
    float angle = -6.2831853f * turn;
    return (float2)(native_cos(angle), native_sin(angle));
}

// 512 numbers by 256 work-items in local memory, each of which makes one butterfly of a pass (Stockham).
kernel void fft_radix2(global float2 *data) {
    local float2 memory[2][512];
    int l = get_local_id(0);
    global float2 *own = data + get_group_id(0) * 512;
    memory[0][l] = own[l];
    memory[0][l + 256] = own[l + 256];
    barrier(CLK_LOCAL_MEM_FENCE);
    int from = 0;
    for (int length = 1; length < 512; length *= 2) {
        int within = l & (length - 1);
        float2 a = memory[from][l];
        float2 b = product(memory[from][l + 256], root((float)within / (float)(2 * length)));
        int to = 2 * (l - within) + within;
        memory[1 - from][to] = a + b;
        memory[1 - from][to + length] = a - b;
        from = 1 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    own[l] = memory[from][l];
    own[l + 256] = memory[from][l + 256];
}

// 1024 numbers by 256 work-items.
kernel void fft_radix4(global float2 *data) {
    local float2 memory[1024];
    int l = get_local_id(0);
    global float2 *own = data + get_group_id(0) * 1024;
    float2 part[4];
    for (int i = 0; i < 4; i++)
        part[i] = own[l + 256 * i];
    for (int length = 1; length < 1024; length *= 4) {
        int within = l & (length - 1);
        float turn = (float)within / (float)(4 * length);
        for (int i = 1; i < 4; i++)
            part[i] = product(part[i], root(turn * i));
        float2 a = part[0] + part[2], b = part[0] - part[2];
        float2 c = part[1] + part[3], d = part[1] - part[3];
        d = (float2)(d.y, -d.x);
        int to = 4 * (l - within) + within;
        memory[to] = a + c;
        memory[to + length] = b + d;
        memory[to + 2 * length] = a - c;
        memory[to + 3 * length] = b - d;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < 4; i++)
            part[i] = memory[l + 256 * i];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; i++)
        own[l + 256 * i] = part[i];
}

// One pass over all numbers in global memory.
kernel void fft_pass(int length, global const float2 *in, global float2 *out) {
    int i = get_global_id(0), half_of = get_global_size(0);
    int within = i & (length - 1);
    float2 a = in[i];
    float2 b = product(in[i + half_of], root((float)within / (float)(2 * length)));
    int to = 2 * (i - within) + within;
    out[to] = a + b;
    out[to + length] = a - b;
}

kernel void dft_naive(int n, global const float2 *in, global float2 *out) {
    int k = get_global_id(0);
    float2 sum = (float2)(0.0f);
    for (int i = 0; i < n; i++)
        sum += product(in[i], root((float)((k * i) & (n - 1)) / (float)n));
    out[k] = sum;
}

// Squares of 8 x 8 pixels, as in JPEG, by 8 x 8 work-items.
kernel void dct8x8(int width, global const float *in, global float *out) {
    local float square[8][8], rows[8][8];
    int lx = get_local_id(0), ly = get_local_id(1);
    size_t at = get_global_id(1) * width + get_global_id(0);
    square[ly][lx] = in[at];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (int k = 0; k < 8; k++)
        sum += square[ly][k] * native_cos(0.19634954f * (2 * k + 1) * lx);
    rows[ly][lx] = sum * (lx == 0 ? 0.35355339f : 0.5f);
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0.0f;
    for (int k = 0; k < 8; k++)
        sum += rows[k][lx] * native_cos(0.19634954f * (2 * k + 1) * ly);
    out[at] = sum * (ly == 0 ? 0.35355339f : 0.5f);
}

// 512 numbers by 256 work-items.
kernel void walsh_hadamard(global float *data) {
    local float memory[512];
    int l = get_local_id(0);
    global float *own = data + get_group_id(0) * 512;
    memory[l] = own[l];
    memory[l + 256] = own[l + 256];
    for (int step = 1; step < 512; step *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        int at = 2 * l - (l & (step - 1));
        float a = memory[at], b = memory[at + step];
        memory[at] = a + b;
        memory[at + step] = a - b;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    own[l] = memory[l];
    own[l + 256] = memory[l + 256];
}

kernel void haar(global const float *in, global float *out) {
    local float memory[256];
    int l = get_local_id(0);
    size_t first = get_group_id(0) * 256;
    memory[l] = in[first + l];
    for (int length = 128; length > 0; length /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        float sum = 0.0f;
        if (l < length) {
            float a = memory[2 * l], b = memory[2 * l + 1];
            sum = (a + b) * 0.70710678f;
            out[first + length + l] = (a - b) * 0.70710678f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < length)
            memory[l] = sum;
    }
    if (l == 0)
        out[first] = memory[0];
}
