// Convolutions and filters of images.

kernel void convolve_line(int radius, global const float *in, constant float *mask, global float *out) {
    int i = get_global_id(0);
    float sum = 0.0f;
    for (int k = 0; k <= 2 * radius; k++)
        sum += in[i + k] * mask[k];
    out[i] = sum;
}

// Along rows, with a part of the row in local memory.
#define RADIUS 8
kernel void convolve_rows(int w, global const float *in, constant float *mask, global float *out) {
    local float row[128 + 2 * RADIUS];
    int l = get_local_id(0), x = get_global_id(0), y = get_global_id(1);
    row[l + RADIUS] = in[y * w + x];
    if (l < RADIUS) {
        row[l] = x >= RADIUS ? in[y * w + x - RADIUS] : 0.0f;
        row[l + 128 + RADIUS] = x + 128 < w ? in[y * w + x + 128] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (int k = 0; k <= 2 * RADIUS; k++)
        sum += row[l + k] * mask[k];
    out[y * w + x] = sum;
}

kernel void convolve_columns(int w, int h, global const float *in, constant float *mask,
                             global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int k = -RADIUS; k <= RADIUS; k++) {
        int from = clamp(y + k, 0, h - 1);
        sum += in[from * w + x] * mask[k + RADIUS];
    }
    out[y * w + x] = sum;
}

constant float mask5[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};
kernel void convolve5x5(int w, int h, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int dy = 0; dy < 5; dy++)
        for (int dx = 0; dx < 5; dx++) {
            int from_x = min(max(x + dx - 2, 0), w - 1), from_y = min(max(y + dy - 2, 0), h - 1);
            sum += in[from_y * w + from_x] * mask5[dy * 5 + dx];
        }
    out[y * w + x] = sum / 256.0f;
}

kernel void sobel(int w, int h, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x == 0 || y == 0 || x >= w - 1 || y >= h - 1)
        return;
    global const float *up = in + (y - 1) * w + x, *at = up + w, *down = at + w;
    float gx = up[1] - up[-1] + 2.0f * (at[1] - at[-1]) + down[1] - down[-1];
    float gy = down[-1] - up[-1] + 2.0f * (down[0] - up[0]) + down[1] - up[1];
    out[y * w + x] = sqrt(gx * gx + gy * gy);
}

#define ORDER(a, b) { float low = fmin(p[a], p[b]); p[b] = fmax(p[a], p[b]); p[a] = low; }
kernel void median3x3(int w, int h, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x == 0 || y == 0 || x >= w - 1 || y >= h - 1)
        return;
    float p[9];
    for (int i = 0; i < 9; i++)
        p[i] = in[(y + i / 3 - 1) * w + x + i % 3 - 1];
    ORDER(1, 2) ORDER(4, 5) ORDER(7, 8) ORDER(0, 1) ORDER(3, 4) ORDER(6, 7) ORDER(1, 2) ORDER(4, 5)
    ORDER(7, 8) ORDER(0, 3) ORDER(5, 8) ORDER(4, 7) ORDER(3, 6) ORDER(1, 4) ORDER(2, 5) ORDER(4, 7)
    ORDER(4, 2) ORDER(6, 4) ORDER(4, 2)
    out[y * w + x] = p[4];
}

// A median of bytes by counting, with an array of each work-item's own.
kernel void median_sorted(int w, int h, global const uchar *in, global uchar *out) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x < 2 || y < 2 || x >= w - 2 || y >= h - 2)
        return;
    uchar window[25];
    int count = 0;
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++) {
            uchar value = in[(y + dy) * w + x + dx];
            int at = count++;
            while (at > 0 && window[at - 1] > value) {
                window[at] = window[at - 1];
                at--;
            }
            window[at] = value;
        }
    out[y * w + x] = window[12];
}

kernel void bilateral(int w, int h, float near, float like, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x < 3 || y < 3 || x >= w - 3 || y >= h - 3)
        return;
    float middle = in[y * w + x], sum = 0.0f, weight = 0.0f;
    for (int dy = -3; dy <= 3; dy++)
        for (int dx = -3; dx <= 3; dx++) {
            float value = in[(y + dy) * w + x + dx], difference = value - middle;
            float part = exp(-near * (dx * dx + dy * dy) - like * difference * difference);
            sum += part * value;
            weight += part;
        }
    out[y * w + x] = sum / weight;
}

kernel void box_blur(int w, int h, int radius, global const uchar4 *in, global uchar4 *out) {
    int x = get_global_id(0), y = get_global_id(1);
    int4 sum = (int4)(0);
    int count = 0;
    for (int dx = -radius; dx <= radius; dx++) {
        int from = x + dx;
        if (from >= 0 && from < w) {
            sum += convert_int4(in[y * w + from]);
            count++;
        }
    }
    out[y * w + x] = convert_uchar4(sum / count);
}

kernel void grey(global const uchar4 *in, global uchar *out) {
    size_t i = get_global_id(0);
    float4 colour = convert_float4(in[i]);
    out[i] = convert_uchar_sat_rte(0.299f * colour.x + 0.587f * colour.y + 0.114f * colour.z);
}

kernel void gamma_curve(float exponent, global const float *in, global float *out) {
    size_t i = get_global_id(0);
    out[i] = pow(in[i], exponent);
}

kernel void resize_bilinear(int w, int h, int wide, int high, global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    float sx = (x + 0.5f) * w / wide - 0.5f, sy = (y + 0.5f) * h / high - 0.5f;
    float fx = floor(sx), fy = floor(sy);
    int x0 = clamp((int)fx, 0, w - 1), x1 = clamp((int)fx + 1, 0, w - 1);
    int y0 = clamp((int)fy, 0, h - 1), y1 = clamp((int)fy + 1, 0, h - 1);
    float up = mix(in[y0 * w + x0], in[y0 * w + x1], sx - fx);
    float down = mix(in[y1 * w + x0], in[y1 * w + x1], sx - fx);
    out[y * wide + x] = mix(up, down, sy - fy);
}

kernel void dilate(int w, int h, global const uchar *in, global uchar *out) {
    int x = get_global_id(0), y = get_global_id(1);
    uchar most = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            int from_x = x + dx, from_y = y + dy;
            if (from_x >= 0 && from_x < w && from_y >= 0 && from_y < h)
                most = max(most, in[from_y * w + from_x]);
        }
    out[y * w + x] = most;
}

kernel void threshold_hsv(global const uchar4 *in, global uchar *out) {
    size_t i = get_global_id(0);
    float4 c = convert_float4(in[i]) / 255.0f;
    float most = fmax(c.x, fmax(c.y, c.z)), least = fmin(c.x, fmin(c.y, c.z)), range = most - least;
    float hue = 0.0f;
    if (range > 0.0f) {
        if (most == c.x)
            hue = (c.y - c.z) / range;
        else if (most == c.y)
            hue = 2.0f + (c.z - c.x) / range;
        else
            hue = 4.0f + (c.x - c.y) / range;
        if (hue < 0.0f)
            hue += 6.0f;
    }
    out[i] = hue > 1.5f && hue < 3.25f && range > 0.25f * most ? 255 : 0;
}
