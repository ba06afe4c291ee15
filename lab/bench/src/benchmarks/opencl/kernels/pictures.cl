// Fractals, rays and noise, and layers of neural networks.

kernel void mandelbrot(int most, global int *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float a = -2.0f + 3.0f * x / get_global_size(0), b = -1.5f + 3.0f * y / get_global_size(1);
    float re = 0.0f, im = 0.0f;
    int count = 0;
    while (re * re + im * im < 4.0f && count < most) {
        float next = re * re - im * im + a;
        im = 2.0f * re * im + b;
        re = next;
        count++;
    }
    out[y * get_global_size(0) + x] = count;
}

kernel void julia(int most, float a, float b, global uchar4 *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float re = -1.5f + 3.0f * x / get_global_size(0), im = -1.5f + 3.0f * y / get_global_size(1);
    int count;
    for (count = 0; count < most; count++) {
        float re2 = re * re, im2 = im * im;
        if (re2 + im2 > 4.0f)
            break;
        im = 2.0f * re * im + b;
        re = re2 - im2 + a;
    }
    uchar shade = 255 * count / most;
    out[y * get_global_size(0) + x] = (uchar4)(shade, shade / 2, 255 - shade, 255);
}

// Which of three roots of z^3 = 1 a point comes to.
kernel void newton(int most, global int *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float re = -1.0f + 2.0f * x / get_global_size(0), im = -1.0f + 2.0f * y / get_global_size(1) + 1e-4f;
    int count = 0;
    for (; count < most; count++) {
        float re2 = re * re - im * im, im2 = 2.0f * re * im;
        float square = re2 * re2 + im2 * im2 + 1e-20f;
        float next_re = (2.0f * re + re2 / square) / 3.0f, next_im = (2.0f * im - im2 / square) / 3.0f;
        float moved = fabs(next_re - re) + fabs(next_im - im);
        re = next_re;
        im = next_im;
        if (moved < 1e-4f)
            break;
    }
    out[y * get_global_size(0) + x] = re > 0.0f ? 0 : (im > 0.0f ? 1 : 2);
}

// Spheres as places and radii, with a light, and one reflection.
kernel void spheres(int count, constant float4 *all, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float width = get_global_size(0), height = get_global_size(1);
    float3 from = (float3)(0.0f, 0.0f, -3.0f);
    float3 way = normalize((float3)((x - 0.5f * width) / width, (y - 0.5f * height) / height, 1.0f));
    float shade = 0.0f, share = 1.0f;
    for (int bounce = 0; bounce < 2; bounce++) {
        float nearest = 1e9f;
        int hit = -1;
        for (int i = 0; i < count; i++) {
            float3 to = all[i].xyz - from;
            float along = dot(to, way), across = dot(to, to) - along * along;
            float radius = all[i].w * all[i].w;
            if (across < radius) {
                float distance = along - sqrt(radius - across);
                if (distance > 0.001f && distance < nearest) {
                    nearest = distance;
                    hit = i;
                }
            }
        }
        if (hit < 0) {
            shade += share * 0.2f;
            break;
        }
        from += way * nearest;
        float3 normal = (from - all[hit].xyz) / all[hit].w;
        float3 light = normalize((float3)(-5.0f, -5.0f, -5.0f) - from);
        shade += share * fmax(dot(normal, light), 0.0f) * 0.7f;
        share *= 0.3f;
        way -= 2.0f * dot(way, normal) * normal;
    }
    out[y * get_global_size(0) + x] = shade;
}

// A ray goes through a field until it is near a surface.
float field(float3 p) {
    float3 q = fabs(p) - (float3)(0.6f);
    float box = length(fmax(q, 0.0f)) + fmin(fmax(q.x, fmax(q.y, q.z)), 0.0f);
    return fmax(box, 0.8f - length(p));
}

kernel void march(int most, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float width = get_global_size(0), height = get_global_size(1);
    float3 way = normalize((float3)((x - 0.5f * width) / width, (y - 0.5f * height) / height, 1.0f));
    float3 from = (float3)(0.3f, 0.2f, -2.5f);
    float gone = 0.0f;
    for (int step = 0; step < most; step++) {
        float near = field(from + way * gone);
        if (near < 0.001f || gone > 6.0f)
            break;
        gone += near;
    }
    out[y * get_global_size(0) + x] = gone;
}

float slope(uint hash, float x, float y) {
    float u = hash & 1 ? x : y, v = hash & 1 ? y : x;
    return (hash & 2 ? -u : u) + (hash & 4 ? -v : v);
}

float perlin(constant uchar *order, float x, float y) {
    float fx = floor(x), fy = floor(y);
    int ix = (int)fx & 255, iy = (int)fy & 255;
    float dx = x - fx, dy = y - fy;
    float ux = dx * dx * dx * (dx * (dx * 6.0f - 15.0f) + 10.0f);
    float uy = dy * dy * dy * (dy * (dy * 6.0f - 15.0f) + 10.0f);
    int right = (ix + 1) & 255, down = (iy + 1) & 255;
    uint a = order[(order[ix] + iy) & 255], b = order[(order[right] + iy) & 255];
    uint c = order[(order[ix] + down) & 255], d = order[(order[right] + down) & 255];
    float up = mix(slope(a, dx, dy), slope(b, dx - 1.0f, dy), ux);
    float low = mix(slope(c, dx, dy - 1.0f), slope(d, dx - 1.0f, dy - 1.0f), ux);
    return mix(up, low, uy);
}

kernel void perlin_noise(int octaves, constant uchar *order, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float scale = 1.0f / 64.0f, share = 1.0f, sum = 0.0f;
    for (int octave = 0; octave < octaves; octave++) {
        sum += share * perlin(order, x * scale, y * scale);
        scale *= 2.0f;
        share *= 0.5f;
    }
    out[y * get_global_size(0) + x] = sum;
}

kernel void quantise(float scale, global const float *in, global char *out) {
    size_t i = get_global_id(0);
    out[i] = convert_char_sat_rte(in[i] * scale);
}

kernel void quantised_product(int n, global const char4 *a, global const char4 *b, global int *c) {
    int x = get_global_id(0), y = get_global_id(1);
    int sum = 0;
    for (int k = 0; k < n / 4; k++) {
        int4 left = convert_int4(a[y * (n / 4) + k]), right = convert_int4(b[x * (n / 4) + k]);
        int4 both = left * right;
        sum += both.x + both.y + both.z + both.w;
    }
    c[y * get_global_size(0) + x] = sum;
}

// A row for each work-group.
kernel void softmax(int n, global const float *in, global float *out) {
    local float part[128];
    int l = get_local_id(0);
    global const float *row = in + get_group_id(0) * n;
    float most = -FLT_MAX;
    for (int i = l; i < n; i += 128)
        most = fmax(most, row[i]);
    part[l] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 64; step > 0; step /= 2) {
        if (l < step)
            part[l] = fmax(part[l], part[l + step]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    most = part[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (int i = l; i < n; i += 128)
        sum += exp(row[i] - most);
    part[l] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 64; step > 0; step /= 2) {
        if (l < step)
            part[l] += part[l + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float inverse = 1.0f / part[0];
    for (int i = l; i < n; i += 128)
        out[get_group_id(0) * n + i] = exp(row[i] - most) * inverse;
}

kernel void gelu(global const float *in, global float *out) {
    size_t i = get_global_id(0);
    float x = 4.0f * in[i] - 2.0f;
    out[i] = 0.5f * x * (1.0f + tanh(0.79788456f * (x + 0.044715f * x * x * x)));
}

kernel void largest_of_four(int w, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    global const float *from = in + 2 * y * w + 2 * x;
    out[y * (w / 2) + x] = fmax(fmax(from[0], from[1]), fmax(from[w], from[w + 1]));
}

kernel void layer_norm(int n, global const float *in, global float *out) {
    int row = get_global_id(0);
    float sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < n; i++) {
        float value = in[row * n + i];
        sum += value;
        squares += value * value;
    }
    float mean = sum / n, inverse = rsqrt(squares / n - mean * mean + 1e-5f);
    for (int i = 0; i < n; i++)
        out[row * n + i] = (in[row * n + i] - mean) * inverse;
}

// Several channels, in and out.
kernel void convolution_layer(int side, int channels, global const float *in, global const float *masks,
                              global float *out) {
    int x = get_global_id(0), y = get_global_id(1), channel = get_global_id(2);
    int wide = side + 2;
    float sum = 0.0f;
    for (int from = 0; from < channels; from++)
        for (int dy = 0; dy < 3; dy++)
            for (int dx = 0; dx < 3; dx++)
                sum += in[(from * wide + y + dy) * wide + x + dx] *
                       masks[(channel * channels + from) * 9 + dy * 3 + dx];
    out[(channel * side + y) * side + x] = fmax(sum, 0.0f);
}
