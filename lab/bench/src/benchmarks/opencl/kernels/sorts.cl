// Sorts, scans, histograms and reductions.

// 512 numbers by 256 work-items.
kernel void bitonic_local(global uint *data) {
    local uint memory[512];
    int l = get_local_id(0);
    global uint *own = data + get_group_id(0) * 512;
    memory[l] = own[l];
    memory[l + 256] = own[l + 256];
    for (int length = 2; length <= 512; length *= 2)
        for (int step = length / 2; step > 0; step /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            int at = 2 * l - (l & (step - 1));
            uint a = memory[at], b = memory[at + step];
            bool rises = (at & length) == 0;
            if ((a > b) == rises) {
                memory[at] = b;
                memory[at + step] = a;
            }
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    own[l] = memory[l];
    own[l + 256] = memory[l + 256];
}

kernel void bitonic_step(int length, int step, global uint *data) {
    int i = get_global_id(0);
    int at = 2 * i - (i & (step - 1));
    uint a = data[at], b = data[at + step];
    bool rises = (at & length) == 0;
    data[at] = rises ? min(a, b) : max(a, b);
    data[at + step] = rises ? max(a, b) : min(a, b);
}

// 128 numbers by 64 work-items: neighbours change places, even and odd ones in turn.
kernel void odd_even_local(global int *data) {
    local int memory[128];
    int l = get_local_id(0);
    global int *own = data + get_group_id(0) * 128;
    memory[l] = own[l];
    memory[l + 64] = own[l + 64];
    for (int turn = 0; turn < 128; turn++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        int at = 2 * l + (turn & 1);
        if (at + 1 < 128 && memory[at] > memory[at + 1]) {
            int other = memory[at];
            memory[at] = memory[at + 1];
            memory[at + 1] = other;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    own[l] = memory[l];
    own[l + 64] = memory[l + 64];
}

// How often each digit of four bits is among the numbers of a group.
kernel void radix_count(int shift, global const uint *in, global uint *counts) {
    local uint digits[16];
    int l = get_local_id(0);
    if (l < 16)
        digits[l] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_inc(&digits[in[get_global_id(0)] >> shift & 15]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < 16)
        counts[l * get_num_groups(0) + get_group_id(0)] = digits[l];
}

// Where the numbers of each group and digit begin: one work-group, a digit's groups for each of 16 work-items.
kernel void radix_starts(int groups, global uint *counts) {
    local uint totals[16];
    int l = get_local_id(0);
    uint sum = 0;
    for (int i = 0; i < groups; i++)
        sum += counts[l * groups + i];
    totals[l] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint start = 0;
    for (int i = 0; i < l; i++)
        start += totals[i];
    for (int i = 0; i < groups; i++) {
        uint count = counts[l * groups + i];
        counts[l * groups + i] = start;
        start += count;
    }
}

// Each number goes after those of its group with the same digit that are before it.
kernel void radix_scatter(int shift, global const uint *in, global const uint *starts, global uint *out) {
    local uchar digits[128];
    int l = get_local_id(0);
    uint value = in[get_global_id(0)];
    uchar digit = value >> shift & 15;
    digits[l] = digit;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint before = 0;
    for (int i = 0; i < 128; i++)
        before += i < l && digits[i] == digit;
    out[starts[digit * get_num_groups(0) + get_group_id(0)] + before] = value;
}

// Two sorted halves of 256 numbers become one: each looks for its place among the others.
kernel void merge_local(global const int *in, global int *out) {
    local int memory[256];
    int l = get_local_id(0);
    size_t first = get_group_id(0) * 256;
    int value = in[first + l];
    memory[l] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    bool is_right = l >= 128;
    int low = is_right ? 0 : 128, start = low, high = low + 128;
    while (low < high) {
        int middle = (low + high) / 2;
        bool goes_before = is_right ? memory[middle] <= value : memory[middle] < value;
        if (goes_before)
            low = middle + 1;
        else
            high = middle;
    }
    out[first + (l & 127) + low - start] = value;
}

// Each number counts those that are smaller.
kernel void rank_sort(int n, global const float *in, global float *out) {
    int i = get_global_id(0);
    float own = in[i];
    int place = 0;
    for (int k = 0; k < n; k++)
        place += in[k] < own || (in[k] == own && k < i);
    out[place] = own;
}

kernel void scan_hillis_steele(global const int *in, global int *out, global int *sums) {
    local int memory[2][256];
    int l = get_local_id(0), from = 0;
    memory[0][l] = in[get_global_id(0)];
    for (int step = 1; step < 256; step *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        memory[1 - from][l] = l >= step ? memory[from][l] + memory[from][l - step] : memory[from][l];
        from = 1 - from;
    }
    out[get_global_id(0)] = memory[from][l];
    if (l == 255)
        sums[get_group_id(0)] = memory[from][l];
}

// 512 numbers by 256 work-items.
kernel void scan_blelloch(global const int *in, global int *out) {
    local int memory[512];
    int l = get_local_id(0), step = 1;
    size_t first = get_group_id(0) * 512;
    memory[2 * l] = in[first + 2 * l];
    memory[2 * l + 1] = in[first + 2 * l + 1];
    for (int count = 256; count > 0; count /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < count)
            memory[step * (2 * l + 2) - 1] += memory[step * (2 * l + 1) - 1];
        step *= 2;
    }
    if (l == 0)
        memory[511] = 0;
    for (int count = 1; count < 512; count *= 2) {
        step /= 2;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < count) {
            int left = step * (2 * l + 1) - 1, right = step * (2 * l + 2) - 1;
            int sum = memory[left];
            memory[left] = memory[right];
            memory[right] += sum;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    out[first + 2 * l] = memory[2 * l];
    out[first + 2 * l + 1] = memory[2 * l + 1];
}

kernel void scan_add(global const int *sums, global int *data) {
    data[get_global_id(0)] += sums[get_group_id(0)];
}

kernel void histogram_local(int n, global const uchar *in, global uint *counts) {
    local uint own[256];
    int l = get_local_id(0);
    own[l] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&own[in[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&counts[l], own[l]);
}

kernel void histogram_global(global const uchar *in, global uint *counts) {
    atomic_inc(&counts[in[get_global_id(0)]]);
}

// Counts of each work-item's own, of few kinds.
kernel void histogram_private(int each, global const uchar *in, global uint *counts) {
    uint own[16];
    for (int i = 0; i < 16; i++)
        own[i] = 0;
    global const uchar *first = in + get_global_id(0) * each;
    for (int i = 0; i < each; i++)
        own[first[i] >> 4]++;
    for (int i = 0; i < 16; i++)
        counts[i * get_global_size(0) + get_global_id(0)] = own[i];
}

kernel void reduce_tree(global const float *in, global float *sums, local float *part) {
    uint l = get_local_id(0);
    part[l] = in[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = get_local_size(0) / 2; step > 0; step /= 2) {
        if (l < step)
            part[l] += part[l + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0)
        sums[get_group_id(0)] = part[0];
}

// Neighbours first, so that those who work are apart.
kernel void reduce_interleaved(global const float *in, global float *sums, local float *part) {
    uint l = get_local_id(0);
    part[l] = in[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < get_local_size(0); step *= 2) {
        if (l % (2 * step) == 0)
            part[l] += part[l + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0)
        sums[get_group_id(0)] = part[0];
}

kernel void reduce_sequential(int each, global const float *in, global float *sums) {
    size_t i = get_global_id(0);
    float sum = 0.0f;
    for (int k = 0; k < each; k++)
        sum += in[i * each + k];
    sums[i] = sum;
}

// Extremes of a group, and where the largest is.
kernel void reduce_extremes(int n, global const float *in, global float *least, global int *place) {
    local float lows[128], highs[128];
    local int places[128];
    int l = get_local_id(0), at = get_global_id(0);
    float low = in[at], high = low;
    for (int i = at; i < n; i += get_global_size(0)) {
        float value = in[i];
        low = fmin(low, value);
        if (value > high) {
            high = value;
            at = i;
        }
    }
    lows[l] = low;
    highs[l] = high;
    places[l] = at;
    for (int step = 64; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < step) {
            lows[l] = fmin(lows[l], lows[l + step]);
            if (highs[l + step] > highs[l]) {
                highs[l] = highs[l + step];
                places[l] = places[l + step];
            }
        }
    }
    if (l == 0) {
        least[get_group_id(0)] = lows[0];
        place[get_group_id(0)] = places[0];
    }
}

// Segments begin at `starts`, and a work-item has one.
kernel void reduce_segments(global const int *starts, global const float *in, global float *sums) {
    size_t i = get_global_id(0);
    float sum = 0.0f;
    for (int k = starts[i]; k < starts[i + 1]; k++)
        sum += in[k];
    sums[i] = sum;
}

// Numbers above a bound, those of each group next to each other.
kernel void compact_groups(float bound, global const float *in, global float *out, global int *counts) {
    local int places[256];
    int l = get_local_id(0);
    float value = in[get_global_id(0)];
    places[l] = value > bound;
    for (int step = 1; step < 256; step *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        int sum = l >= step ? places[l - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        places[l] += sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (value > bound)
        out[get_group_id(0) * 256 + places[l] - 1] = value;
    if (l == 255)
        counts[get_group_id(0)] = places[l];
}
