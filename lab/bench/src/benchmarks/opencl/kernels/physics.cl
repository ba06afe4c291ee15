// Bodies, chance and prices.

kernel void nbody_float4(int n, global const float4 *bodies, global float4 *pulls) {
    int i = get_global_id(0);
    float4 own = bodies[i];
    float3 pull = (float3)(0.0f);
    for (int k = 0; k < n; k++) {
        float4 other = bodies[k];
        float3 way = other.xyz - own.xyz;
        float near = rsqrt(dot(way, way) + 0.01f);
        pull += way * (other.w * near * near * near);
    }
    pulls[i] = (float4)(pull, 0.0f);
}

kernel void nbody_scalars(int n, global const float *x, global const float *y, global const float *z,
                          global const float *mass, global float *ax, global float *ay,
                          global float *az) {
    int i = get_global_id(0);
    float px = x[i], py = y[i], pz = z[i], sx = 0.0f, sy = 0.0f, sz = 0.0f;
    for (int k = 0; k < n; k++) {
        float dx = x[k] - px, dy = y[k] - py, dz = z[k] - pz;
        float near = rsqrt(dx * dx + dy * dy + dz * dz + 0.01f);
        float pull = mass[k] * near * near * near;
        sx += dx * pull;
        sy += dy * pull;
        sz += dz * pull;
    }
    ax[i] = sx;
    ay[i] = sy;
    az[i] = sz;
}

kernel void nbody_tiled(int n, global const float4 *bodies, global float4 *pulls) {
    local float4 tile[64];
    int i = get_global_id(0), l = get_local_id(0);
    float4 own = bodies[i], pull = (float4)(0.0f);
    for (int first = 0; first < n; first += 64) {
        tile[l] = bodies[first + l];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 64; k++) {
            float4 way = tile[k] - own;
            float near = rsqrt(way.x * way.x + way.y * way.y + way.z * way.z + 0.01f);
            pull += way * (tile[k].w * near * near * near);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    pull.w = 0.0f;
    pulls[i] = pull;
}

// Forces between those near each other only.
kernel void lennard_jones(int most, float reach, global const float4 *bodies, global const int *near,
                          global float4 *pulls) {
    int i = get_global_id(0), n = get_global_size(0);
    float4 own = bodies[i], sum = (float4)(0.0f);
    for (int k = 0; k < most; k++) {
        float4 way = bodies[near[k * n + i]] - own;
        float square = way.x * way.x + way.y * way.y + way.z * way.z;
        if (square > 0.0001f && square < reach) {
            float inverse = 1.0f / square, six = inverse * inverse * inverse;
            sum += way * (inverse * six * (six - 0.5f));
        }
    }
    pulls[i] = sum;
}

kernel void verlet(float step, global const float4 *pulls, global float4 *places, global float4 *speeds) {
    size_t i = get_global_id(0);
    float4 speed = speeds[i] + pulls[i] * step;
    float4 place = places[i] + speed * step;
    if (place.x < 0.0f || place.x > 1.0f)
        speed.x = -speed.x;
    if (place.y < 0.0f || place.y > 1.0f)
        speed.y = -speed.y;
    if (place.z < 0.0f || place.z > 1.0f)
        speed.z = -speed.z;
    speeds[i] = speed;
    places[i] = place;
}

uint shifted(uint state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ state << 5;
}

kernel void xorshift(int rounds, global uint *states) {
    size_t i = get_global_id(0);
    uint state = states[i] | 1;
    for (int round = 0; round < rounds; round++)
        state = shifted(state);
    states[i] = state;
}

// A generator that makes numbers of a counter (Salmon, Moraes, Dror and Shaw, 2011).
kernel void philox(uint key, global uint4 *out) {
    uint4 counter = (uint4)((uint)get_global_id(0), 0, 0, 0);
    uint2 keys = (uint2)(key, key ^ 0x5bd1e995u);
    for (int round = 0; round < 10; round++) {
        uint low = counter.x * 0xd2511f53u, high = mul_hi(counter.x, 0xd2511f53u);
        uint low_other = counter.z * 0xcd9e8d57u, high_other = mul_hi(counter.z, 0xcd9e8d57u);
        counter = (uint4)(high_other ^ counter.y ^ keys.x, low_other, high ^ counter.w ^ keys.y, low);
        keys += (uint2)(0x9e3779b9u, 0xbb67ae85u);
    }
    out[get_global_id(0)] = counter;
}

kernel void box_muller(global const float2 *in, global float2 *out) {
    size_t i = get_global_id(0);
    float radius = sqrt(-2.0f * log(in[i].x + 1e-7f)), angle = 6.2831853f * in[i].y;
    out[i] = (float2)(radius * cos(angle), radius * sin(angle));
}

kernel void count_in_circle(int tries, global uint *counts) {
    size_t i = get_global_id(0);
    uint state = (uint)i * 2654435769u | 1, count = 0;
    for (int k = 0; k < tries; k++) {
        state = shifted(state);
        float x = (float)(state >> 8) / 16777216.0f;
        state = shifted(state);
        float y = (float)(state >> 8) / 16777216.0f;
        if (x * x + y * y < 1.0f)
            count++;
    }
    counts[i] = count;
}

float normal_below(float x) {
    float k = 1.0f / (1.0f + 0.2316419f * fabs(x));
    float sum = k * (0.31938153f + k * (-0.356563782f +
                k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.39894228f * exp(-0.5f * x * x) * sum;
    return x > 0.0f ? 1.0f - tail : tail;
}

kernel void black_scholes(float rate, float spread, global const float *price, global const float *strike,
                          global const float *years, global float *call, global float *put) {
    size_t i = get_global_id(0);
    float s = 5.0f + 25.0f * price[i], k = 1.0f + 99.0f * strike[i], t = 0.25f + 9.75f * years[i];
    float root = sqrt(t);
    float d1 = (log(s / k) + (rate + 0.5f * spread * spread) * t) / (spread * root);
    float d2 = d1 - spread * root;
    float below1 = normal_below(d1), below2 = normal_below(d2), later = k * exp(-rate * t);
    call[i] = s * below1 - later * below2;
    put[i] = later * (1.0f - below2) - s * (1.0f - below1);
}

// The mean of a price along a path, paths of each work-item's own.
kernel void asian_option(int paths, int steps, float drift, float spread, global float *out) {
    size_t i = get_global_id(0);
    uint state = (uint)i * 747796405u + 2891336453u;
    float sum = 0.0f;
    for (int path = 0; path < paths; path++) {
        float price = 1.0f, mean = 0.0f;
        for (int step = 0; step < steps; step++) {
            float chance = -6.0f;
            for (int k = 0; k < 12; k++) {
                state = state * 1664525u + 1013904223u;
                chance += (float)(state >> 8) / 16777216.0f;
            }
            price *= native_exp(drift + spread * chance);
            mean += price;
        }
        sum += fmax(mean / steps - 1.0f, 0.0f);
    }
    out[i] = sum / paths;
}

// A price by going back through a tree, in local memory.
kernel void binomial_option(float up, float down, float chance, float less, global const float *strikes,
                            global float *out) {
    local float values[256];
    int l = get_local_id(0);
    float strike = 80.0f + 40.0f * strikes[get_group_id(0)];
    float price = 100.0f * pow(up, (float)(255 - l)) * pow(down, (float)l);
    values[l] = fmax(price - strike, 0.0f);
    for (int step = 255; step > 0; step--) {
        barrier(CLK_LOCAL_MEM_FENCE);
        float value = 0.0f;
        if (l < step)
            value = less * (chance * values[l] + (1.0f - chance) * values[l + 1]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < step)
            values[l] = value;
    }
    if (l == 0)
        out[get_group_id(0)] = values[0];
}

// Walkers on a grid of obstacles.
kernel void random_walk(int steps, int side, global const uchar *blocked, global int2 *places) {
    size_t i = get_global_id(0);
    uint state = (uint)i * 2654435769u | 1;
    int x = side / 2, y = side / 2;
    for (int step = 0; step < steps; step++) {
        state = shifted(state);
        int nx = x, ny = y;
        switch (state >> 16 & 3) {
        case 0: nx = x + 1; break;
        case 1: nx = x - 1; break;
        case 2: ny = y + 1; break;
        default: ny = y - 1;
        }
        if (nx >= 0 && ny >= 0 && nx < side && ny < side && !blocked[ny * side + nx]) {
            x = nx;
            y = ny;
        }
    }
    places[i] = (int2)(x, y);
}
